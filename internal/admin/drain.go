package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

const (
	maxWait   = time.Hour // of a drain
	drainPoll = 50 * time.Millisecond
)

func (a *Admin) undrain(w http.ResponseWriter, r *http.Request, name string) {
	for _, s := range a.find(name) {
		a.c.Fleet.Observe(route.Drain{Endpoint: s.Endpoint.Name, Off: true})
		noteCall(r, "endpoint", s.Endpoint.Name)
	}
	a.show(w, r, name)
}

// drain stops new traffic to an endpoint, or to all ranks or slots of an engine. With ?wait=30s it answers 200 as soon
// as no request is outstanding there, or 202 when the time is over.
func (a *Admin) drain(w http.ResponseWriter, r *http.Request, name string) {
	var wait time.Duration
	if s := r.URL.Query().Get("wait"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > maxWait {
			fail(http.StatusBadRequest, "bad_wait", "wait=%s is not a duration between 0s and %s, such as 30s",
				s, maxWait).write(w)
			return
		}
		wait = d
	}
	all := a.find(name)
	for i := range all {
		a.c.Fleet.Observe(route.Drain{Endpoint: all[i].Endpoint.Name})
		noteCall(r, "endpoint", all[i].Endpoint.Name)
	}
	status := http.StatusOK
	if len(all) > 0 && wait > 0 && !a.idle(r.Context(), name, wait) {
		status = http.StatusAccepted
	}
	heard, now := a.c.Tally.endpoints(nil), map[string]route.EndpointStatus{}
	for _, s := range a.find(name) {
		now[s.Endpoint.Name] = s
	}
	views := make([]endpointView, 0, len(all))
	for i := range all {
		s, still := now[all[i].Endpoint.Name]
		if !still { // removed while it was drained
			s = all[i]
			s.Draining, s.Gone, s.Load = true, true, fleet.Load{}
		}
		views = append(views, viewEndpoint(a.c.Now(), &s, heard[s.Endpoint.Name]))
	}
	writeViews(w, status, name, views)
}

// idle waits until no request is outstanding at the endpoints of a name. It polls the fleet, since a handler must not
// wait inside a listener.
func (a *Admin) idle(ctx context.Context, name string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		outstanding := 0
		for _, s := range a.find(name) {
			outstanding += s.Load.Requests + s.Load.TransferRequests
		}
		if outstanding == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
