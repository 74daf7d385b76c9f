package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// An engine may stop computing while its server goes on: a collective operation of several GPUs that never ends, a
// hanging kernel, a deadlocked scheduler. Its health check succeeds, its connections stay open, and no data comes. A
// single request cannot tell this from a long queue; an overdue answer together with silence of the whole endpoint can.

// streamsAlive records the signs of life of running streams, and ejects silent endpoints with overdue answers.
func (r *Router) streamsAlive(now time.Time, ev *StreamsAlive, to []Change) []Change {
	several := false
	for ep := range r.endpoints.All() {
		if !ep.Current() {
			continue
		}
		if at, ok := ev.At[ep.Name()]; ok {
			r.health.Alive(ep.Slot(), at)
		}
		load := r.backlog.Reader().Load(ep.Slot())
		if load.Working() == load.Queued {
			r.health.Idle(now, ep.Slot())
		}
		if r.cfg.Silent >= 0 && load.Requests > 0 &&
			!r.health.Reader().IsSilent(now, ep.Slot()) &&
			r.health.Reader().SinceLastByte(now, ep.Slot()) >= r.cfg.Silent {
			r.listen(now, ep)
		}
		if r.cfg.Silent >= 0 && r.health.Reader().Several(ep.Slot()) {
			several = true
		}
		to = r.changes(now, ep, to)
	}
	r.health.Relent(now)
	if several {
		r.listenToLines(now, ev.Since)
	}
	return to
}

// lineAt is a line of an endpoint.
type lineAt struct {
	slot int
	line string
}

// listenToLines finds the lines for which an endpoint gives no sign of life while its health is good.
func (r *Router) listenToLines(now time.Time, since []Sign) {
	for _, s := range since {
		if f := r.reservation(s.Lease); f != nil && f.prefilled && f.line() != "" {
			r.health.Heard(f.ep.Slot(), f.line(), s.At)
		}
	}
	judged := r.health.Reader()
	waited, whole := map[lineAt]time.Duration{}, map[lineAt]bool{}
	var silent []lineAt // in the order of reservations
	for i := range r.reservations {
		f := &r.reservations[i]
		if !f.open || f.prefilled || f.peer.peer != 0 {
			continue
		}
		j := r.backlog.Reader().Job(f.index)
		at := lineAt{j.Slot, f.line()}
		if j.Queued {
			continue
		}
		late := false
		if f.class != fleet.Turn {
			late = judged.Late(now, at.slot, at.line, j.Sent, r.cfg.Silent)
		} else if late = j.Late(now); late {
			late = judged.Overtaken(now, at.slot, at.line, j.Sent, r.cfg.Silent)
		} else if !j.Stream { // it may take the place of the model's others, and is not overdue
			whole[at] = true
		}
		if !late || judged.LoadsAnyModel(now, at.slot) {
			continue
		}
		if waited[at] == 0 {
			silent = append(silent, at)
		}
		waited[at] = max(waited[at], now.Sub(j.Sent))
	}
	for _, at := range silent {
		if !whole[at] {
			r.health.Mute(now, at.slot, at.line, waited[at])
		}
	}
}

// Line names the work of which an endpoint may stop answering one kind alone: for turns the model, for other work the
// path, "" where that is unknown.
func Line(class fleet.Class, model, path string) string {
	if class == fleet.Turn {
		return model
	}
	return path
}

func (f *reservation) line() string { return Line(f.class, f.decision.Model, f.path) }

// standsTimes is how many times Silent an endpoint may say that it has requests and computes nothing: kernels are
// compiled for new shapes within requests.
const standsTimes = 6

// listen ejects an endpoint that has been silent for a while with an answer overdue. After an ejection for silence only
// what was sent since counts: an engine that has recovered may have lost the rest, and its trial is not to end by that.
// If nothing tries it for a while, the rest counts again, so that it moves as soon as another endpoint is up.
func (r *Router) listen(now time.Time, ep registry.Endpoint) {
	judged := r.health.Reader()
	if judged.LoadsAnyModel(now, ep.Slot()) {
		return // timeouts.first_byte bounds the wait of each request
	}
	recent, older := r.backlog.Reader().Overdue(now, ep.Slot(), judged.Silenced(ep.Slot()))
	untried := recent.Jobs == 0 && older.Late && now.Sub(judged.Until(ep.Slot(), fleet.StateEjected)) >= r.cfg.Silent
	// its own figures tell more than expectations of answers, of which some have none
	stands := judged.Stands(ep.Slot()) >= standsTimes*r.cfg.Silent && now.Sub(recent.Since) >= standsTimes*r.cfg.Silent
	late, lateSince := recent.Late, recent.LateSince
	if !late && untried {
		late, lateSince = true, older.LateSince
	}
	proved := stands || r.lost(now, ep, max(recent.MostTokens, older.MostTokens))
	computes := now.Sub(judged.Moved(ep.Slot())) < r.cfg.Silent // however slowly
	if !proved && (!late || computes || r.occupied(now, ep, lateSince)) {
		return
	}
	least := now.Sub(recent.Since)
	if older.Since.Before(recent.Since) {
		recent.Since = older.Since
	}
	r.health.Silent(
		now,
		ep.Slot(),
		recent.Jobs+older.Jobs,
		now.Sub(recent.Since).Round(time.Second),
		least.Round(time.Second),
	)
	r.describeShort(now, ep)
}

// together is the time within which requests may reach an engine in another order than they were sent in.
const together = time.Second

// occupied reports whether non-streamed answers of unknown length occupy all places of an endpoint for a request sent
// at a time. It then waits for them without any data. They were sent before it, or at about that time: engines take
// requests in order, and what came later takes nothing from it. An engine that does not report its places is taken to
// have many. It has one if it is made for one user, or is of an unknown kind and answers no probe while it computes.
func (r *Router) occupied(now time.Time, e registry.Endpoint, sent time.Time) bool {
	places, k := e.Places(), e.Kind()
	single := k == fleet.KindLlamaCpp || k == fleet.KindOllama ||
		k == fleet.KindOther && r.health.Reader().Unanswered(e.Slot())
	if places == 0 && single {
		places = 1
	}
	return places > 0 && r.backlog.Reader().NonStreamingBefore(now, e.Slot(), sent.Add(together)) >= places
}

// lost reports whether an endpoint has had requests without a break and sent nothing for longer than its longest answer
// takes, whatever became of these requests: the clients of an engine that hangs leave before an answer without a limit
// of its length is overdue. Figures of its own tell it better.
func (r *Router) lost(now time.Time, e registry.Endpoint, mostTokens int) bool {
	judged := r.health.Reader()
	longest := r.backlog.Reader().LongestMs(e.Slot(), mostTokens, e.Context(), r.speed.Reader())
	return longest > 0 && !judged.TellsWork(e.Slot()) &&
		judged.Unheard(now, e.Slot()) >= r.cfg.Silent+time.Duration(min(longest, 1e9)*1e6)
}
