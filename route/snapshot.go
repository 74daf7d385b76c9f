package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// A snapshot is the router's learnt state as plain values in pieces, for a warm start: conversations, believed cache
// contents, speeds and prompt sizes. It contains no text, no running requests and no health, which the first probes
// show. It is taken piece by piece while the router works.

// Piece is a part of a snapshot. Later pieces override earlier ones.
type Piece struct {
	Fleet         *learnt.Fleet
	Endpoints     []learnt.Endpoint
	Pools         []learnt.Pool
	Endpoint      string         // whose cache contains
	Chains        []learnt.Chain // these chains
	Conversations *learnt.Conversations
}

// walk is the progress of a snapshot.
type walk struct {
	endpoints []registry.Endpoint
	pools     []pool.Pool
	chains    []registry.Endpoint
	fleet     bool // finished with the endpoints
	begun     registry.Endpoint
}

// restored is restored state of endpoints not declared yet, and which engines the latest snapshot means.
type restored struct {
	endpoints map[string]registry.Endpoint
	meant     map[string]meant // by name
	until     time.Time
}

// meant is the engine that a snapshot means by a name.
type meant struct {
	ep        registry.Endpoint // zero if it is none that has this name here
	epoch     uint32            // of its cache when the snapshot's was taken in
	flowAhead uint32            // how far the flow of its cache is ahead of the snapshot's
}

// Rewind begins a snapshot. There is one at a time.
func (r *Router) Rewind() {
	w := &r.walk
	*w = walk{pools: r.pools.Kept()}
	for ep := range r.registry.All() {
		if ep.Current() && !ep.Gone() {
			w.endpoints = append(w.endpoints, ep)
		}
	}
	for ep := range r.registry.Slots() { // in a deterministic order
		if ep.Exists() && r.restored.endpoints[ep.Name()] == ep {
			w.endpoints = append(w.endpoints, ep)
		}
	}
	w.chains = w.endpoints
	r.conversations.Rewind()
}

// Snapshot returns the next piece; more is false when there is none.
func (r *Router) Snapshot(now time.Time) (p Piece, more bool) {
	w := &r.walk
	switch {
	case !w.fleet:
		w.fleet = true
		f := r.speed.ExportFleet()
		p.Fleet = &f
	case len(w.endpoints) > 0:
		for _, ep := range step(&w.endpoints) {
			if r.registry.At(ep.Slot()) == ep {
				spec := ep.Spec()
				p.Endpoints = append(p.Endpoints, learnt.Endpoint{
					Name: ep.Name(), URL: spec.URL, Part: spec.Part, Cache: r.cache.Export(ep.Slot()),
					Speed: r.speed.Export(now, ep.Slot()),
				})
			}
		}
	case len(w.pools) > 0:
		for _, k := range step(&w.pools) {
			p.Pools = append(p.Pools, k.Export())
		}
	case len(w.chains) > 0:
		r.snapshotChains(&p)
	default:
		var c learnt.Conversations
		c, more = r.conversations.Next(now, bound.Step, r.warmAt)
		p.Conversations = &c
		return p, more
	}
	return p, true
}

// step takes as many as one event does something for.
func step[T any](from *[]T) (some []T) {
	n := min(len(*from), bound.Step)
	some, *from = (*from)[:n], (*from)[n:]
	return some
}

// snapshotChains adds chains of the first endpoint whose walk is not finished.
func (r *Router) snapshotChains(p *Piece) {
	w := &r.walk
	ep := w.chains[0]
	more := r.registry.At(ep.Slot()) == ep
	if more {
		if w.begun != ep {
			w.begun = ep
			r.cache.Rewind(ep.Slot())
		}
		p.Endpoint = ep.Name()
		p.Chains, more = r.cache.Chains(ep.Slot(), bound.Look)
	}
	if !more {
		w.chains = w.chains[1:]
	}
}

// Remember appends the entry of one conversation or response to a piece, to be stored by itself. It returns false if
// there is none.
func (r *Router) Remember(now time.Time, p *learnt.Conversations, key session.Key) bool {
	return r.conversations.Add(now, p, key, r.warmAt)
}

// warmAt reports whether an endpoint's cache still has an epoch.
func (r *Router) warmAt(name string, epoch uint32) bool {
	ep := r.knownAs(name)
	return ep.Exists() && r.cache.Epoch(ep.Slot()) == epoch
}

// knownAs is the endpoint of a name, declared or restored; the zero value when there is none.
func (r *Router) knownAs(name string) registry.Endpoint {
	if ep := r.registry.Named(name); ep.Exists() {
		return ep
	}
	return r.restored.endpoints[name]
}

// Restore applies a piece. Pieces come in the order in which they were taken; later is the age of the snapshot. State
// of an endpoint that is not declared yet waits for its declaration, and is dropped if that gives another address, also
// between two pieces; so is what a cache held that is lost between two. A router that has served requests keeps what it
// knows better: the speeds of endpoints that have had requests, and conversations whose latest turn came after the
// snapshot's.
func (r *Router) Restore(now time.Time, p *Piece, later time.Duration) {
	s := &r.restored
	if s.endpoints == nil {
		s.endpoints = map[string]registry.Endpoint{}
	}
	if p.Fleet != nil || s.meant == nil { // the first piece
		s.meant = map[string]meant{}
	}
	if p.Fleet != nil && !r.worked {
		r.speed.RestoreFleet(p.Fleet)
	}
	s.until = now.Add(bound.Unproved)
	for i := range p.Endpoints {
		r.restoreEndpoint(now, &p.Endpoints[i], later)
	}
	for i := range p.Pools {
		r.pools.Restore(&p.Pools[i])
	}
	if of := r.meantBy(p.Endpoint); of.ep.Exists() {
		r.cache.Believe(of.ep.Slot(), p.Chains)
	}
	if p.Conversations != nil {
		r.conversations.Restore(now, p.Conversations, later, func(endpoint string) (epoch, ahead uint32) {
			of := r.meantBy(endpoint)
			return of.epoch, of.flowAhead
		})
	}
}

// meantBy is the engine that the snapshot means by a name, zero if another one has the name now or its cache is lost.
// Where it says nothing of engines, since it has conversations alone, that is the one that has the name now.
func (r *Router) meantBy(name string) meant {
	now := meant{ep: r.knownAs(name)}
	if now.ep.Exists() {
		now.epoch = r.cache.Epoch(now.ep.Slot())
	}
	if of, told := r.restored.meant[name]; told {
		if of.ep != now.ep || of.epoch != now.epoch {
			return meant{}
		}
		return of
	}
	return now
}

// restoreEndpoint allocates an endpoint's slot before its declaration. A declared one accepts speed and cache capacity
// until its first request.
func (r *Router) restoreEndpoint(now time.Time, l *learnt.Endpoint, later time.Duration) {
	s, ep := &r.restored, r.knownAs(l.Name)
	if !ep.Exists() {
		ep = r.newEndpoint(fleet.Endpoint{Name: l.Name, URL: l.URL, Part: l.Part})
		s.endpoints[l.Name] = ep
	}
	if spec := ep.Spec(); spec.URL != l.URL || spec.Part != l.Part {
		s.meant[l.Name] = meant{}
		return
	}
	of := meant{ep: ep, epoch: r.cache.Epoch(ep.Slot())}
	if !ep.Worked() {
		r.speed.Restore(now, ep.Slot(), &l.Speed, later)
	}
	if own := r.cache.Export(ep.Slot()).Flow; ep.Worked() || own != 0 {
		of.flowAhead = uint32(own) - uint32(l.Cache.Flow)
	} else {
		r.cache.Restore(ep.Slot(), &l.Cache)
		r.tellSizes(ep)
	}
	s.meant[l.Name] = of
}

// declared removes and returns the restored endpoint that matches a declaration; the zero value when there is none.
func (s *restored) declared(spec *fleet.Endpoint) registry.Endpoint {
	ep := s.endpoints[spec.Name]
	if !ep.Exists() {
		return ep
	}
	if was := ep.Spec(); was.URL != spec.URL || was.Part != spec.Part {
		return registry.Endpoint{}
	}
	delete(s.endpoints, spec.Name)
	return ep
}

// forgetRestored drops restored endpoints that were not declared in time.
func (r *Router) forgetRestored(now time.Time) {
	s := &r.restored
	if s.endpoints == nil || now.Before(s.until) {
		return
	}
	for _, ep := range slices.Collect(r.registry.Slots()) {
		if ep.Exists() && s.endpoints[ep.Name()] == ep {
			r.freeSlot(ep)
		}
	}
	*s = restored{}
	r.pools.ForgetRestored()
}
