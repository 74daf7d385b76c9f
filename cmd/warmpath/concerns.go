package main

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/panics"
)

// concerns are what is wrong beside the fleet: certificates that end, files that cannot be written, publishers of KV
// events that are not believed, and faults of this program.
func (r *router) concerns(g *generation) (all []admin.Concern) {
	for _, c := range g.certificates {
		if trouble := c.Trouble(time.Now()); trouble != "" {
			all = append(all, admin.Concern{
				What: trouble + ".", Do: "Write the new certificate and its key over the old ones: " +
					"the files are read again when they change, and open connections go on.",
			})
		}
	}
	for _, file := range r.unwritten(g) {
		all = append(all, admin.Concern{
			What: fmt.Sprintf("%s cannot be written, and what was to go there is lost: %s.", file[0], file[1]),
			Do: "Make room on its disk, or correct its directory's rights. Requests are served as before, " +
				"and the file goes on by itself.",
		})
	}
	if p := g.events.Publishers(); p.Foreign > 0 {
		all = append(all, admin.Concern{
			What: fmt.Sprintf("KV events: %d topics at kv_events.listen name an endpoint and come from another "+
				"address than its own; they are not believed.", p.Foreign),
			Do: "Where an engine's connections come from another address (NAT, a service's address, a forwarder), " +
				"state its topic as the endpoint's kv_topic. Otherwise see in the log who sends them.",
		})
	}
	if g.events.Refusing() {
		all = append(all, admin.Concern{
			What: "KV events: connections to kv_events.listen are refused.",
			Do:   "The log says whose and why: an address outside kv_events.allow, or too many connections.",
		})
	}
	for who, n := range panics.Counts() {
		if n == 0 {
			continue
		}
		all = append(all, admin.Concern{
			What: fmt.Sprintf("This program has a fault: %s panicked %d times. "+
				"What it worked on is dropped, and the router goes on.", who, n),
			Do: "Please report it with the stack in the log.",
		})
	}
	return all
}

// unwritten are the settings whose files cannot be written now, each with why.
func (r *router) unwritten(g *generation) (all [][2]string) {
	note := func(setting string, err error) {
		if err != nil {
			all = append(all, [2]string{setting, err.Error()})
		}
	}
	if r.keeper != nil {
		note("state.file", r.keeper.Trouble())
	}
	if g.access.Log != nil {
		note("access_log.file", g.access.Trouble())
	}
	if g.recording.Recorder != nil {
		note("record.file", g.recording.Trouble())
	}
	if g.why.lines != nil {
		note("explain.file", g.why.lines.Trouble())
	}
	return all
}
