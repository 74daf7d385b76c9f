package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/health"
)

// endpoint is the router's record of one endpoint.
type endpoint struct {
	spec   fleet.Endpoint
	source string
	slot   int
	key    uint64

	gone, draining bool

	report   fleet.Report // the latest of each figure
	reportAt time.Time
	loadAt   time.Time

	requests uint64
	worked   bool // it has had a request, of this router or another
}

func (e *endpoint) kind() fleet.Kind {
	if e.spec.Kind != fleet.KindUnknown {
		return e.spec.Kind
	}
	return e.report.Kind
}

// declare applies a full snapshot of one source. left are the keys of endpoints that it omits or that are another engine now.
func (r *Router) declare(now time.Time, d *Declared) (changes []Change, left []uint64) {
	keep := make(map[string]bool, len(d.Endpoints))
	for _, spec := range d.Endpoints {
		old := r.byName[spec.Name]
		switch {
		case old == nil:
			r.enter(now, spec, d.Source)
			changes = append(changes, Change{Endpoint: spec.Name, To: fleet.StateUnknown, Detail: "declared by " + d.Source})
		case old.source != d.Source && !old.gone:
			told := r.health.Reader().Told(old.slot)
			changes = append(changes, Change{
				Endpoint: spec.Name, From: told, To: told,
				Detail: fmt.Sprintf("%s declares it too; the declaration by %s applies", d.Source, old.source),
			})
			continue
		case old.spec.URL != spec.URL || old.spec.Part != spec.Part || old.spec.Kind != spec.Kind:
			r.replace(now, old, spec, d.Source)
			left = append(left, old.key)
		default:
			old.spec, old.source, old.gone = spec, d.Source, false
			r.describe(old)
		}
		keep[spec.Name] = true
	}
	for _, ep := range append([]*endpoint(nil), r.endpoints...) {
		if ep.source != d.Source || ep.gone || keep[ep.spec.Name] {
			continue
		}
		ep.gone = true
		r.tellGone(ep)
		left = append(left, ep.key)
		changes = append(changes, Change{Endpoint: ep.spec.Name, From: r.health.Reader().Told(ep.slot), Detail: "no longer declared by " + d.Source})
		if r.backlog.Reader().Idle(ep.slot) {
			r.forget(ep)
		}
	}
	r.generation++
	return changes, left
}

func (r *Router) enter(now time.Time, spec fleet.Endpoint, source string) *endpoint {
	ep := r.restored.declared(&spec)
	if ep == nil {
		ep = r.newEndpoint(spec)
	}
	ep.spec, ep.source = spec, source
	r.describe(ep)
	// An endpoint that joins a running fleet ramps up; a fleet that starts together does not.
	r.health.Enter(now, ep.slot, slices.ContainsFunc(r.endpoints, func(other *endpoint) bool {
		return other.requests > 0 && r.health.Reader().State(now, other.slot) == fleet.StateUp
	}))
	r.endpoints = append(r.endpoints, ep)
	r.byName[spec.Name], r.byKey[ep.key] = ep, ep
	return ep
}

// newEndpoint allocates an endpoint's slot in the rooms. It is not declared yet.
func (r *Router) newEndpoint(spec fleet.Endpoint) *endpoint {
	ep := &endpoint{spec: spec, key: NameHash(spec.Name)}
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
	r.arrivals.Enter(ep.slot)
	r.shortlist.Enter(ep.slot, ep.key)
	return ep
}

// describe passes an endpoint's cache and slots, from its declaration and reports, to the rooms. It is called whenever these
// change.
func (r *Router) describe(ep *endpoint) {
	r.backlog.SetPlaces(ep.slot, ep.places())
	r.cache.Describe(ep.slot, cache.Facts{
		OnePrompt: ep.spec.Part.Kind == fleet.Slot, CacheTokens: ep.report.CacheTokens, BlockTokens: ep.report.BlockTokens,
	})
}

// replace handles an endpoint's change of address. The new address is another engine, with a new slot: nothing learnt about the
// old one applies, and its running requests stay on the old accounts. State of the name continues: order of declaration, idle
// conversations, draining, counters.
func (r *Router) replace(now time.Time, old *endpoint, spec fleet.Endpoint, source string) {
	r.tellGone(old)
	old.gone = true
	ep := r.enter(now, spec, source)
	ep.draining, ep.requests = old.draining, old.requests
	r.health.Replace(old.slot, ep.slot)
	r.arrivals.Replace(old.slot, ep.slot)
	i, last := slices.Index(r.endpoints, old), len(r.endpoints)-1
	r.endpoints[i], r.endpoints[last] = ep, old
	if r.backlog.Reader().Idle(old.slot) {
		r.forget(old)
	}
}

// current reports whether the endpoint still has its name, that is, no other address was declared for it.
func (r *Router) current(ep *endpoint) bool { return r.byName[ep.spec.Name] == ep }

// places is the number of requests that the endpoint computes concurrently; 0 unknown.
func (e *endpoint) places() int {
	if e.spec.Part.Kind == fleet.Slot {
		return 1
	}
	return e.report.Slots
}

// forget drops an endpoint that has left and is idle.
func (r *Router) forget(ep *endpoint) {
	for i, e := range r.endpoints {
		if e == ep {
			r.endpoints = append(r.endpoints[:i], r.endpoints[i+1:]...)
			break
		}
	}
	if r.current(ep) {
		delete(r.byName, ep.spec.Name)
		delete(r.byKey, ep.key)
	}
	r.leave(ep)
	r.generation++
}

// leave frees an endpoint's slot.
func (r *Router) leave(ep *endpoint) {
	r.cache.Left(ep.slot)
	r.backlog.Drop(ep.slot)
	r.speed.Drop(ep.slot)
	r.arrivals.Left(ep.slot)
	r.freeSlots, r.bySlot[ep.slot] = append(r.freeSlots, ep.slot), nil
}

// probe applies a report.
func (r *Router) probe(now time.Time, ep *endpoint, n *fleet.Report) {
	ep.reportAt = now
	o := &ep.report
	if o.Refused && n.Healthy {
		r.cache.Lost(ep.slot) // its process was gone, and with it the cache
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
	r.health.Probe(now, ep.slot, n.Healthy, n.Detail)
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

// describeShort tells the shortlist of an endpoint's work and whether it is fit.
func (r *Router) describeShort(now time.Time, ep *endpoint) {
	fit := r.health.Reader().Calm(now, ep.slot) && r.see.usable(now, ep, 0, false) == health.Fit
	r.shortlist.Describe(ep.slot, r.backlog.Reader().Load(ep.slot), fit)
}

// verdict is what an attempt's end means for its endpoint's health.
func (f *flight) verdict(sent time.Time, ev *Finished) health.Verdict {
	return health.Verdict{
		Outcome: ev.Outcome, Alike: ev.Alike, Computes: f.class != fleet.Aside, // counting tokens works on an engine that has stopped computing
		Trial: f.trial, Sent: sent, RetryAfter: ev.RetryAfter, Limited: ev.Limited, Caller: f.caller,
	}
}

// peers counts the endpoints of a flight's pool that can do the same work.
func (r *Router) peers(now time.Time, f *flight) health.Peers {
	p := health.Peers{All: 1}
	for i := range f.pool.members {
		e := f.pool.members[i].ep
		if e == f.ep || !e.spec.Role.Takes(f.leg) || r.see.usable(now, e, 0, false) == health.Unfit {
			continue
		}
		p.All++
		if r.health.Reader().IsEjected(now, e.slot) {
			p.Ejected++
		}
	}
	return p
}

// say reports changes of an endpoint's events with its next observation.
func (r *Router) say(ep *endpoint, news []string) {
	for _, detail := range news {
		r.health.Say(ep.slot, "KV events: "+detail)
	}
}
