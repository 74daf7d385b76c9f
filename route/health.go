package route

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
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
	epoch          uint32 // of its cache: another one since the cache is known to have been lost, and for each endpoint that ever was

	report   fleet.Report // the latest of each figure
	reportAt time.Time
	loadAt   time.Time
	probed   bool // at least one report came
	told     fleet.State

	failures     int       // in a row, by its fault
	ejections    int       // without a success in between
	ejectedUntil time.Time // zero when not ejected
	unreachable  bool      // ejected because it could not be connected to: a good probe lifts it
	busyUntil    time.Time
	refusals     refusals // by which it is busy for some callers only
	cause        string   // of the last failure, for people
	trial        bool     // its ejection ended and nothing has succeeded yet: one request at a time
	trials       int      // requests now testing it
	rampFrom     time.Time
	lifeAt       time.Time // when something last came of an answer of its
	silentAt     time.Time // when it was ejected because nothing came any more; zero when it was not, or something has come since

	load             fleet.Load
	losses           losses
	coming           []uint32 // decode legs whose KV cache is still to come; among load.Requests
	requests, failed uint64

	cache   cache
	pending []uint32 // flights whose blocks are not computed yet
	held    held
	line    line
	speed   speed

	mirror  mirror   // of its cache, by its KV events
	answers int      // below 0 when prompts that go on from an answer have proved not to have it as it was made
	news    []string // to be told with the next observation

	transfer transfer // of KV cache that comes to it
	link     link     // that it comes by
	pace     pace     // of its answers
	spent    float64  // ms that it has computed prompts up to spentAt, see prompting
	spentAt  time.Time
}

func (e *endpoint) kind() fleet.Kind {
	if e.spec.Kind != fleet.KindUnknown {
		return e.spec.Kind
	}
	return e.report.Kind
}

// state is the endpoint's health at a moment.
func (e *endpoint) state(now time.Time) fleet.State {
	switch {
	case !e.probed:
		if now.Before(e.ejectedUntil) {
			return fleet.StateEjected
		}
		return fleet.StateUnknown
	case !e.report.Healthy:
		return fleet.StateDown
	case now.Before(e.ejectedUntil):
		return fleet.StateEjected
	case now.Before(e.busyUntil):
		return fleet.StateBusy
	}
	return fleet.StateUp
}

// detail says why the endpoint is not up.
func (e *endpoint) detail(s fleet.State) string {
	switch s {
	case fleet.StateDown:
		return e.report.Detail
	case fleet.StateEjected, fleet.StateBusy:
		return e.cause
	case fleet.StateUnknown:
		return "not probed yet"
	default:
		return ""
	}
}

// ramp is the share of its weight that an endpoint gets while it is taken in gently, 0.1 to 1.
func (e *endpoint) ramp(now time.Time, over time.Duration) float64 {
	if e.rampFrom.IsZero() || over <= 0 {
		return 1
	}
	age := now.Sub(e.rampFrom)
	if age >= over {
		return 1
	}
	return max(0.1, float64(age)/float64(over))
}

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
			changes = append(changes, Change{
				Endpoint: spec.Name, From: old.told, To: old.told,
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
		changes = append(changes, Change{Endpoint: ep.spec.Name, From: ep.told, Detail: "no longer declared by " + d.Source})
		if ep.idle() {
			r.forget(ep)
		}
	}
	r.generation++
	return changes
}

func (r *Router) enter(now time.Time, spec fleet.Endpoint, source string) {
	ep := &endpoint{spec: spec, source: source, key: xxh3.HashString(spec.Name), told: fleet.StateUnknown}
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
	r.renew(ep)
	// A newcomer to a fleet at work is taken in gently; a fleet that starts together is not held back.
	for _, other := range r.endpoints {
		if other.requests > 0 && other.state(now) == fleet.StateUp {
			ep.rampFrom = now
			break
		}
	}
	r.endpoints = append(r.endpoints, ep)
	r.byName[spec.Name] = ep
}

// renew begins another epoch of an endpoint's cache: whatever was remembered to be there is not.
func (r *Router) renew(ep *endpoint) {
	r.epochs++
	ep.epoch = r.epochs
}

// update takes in a changed declaration. Another address is another engine: nothing learnt about the old one holds.
func (r *Router) update(ep *endpoint, spec fleet.Endpoint, source string) {
	if ep.spec.URL != spec.URL || ep.spec.Part != spec.Part || ep.spec.Kind != spec.Kind {
		ep.report, ep.probed, ep.loadAt = fleet.Report{}, false, time.Time{}
		ep.failures, ep.ejections, ep.ejectedUntil, ep.unreachable, ep.cause = 0, 0, time.Time{}, false, ""
		ep.trial, ep.trials, ep.busyUntil, ep.rampFrom = false, 0, time.Time{}, time.Time{}
		ep.lifeAt, ep.silentAt, ep.refusals = time.Time{}, time.Time{}, nil
		ep.incarnation++
		r.lostCache(ep)
		ep.cache, ep.speed, ep.transfer, ep.pace = cache{}, speed{}, transfer{}, pace{}
		r.arrivals.Restarted(ep.slot, ep.key)
		r.kvForget(ep)
	}
	ep.spec, ep.source, ep.gone = spec, source, false
}

// decoding is how many requests are being answered there, as far as can be told: of those that are not streamed nobody sees when
// their prompt is computed.
func (e *endpoint) decoding() int {
	return max(0, e.sent()-len(e.coming)-e.speed.prompts)
}

// idle reports whether nothing of ours is there.
func (e *endpoint) idle() bool { return e.load.Requests == 0 && e.load.TransferRequests == 0 }

// forget drops an endpoint that is gone and idle.
func (r *Router) forget(ep *endpoint) {
	for i, e := range r.endpoints {
		if e == ep {
			r.endpoints = append(r.endpoints[:i], r.endpoints[i+1:]...)
			break
		}
	}
	delete(r.byName, ep.spec.Name)
	r.belief.index.Drop(ep.slot)
	r.kvForget(ep)
	r.freeSlots, r.bySlot[ep.slot] = append(r.freeSlots, ep.slot), nil
	r.generation++
}

// probe takes in a report.
func (r *Router) probe(now time.Time, ep *endpoint, n *fleet.Report) {
	was := ep.state(now)
	first := !ep.probed
	ep.probed = true
	ep.reportAt = now
	o := &ep.report
	if o.Refused && n.Healthy {
		r.lostCache(ep) // its process was gone: whatever it had cached is lost
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
	setPositive(&o.Ranks, n.Ranks)
	setPositive(&o.BootstrapPort, n.BootstrapPort)
	o.ReportsCached = o.ReportsCached || n.ReportsCached
	if n.Handover != "" {
		o.Handover = n.Handover
	}
	if n.Healthy && ep.unreachable {
		ep.ejectedUntil, ep.unreachable = time.Time{}, false
	}
	if n.Healthy && !first && was == fleet.StateDown {
		ep.rampFrom = now
	}
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

// blame draws the conclusions of an attempt's end for its endpoint. A client's fault is never the endpoint's; back-pressure
// keeps new traffic away for a while and says nothing about its health.
func (r *Router) blame(now time.Time, ep *endpoint, f *flight, ev *Finished) {
	switch ev.Outcome {
	case fleet.OK:
		if f.class != fleet.Aside { // a count of tokens succeeds on an engine that has stopped computing
			ep.recovered(now)
			ep.refusals.accept(f.sent)
		}
	case fleet.Busy:
		r.refused(now, ep, f, ev)
	case fleet.ConnectFailed:
		ep.failed++
		ep.failures++
		ep.cause = "it could not be connected to"
		if r.mayEject(now, ep, f, ep.failures == 1) {
			r.eject(now, ep)
			ep.unreachable = true
		}
	case fleet.EngineError, fleet.TimedOut:
		if ev.Alike { // it may be the request's fault
			return
		}
		ep.failed++
		ep.failures++
		if !ep.silent(now) {
			ep.cause = fmt.Sprintf("%d requests in a row failed (%s)", ep.failures, ev.Outcome)
		}
		if (ep.failures >= r.cfg.EjectAfter || f.trial) && r.mayEject(now, ep, f, ep.failures == r.cfg.EjectAfter) {
			r.eject(now, ep)
			ep.unreachable = false
		}
	case fleet.ClientError, fleet.ClientGone, fleet.Abandoned, fleet.TransferFailed:
	}
}

// recovered forgets the failures of an endpoint that computes; one that was on trial gets its share back gently.
func (e *endpoint) recovered(now time.Time) {
	e.failures, e.ejections = 0, 0
	if e.trial {
		e.trial, e.rampFrom = false, now
	}
}

func (r *Router) eject(now time.Time, ep *endpoint) { r.ejectFor(now, ep, 0) }

// ejectFor ejects an endpoint for no less than a time, within the bound.
func (r *Router) ejectFor(now time.Time, ep *endpoint, least time.Duration) {
	if now.Before(ep.ejectedUntil) {
		return // requests that were already under way when it was ejected
	}
	d := max(r.cfg.EjectFor<<min(ep.ejections, 20), least)
	if d > r.cfg.EjectMax || d <= 0 {
		d = r.cfg.EjectMax
	}
	ep.ejections++
	ep.ejectedUntil = now.Add(d)
	ep.trial = true
}
