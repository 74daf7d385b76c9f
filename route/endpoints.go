package route

import (
	"fmt"
	"reflect"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// declare applies a snapshot of one source, or a step of one.
func (r *Router) declare(now time.Time, d *Declared, to *effects) {
	if !d.Partly {
		s := NewSurvey(d)
		for r.Survey(now, d, s) {
		}
		d = &Declared{Source: d.Source, Endpoints: s.Fresh, Left: s.Left, Gently: s.Gently}
	}
	for _, spec := range d.Endpoints {
		r.declareOne(now, spec, d.Source, d.Gently, to)
		r.tellShortlist(now, r.registry.Named(spec.Name))
	}
	for _, name := range d.Left {
		if ep := r.registry.Named(name); r.declares(ep, d.Source) {
			r.giveUp(now, ep, d.Source, to)
		}
		if ep := r.registry.Named(name); ep.Exists() {
			r.tellShortlist(now, ep)
		}
	}
}

// declares reports whether a source declares an endpoint, which has not left.
func (r *Router) declares(ep registry.Endpoint, source string) bool {
	return ep.Exists() && ep.Current() && !ep.Gone() && ep.DeclaredBy(source)
}

// declareOne applies a source's declaration of one endpoint. One that joins ramps up if gently is set.
func (r *Router) declareOne(now time.Time, spec fleet.Endpoint, source string, gently bool, to *effects) {
	old := r.registry.Named(spec.Name)
	back := old.Exists() && old.Gone() // it has left, and its last requests are running
	switch {
	case !old.Exists():
		if ep := r.addEndpoint(spec, source); gently {
			r.health.RampUp(now, ep.Slot())
		}
		to.changes = append(to.changes,
			Change{Endpoint: spec.Name, To: fleet.StateUnknown, Detail: "declared by " + source})
	case old.Source() != source && !back:
		if r.registry.Another(old, spec, source) {
			r.remark(to, old, fmt.Sprintf(
				"%s declares it too; the declaration by %s applies for as long as there is one", source, old.Source()))
		}
	default:
		r.redeclare(now, old, spec, source, gently, to)
	}
	if back {
		r.remark(to, r.registry.Named(spec.Name), "declared again, by "+source)
	}
}

// redeclare applies another declaration of an endpoint. Where that means another engine, it ramps up if gently is set.
func (r *Router) redeclare(
	now time.Time, old registry.Endpoint, spec fleet.Endpoint, source string, gently bool, to *effects,
) {
	if !isOther(old.Spec(), &spec) {
		r.registry.Redeclare(old, spec, source)
		r.tellSizes(old)
		return
	}
	if ep := r.replace(now, old, spec, source); gently {
		r.health.RampUp(now, ep.Slot())
	}
	to.gone = append(to.gone, old.Key())
}

// giveUp applies that a source declares an endpoint no more. If it was the one whose declaration applied, the next
// one's does; without any the endpoint leaves.
func (r *Router) giveUp(now time.Time, ep registry.Endpoint, source string, to *effects) {
	if ep.Source() != source {
		r.registry.Withdraw(ep, source)
		return
	}
	if spec, next, ok := r.registry.Next(ep); ok {
		r.redeclare(now, ep, spec, next, true, to)
		r.remark(to, r.registry.Named(spec.Name),
			fmt.Sprintf("no longer declared by %s; the declaration by %s applies", source, next))
		return
	}
	r.endpointLeft(now, ep)
	to.gone = append(to.gone, ep.Key())
	to.changes = append(to.changes, Change{
		Endpoint: ep.Name(), From: r.health.Reported(ep.Slot()), Detail: "no longer declared by " + source,
	})
	if r.backlog.Idle(ep.Slot()) {
		r.dropEndpoint(ep)
	}
}

// isRunning reports whether an endpoint that is up has had requests.
func (r *Router) isRunning(now time.Time) bool {
	for ep := range r.registry.All() {
		if ep.Requests() > 0 && r.health.State(now, ep.Slot()) == fleet.StateUp {
			return true
		}
	}
	return false
}

// isOther reports whether a declaration means another engine than the earlier one of its name.
func isOther(old fleet.Endpoint, spec *fleet.Endpoint) bool {
	return old.URL != spec.URL || old.Part != spec.Part || old.Kind != spec.Kind
}

// Moved reports whether the name of an endpoint, as it was when a request was sent there, means another engine now.
func (r *Router) Moved(from *fleet.Endpoint) bool {
	ep := r.registry.Named(from.Name)
	return ep.Exists() && !ep.Gone() && isOther(ep.Spec(), from)
}

// endpointLeft notes that an endpoint has left; its last requests may be running.
func (r *Router) endpointLeft(now time.Time, ep registry.Endpoint) {
	r.registry.Leave(now, ep)
	r.pools.Forget(ep)
}

// addEndpoint lists a new endpoint.
func (r *Router) addEndpoint(spec fleet.Endpoint, source string) registry.Endpoint {
	ep := r.restored.declared(&spec)
	if !ep.Exists() {
		ep = r.newEndpoint(spec)
	}
	r.tellSizes(ep)
	r.health.AddEndpoint(ep.Slot())
	r.registry.Enter(ep, spec, source)
	return ep
}

// newEndpoint allocates an endpoint's slot in the rooms. It is not declared yet.
func (r *Router) newEndpoint(spec fleet.Endpoint) registry.Endpoint {
	ep := r.registry.Allocate(spec)
	r.cache.AddEndpoint(ep.Slot())
	r.backlog.AddEndpoint(ep.Slot())
	r.speed.AddEndpoint(ep.Slot())
	r.arrivals.AddEndpoint(ep.Slot())
	r.admission.AddEndpoint(ep.Slot())
	r.shortlist.AddEndpoint(ep.Slot(), ep.Key())
	return ep
}

// tellSizes passes an endpoint's cache and slots, from its declaration and reports, to the rooms. It is called whenever
// these change.
func (r *Router) tellSizes(ep registry.Endpoint) {
	r.backlog.Describe(ep.Slot(), ep.Places(), ep.CacheTokens(), ep.SharesContext())
	r.cache.Describe(ep.Slot(), cache.Facts{
		OnePrompt: ep.IsSlot(), Off: ep.CacheOff(), CacheTokens: ep.ReuseTokens(), BlockTokens: ep.BlockTokens(),
	})
}

// replace handles an endpoint's change of address. The new address is another engine, with a new slot: nothing learnt
// about the old one applies, and its running requests stay on the old accounts. State of the name continues: order of
// declaration, idle conversations, draining, counters.
func (r *Router) replace(now time.Time, old registry.Endpoint, spec fleet.Endpoint, source string) registry.Endpoint {
	r.endpointLeft(now, old)
	ep := r.addEndpoint(spec, source)
	r.registry.Replace(old, ep)
	r.health.Replace(old.Slot(), ep.Slot())
	r.arrivals.Replace(old.Slot(), ep.Slot())
	if r.backlog.Idle(old.Slot()) {
		r.dropEndpoint(old)
	}
	return ep
}

// dropEndpoint drops an endpoint that has left and is idle.
func (r *Router) dropEndpoint(ep registry.Endpoint) {
	r.registry.Forget(ep)
	r.freeSlot(ep)
}

func (r *Router) freeSlot(ep registry.Endpoint) {
	r.cache.RemoveEndpoint(ep.Slot())
	r.backlog.RemoveEndpoint(ep.Slot())
	r.speed.RemoveEndpoint(ep.Slot())
	r.arrivals.RemoveEndpoint(ep.Slot())
	r.admission.RemoveEndpoint(ep.Slot())
	r.registry.Free(ep)
}

func (r *Router) probed(now time.Time, ev *Probed, to *effects) {
	ep := r.registry.NamedAt(ev.Endpoint, ev.URL)
	if !ep.Exists() {
		return
	}
	r.probe(now, ep, ev)
	if ep.Current() { // else its name speaks of another engine
		r.changes(now, ep, to)
		r.tellShortlist(now, ep)
	}
}

func (r *Router) probe(now time.Time, ep registry.Endpoint, ev *Probed) {
	n := &ev.Report
	switch {
	case n.Healthy && !ev.Asked.IsZero() && r.health.UnreachedSince(ep.Slot(), ev.Asked):
		if n.Unanswered { // it is not reached, and has not answered since
			r.health.Unanswered(ep.Slot(), n.Detail)
		}
		return // the engine may have ended after its answer
	case n.Healthy && ep.Replaced(n): // its process was gone, and with it the cache
		if ep.Met() {
			r.cache.Lost(ep.Slot())
		} else { // started after this router
			r.cache.Forget(ep.Slot())
		}
		r.registry.Restarted(ep)
	case n.Sleep.Sleeps() && !ep.Sleeps(): // which frees the cache
		r.cache.Lost(ep.Slot())
	}
	shared := ep.SharesContext()
	r.registry.Report(now, ep, n)
	if !shared && ep.SharesContext() {
		r.health.Say(ep.Slot(), emptiedSlots)
	}
	if n.Sleep == fleet.Dozing {
		r.health.Dozed(now, ep.Slot())
	}
	if n.Load != nil {
		r.backlog.Reported(now, ep.Slot(), n.Load)
		r.health.Works(now, ep.Slot(), n.Load.Work, n.Load.Running > 0)
	}
	r.tellSizes(ep)
	r.health.Probe(now, ep.Slot(), n.Healthy, n.Detail)
	if n.Unanswered {
		r.health.Unanswered(ep.Slot(), n.Detail)
	}
}

// tellShortlist tells the shortlist of an endpoint's work and whether it is fit.
func (r *Router) tellShortlist(now time.Time, ep registry.Endpoint) {
	fit := r.health.ProbesDecide(now, ep.Slot()) && r.readers.usable(now, ep, 0) == health.Fit
	r.shortlist.Describe(ep.Slot(), r.backlog.Load(ep.Slot()), fit)
}

// Survey finds out what a snapshot of endpoints changes, in steps between which requests can be decided. The snapshots
// of a source are surveyed and declared one after another.
type Survey struct {
	Fresh []fleet.Endpoint // not known as they are declared now
	Left  []string         // omitted
	// an endpoint that joins a running fleet ramps up; a fleet that starts together does not
	Gently bool

	begun      bool
	names      map[string]bool // of the snapshot
	compared   bool            // all of it
	next       int
	generation uint64 // of the registry when the omitted ones were first looked for
}

// NewSurvey begins a survey of a snapshot.
func NewSurvey(d *Declared) *Survey {
	s := &Survey{names: make(map[string]bool, len(d.Endpoints))}
	for i := range d.Endpoints {
		s.names[d.Endpoints[i].Name] = true
	}
	return s
}

// Survey takes one step and reports whether there are more. If endpoints have come or gone since the last step, it
// looks for the omitted ones anew.
func (r *Router) Survey(now time.Time, d *Declared, s *Survey) (more bool) {
	if !s.begun {
		s.begun, s.Gently = true, r.isRunning(now)
	}
	if !s.compared {
		end := min(s.next+bound.Step, len(d.Endpoints))
		for ; s.next < end; s.next++ {
			spec := &d.Endpoints[s.next]
			old := r.registry.Named(spec.Name)
			if !old.Exists() || old.Gone() || old.Source() != d.Source || !reflect.DeepEqual(old.Spec(), *spec) {
				s.Fresh = append(s.Fresh, *spec)
			}
		}
		if s.next == len(d.Endpoints) {
			s.compared, s.next, s.generation = true, 0, r.registry.Generation()
		}
		return true
	}
	if g := r.registry.Generation(); s.generation != g {
		s.Left, s.next, s.generation = s.Left[:0], 0, g
	}
	end := min(s.next+bound.Step, r.registry.Len())
	for ; s.next < end; s.next++ {
		if ep := r.registry.Nth(s.next); r.declares(ep, d.Source) && !s.names[ep.Name()] {
			s.Left = append(s.Left, ep.Name())
		}
	}
	return s.next < r.registry.Len()
}
