package health

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// An engine may stop computing while its server goes on: a collective operation of several GPUs that never ends, a
// hanging kernel, a deadlocked scheduler. Its health check succeeds, its connections stay open, and no data comes. A
// single request cannot tell this from a long queue; an overdue answer together with silence of the whole endpoint can.

// Waiting is what an endpoint was sent and has not answered, and what bears on how long that may take.
type Waiting struct {
	Recent, Older backlog.Unanswered // sent since the endpoint was last ejected for silence, and before
	LongestMs     float64            // the longest answer that is not streamed may take; 0 unknown
	Kind          fleet.Kind
	Places        int // requests that it computes at once; 0 unknown
	// how many were sent up to a moment whose answers are not streamed and not overdue
	NonStreamingBefore func(moment time.Time) int
}

// IsQuiet reports whether an endpoint that is not ejected for silence has sent nothing for Config.Silent: if it has
// requests, Listen is to judge it.
func (r Reader) IsQuiet(now time.Time, slot int) bool {
	e := r.t.endpoints.Get(slot)
	return r.t.cfg.Silent >= 0 && !e.silent(now) && now.Sub(e.lastByteAt) >= r.t.cfg.Silent
}

// standsTimes is how many times Silent an endpoint may say that it has requests and computes nothing: kernels are
// compiled for new shapes within requests.
const standsTimes = 6

// Listen ejects a quiet endpoint with an answer overdue, and reports whether it did. After an ejection for silence only
// what was sent since counts: an engine that has recovered may have lost the rest, and its trial is not to end by that.
// If nothing tries it for a while, the rest counts again, so that it moves as soon as another endpoint is up.
func (t *Table) Listen(now time.Time, slot int, w *Waiting) bool {
	e, recent, older, silent := t.endpoints.Get(slot), w.Recent, w.Older, t.cfg.Silent
	if e.loadsAnyModel(now) {
		return false // timeouts.first_byte bounds the wait of each request
	}
	late, lateSince := recent.Late, recent.LateSince
	if untried := recent.Jobs == 0 && now.Sub(e.ejectedUntil) >= silent; !late && older.Late && untried {
		late, lateSince = true, older.LateSince
	}
	// its own figures tell more than expectations of answers, of which some have none
	stands := e.standsFor() >= standsTimes*silent && now.Sub(recent.Since) >= standsTimes*silent
	computes := now.Sub(e.moved) < silent // however slowly
	if !stands && !t.lost(now, e, w) && (!late || computes || e.occupied(w, lateSince)) {
		return false
	}
	least := now.Sub(recent.Since)
	if older.Since.Before(recent.Since) {
		recent.Since = older.Since
	}
	t.ejectSilent(now, slot, recent.Jobs+older.Jobs, now.Sub(recent.Since).Round(time.Second),
		least.Round(time.Second))
	return true
}

// ejectSilent ejects an endpoint, for at least a time, that sends nothing although answers are overdue: waiting
// requests, the first for waited.
func (t *Table) ejectSilent(now time.Time, slot int, waiting int, waited, least time.Duration) {
	e := t.endpoints.Get(slot)
	quiet := waited
	if since := fleet.Later(e.idleAt, e.lastByteAt); !since.IsZero() {
		quiet = now.Sub(since).Round(time.Second)
	}
	health := "although its health check is good"
	if e.unanswered || !e.healthy {
		health = "nor an answer to its health check"
	}
	e.cause = fmt.Sprintf("no data for %v %s; requests waiting: %d, the first for %v", quiet, health, waiting, waited)
	t.eject(now, e, least)
	e.silentAt, e.silenced, e.unreachable = now, now, false
}

// standsFor is how long an endpoint has said that it has requests and computes nothing; 0 where it does not say.
func (e *endpoint) standsFor() time.Duration {
	if e.standsSince.IsZero() {
		return 0
	}
	return e.asked.Sub(e.standsSince)
}

// together is the time within which requests may reach an engine in another order than they were sent in.
const together = time.Second

// occupied reports whether non-streamed answers of unknown length occupy all places of an endpoint for a request sent
// at a time. It then waits for them without any data. They were sent before it, or at about that time: engines take
// requests in order, and what came later takes nothing from it. An engine that does not report its places is taken to
// have many. It has one if it is made for one user, or is of an unknown kind and answers no probe while it computes.
func (e *endpoint) occupied(w *Waiting, sent time.Time) bool {
	places := w.Places
	single := w.Kind == fleet.KindLlamaCpp || w.Kind == fleet.KindOllama ||
		w.Kind == fleet.KindOther && e.unanswered
	if places == 0 && single {
		places = 1
	}
	return places > 0 && w.NonStreamingBefore(sent.Add(together)) >= places
}

// lost reports whether an endpoint has had requests without a break and sent nothing for longer than its longest answer
// takes, whatever became of these requests: the clients of an engine that hangs leave before an answer without a limit
// of its length is overdue. Figures of its own tell it better. The time until the latest load of a model has ended does
// not count, also where that was another router's request.
func (t *Table) lost(now time.Time, e *endpoint, w *Waiting) bool {
	if w.LongestMs <= 0 || !e.standsSince.IsZero() || e.idleAt.IsZero() {
		return false
	}
	since := slices.MaxFunc([]time.Time{e.idleAt, e.lastByteAt, e.silenced, e.loadedAt}, time.Time.Compare)
	return now.Sub(since) >= t.cfg.Silent+fleet.Duration(min(w.LongestMs, 1e9))
}

// Silenced is when an endpoint was last ejected for silence; zero for never.
func (r Reader) Silenced(slot int) time.Time { return r.t.endpoints.Get(slot).silenced }

// Request is one that was sent and waits for the first byte of its answer.
type Request struct {
	Slot    int
	Service string
	Turn    bool
	Stream  bool
	Late    bool // of a turn: its answer is overdue
	Sent    time.Time
}

// ListenToServices finds the services for which an endpoint gives no sign of life while its health is good. A turn that
// is not streamed and not overdue may take the place of the model's others.
func (t *Table) ListenToServices(now time.Time, waiting iter.Seq[Request]) {
	type place struct {
		slot    int
		service string
	}
	waited, occupied := map[place]time.Duration{}, map[place]bool{}
	var silent []place // in the order of requests
	for q := range waiting {
		e, at := t.endpoints.Get(q.Slot), place{q.Slot, q.Service}
		late := false
		switch {
		case !q.Turn:
			late = e.late(now, q.Service, q.Sent, t.cfg.Silent)
		case q.Late:
			late = e.overtaken(now, q.Service, q.Sent, t.cfg.Silent)
		case !q.Stream:
			occupied[at] = true
		}
		if !late || e.loadsAnyModel(now) {
			continue
		}
		if waited[at] == 0 {
			silent = append(silent, at)
		}
		waited[at] = max(waited[at], now.Sub(q.Sent))
	}
	for _, at := range silent {
		if !occupied[at] {
			t.Mute(now, at.slot, at.service, waited[at])
		}
	}
}
