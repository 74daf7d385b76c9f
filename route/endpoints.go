package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/health"
	"github.com/zeebo/xxh3"
)

// endpoint is what the router keeps about one endpoint.
type endpoint struct {
	spec   fleet.Endpoint
	source string
	slot   int
	key    uint64

	gone, draining bool
	incarnation    uint32 // counts changes of address

	report   fleet.Report // the latest of each figure
	reportAt time.Time
	loadAt   time.Time

	requests uint64
}

func (e *endpoint) kind() fleet.Kind {
	if e.spec.Kind != fleet.KindUnknown {
		return e.spec.Kind
	}
	return e.report.Kind
}

// id names the endpoint to the rooms.
func (e *endpoint) id() health.Key { return health.Key{Slot: e.slot, Hash: e.key} }

// declare takes in a full snapshot of one source.
func (r *Router) declare(now time.Time, d *Declared) []Change {
	var changes []Change
	keep := make(map[string]bool, len(d.Endpoints))
	for _, spec := range d.Endpoints {
		old := r.byName[spec.Name]
		switch {
		case old == nil:
			r.enter(now, spec, d.Source)
			changes = append(changes, Change{Endpoint: spec.Name, To: fleet.StateUnknown, Detail: "declared by " + d.Source})
		case old.source != d.Source && !old.gone:
			told := r.health.Reader().Told(old.id())
			changes = append(changes, Change{
				Endpoint: spec.Name, From: told, To: told,
				Detail: fmt.Sprintf("%s declares it too; the one of %s stays", d.Source, old.source),
			})
			continue
		default:
			r.update(old, spec, d.Source)
		}
		keep[spec.Name] = true
	}
	for _, ep := range append([]*endpoint(nil), r.endpoints...) {
		if ep.source != d.Source || ep.gone || keep[ep.spec.Name] {
			continue
		}
		ep.gone = true
		r.tellGone(ep)
		changes = append(changes, Change{Endpoint: ep.spec.Name, From: r.health.Reader().Told(ep.id()), Detail: "no longer declared by " + d.Source})
		if r.backlog.Reader().Idle(ep.slot) {
			r.forget(ep)
		}
	}
	r.generation++
	return changes
}

func (r *Router) enter(now time.Time, spec fleet.Endpoint, source string) {
	ep := &endpoint{spec: spec, source: source, key: xxh3.HashString(spec.Name)}
	if n := len(r.freeSlots); n > 0 {
		ep.slot, r.freeSlots = r.freeSlots[n-1], r.freeSlots[:n-1]
	} else {
		ep.slot = r.slots
		r.slots++
	}
	for len(r.bySlot) <= ep.slot {
		r.bySlot = append(r.bySlot, nil)
	}
	r.bySlot[ep.slot] = ep
	r.cache.Enter(ep.slot)
	r.backlog.Enter(ep.slot)
	r.speed.Enter(ep.slot)
	r.describe(ep)
	// A newcomer to a fleet at work is taken in gently; a fleet that starts together is not held back.
	r.health.Enter(now, ep.id(), slices.ContainsFunc(r.endpoints, func(other *endpoint) bool {
		return other.requests > 0 && r.health.Reader().State(now, other.id()) == fleet.StateUp
	}))
	r.endpoints = append(r.endpoints, ep)
	r.byName[spec.Name] = ep
}

// describe hands on what is known of an endpoint's cache and places by its declaration and its reports. It is called whenever these change.
func (r *Router) describe(ep *endpoint) {
	r.backlog.SetPlaces(ep.slot, ep.places())
	r.cache.Describe(ep.slot, cache.Facts{
		OnePrompt: ep.spec.Part.Kind == fleet.Slot, CacheTokens: ep.report.CacheTokens, BlockTokens: ep.report.BlockTokens,
	})
}

// update takes in a changed declaration. Another address is another engine: nothing learnt about the old one holds.
func (r *Router) update(ep *endpoint, spec fleet.Endpoint, source string) {
	if ep.spec.URL != spec.URL || ep.spec.Part != spec.Part || ep.spec.Kind != spec.Kind {
		ep.report, ep.loadAt = fleet.Report{}, time.Time{}
		r.health.Reset(ep.id())
		ep.incarnation++
		r.cache.Replaced(ep.slot)
		r.backlog.Restart(ep.slot)
		r.speed.Restart(ep.slot)
		r.arrivals.Restarted(ep.slot, ep.key)
		r.tellGone(ep)
	}
	ep.spec, ep.source, ep.gone = spec, source, false
	r.describe(ep)
}

// places is how many requests the endpoint computes at once; 0 unknown.
func (e *endpoint) places() int {
	if e.spec.Part.Kind == fleet.Slot {
		return 1
	}
	return e.report.Slots
}

// forget drops an endpoint that is gone and idle.
func (r *Router) forget(ep *endpoint) {
	for i, e := range r.endpoints {
		if e == ep {
			r.endpoints = append(r.endpoints[:i], r.endpoints[i+1:]...)
			break
		}
	}
	delete(r.byName, ep.spec.Name)
	r.cache.Left(ep.slot)
	r.backlog.Drop(ep.slot)
	r.speed.Drop(ep.slot)
	r.arrivals.Left(ep.slot)
	r.freeSlots, r.bySlot[ep.slot] = append(r.freeSlots, ep.slot), nil
	r.generation++
}

// probe takes in a report.
func (r *Router) probe(now time.Time, ep *endpoint, n *fleet.Report) {
	ep.reportAt = now
	o := &ep.report
	if o.Refused && n.Healthy {
		r.cache.Lost(ep.slot) // its process was gone: whatever it had cached is lost
	}
	o.Healthy, o.Refused, o.Detail = n.Healthy, n.Refused, n.Detail
	if n.Kind != fleet.KindUnknown {
		o.Kind = n.Kind
	}
	if n.Version != "" {
		o.Version = n.Version
	}
	if n.Models != nil && !sameModels(o.Models, n.Models) {
		o.Models = n.Models
		r.generation++
	}
	if n.Load != nil {
		o.Load, ep.loadAt = n.Load, now
	}
	setPositive(&o.CacheTokens, n.CacheTokens)
	setPositive(&o.BlockTokens, n.BlockTokens)
	setPositive(&o.Slots, n.Slots)
	r.describe(ep)
	setPositive(&o.Ranks, n.Ranks)
	setPositive(&o.BootstrapPort, n.BootstrapPort)
	o.ReportsCached = o.ReportsCached || n.ReportsCached
	if n.Handover != "" {
		o.Handover = n.Handover
	}
	r.health.Probe(now, ep.id(), n.Healthy, n.Detail)
}

func setPositive[T int | int64](to *T, v T) {
	if v > 0 {
		*to = v
	}
}

func sameModels(a, b []fleet.Model) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// verdict is what the end of an attempt says of its endpoint's health.
func (f *flight) verdict(sent time.Time, ev *Finished) health.Verdict {
	return health.Verdict{
		Outcome: ev.Outcome, Alike: ev.Alike, Computes: f.class != fleet.Aside, // a count of tokens succeeds on an engine that has stopped computing
		Trial: f.trial, Sent: sent, RetryAfter: ev.RetryAfter, Limited: ev.Limited, Caller: f.caller,
	}
}

// peers counts the endpoints of a flight's pool that can do its work.
func (r *Router) peers(now time.Time, f *flight) health.Peers {
	p := health.Peers{All: 1}
	for i := range f.pool.members {
		e := f.pool.members[i].ep
		if e == f.ep || !e.spec.Role.Takes(f.leg) || r.usable(now, e, 0, false) == health.Unfit {
			continue
		}
		p.All++
		if r.health.Reader().IsEjected(now, e.id()) {
			p.Ejected++
		}
	}
	return p
}
