package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/size"
	"github.com/warmpath/warmpath/route/speed"
	"github.com/warmpath/warmpath/session"
)

// A snapshot is the router's learnt state as plain values in pieces, for a warm start: conversations, believed cache contents,
// speeds and prompt sizes. It contains no text, no running requests and no health, which the first probes show. It is taken
// piece by piece while the router works.

// Piece is a part of a snapshot. Later pieces override earlier ones.
type Piece struct {
	Fleet         *speed.Fleet
	Endpoints     []LearntEndpoint
	Pools         []LearntPool
	Endpoint      string        // whose cache contains
	Chains        []cache.Chain // these chains
	Conversations *conversation.Piece
}

// LearntEndpoint is the learnt state of an endpoint. It applies to an endpoint with the same name, URL and part.
type LearntEndpoint struct {
	Name, URL string
	Part      fleet.Part
	Cache     cache.Learnt
	Speed     speed.Learnt
}

// LearntPool is the learnt state of a model's requests.
type LearntPool struct {
	Name           string
	Size           size.Learnt
	Missing        float64 // see cache.Answers
	Seen           int
	Parts          bool // its requests may be split
	Turns, Prompts [3]float64
}

// Bounds on one piece, which blocks all requests while it is taken.
const (
	pieceEndpoints = 8
	piecePools     = 8
	pieceNames     = 1024 // of blocks
	pieceEntries   = 128
)

// forgetAfter is how long restored state waits for its endpoint's declaration.
const forgetAfter = 10 * time.Minute

// walk is the progress of a snapshot.
type walk struct {
	endpoints []*endpoint
	pools     []*pool
	chains    []*endpoint
	fleet     bool // finished with the endpoints
	begun     *endpoint
}

// restored is restored state of endpoints not declared yet and of pools, and its differences from the declared ones.
type restored struct {
	endpoints map[string]*endpoint
	pools     map[string]*LearntPool
	others    map[string]bool   // endpoints that are other engines here
	ahead     map[string]uint32 // of declared ones: how far the flow of their caches is ahead of the snapshot's
	until     time.Time
}

// Rewind begins a snapshot. There is one at a time.
func (r *Router) Rewind() {
	w := &r.walk
	*w = walk{pools: slices.Clone(r.keptPools)}
	for _, ep := range r.endpoints {
		if r.current(ep) && !ep.gone {
			w.endpoints = append(w.endpoints, ep)
		}
	}
	for _, ep := range r.bySlot { // in a deterministic order
		if ep != nil && r.restored.endpoints[ep.spec.Name] == ep {
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
		f := r.speed.Reader().ExportFleet()
		p.Fleet = &f
	case len(w.endpoints) > 0:
		n := min(len(w.endpoints), pieceEndpoints)
		for _, ep := range w.endpoints[:n] {
			if r.bySlot[ep.slot] == ep {
				p.Endpoints = append(p.Endpoints, LearntEndpoint{
					Name: ep.spec.Name, URL: ep.spec.URL, Part: ep.spec.Part, Cache: r.cache.Reader().Learnt(ep.slot), Speed: r.speed.Reader().Export(now, ep.slot),
				})
			}
		}
		w.endpoints = w.endpoints[n:]
	case len(w.pools) > 0:
		n := min(len(w.pools), piecePools)
		for _, k := range w.pools[:n] {
			p.Pools = append(p.Pools, k.learnt())
		}
		w.pools = w.pools[n:]
	case len(w.chains) > 0:
		r.snapshotChains(&p)
	default:
		var c conversation.Piece
		c, more = r.conversations.Next(now, pieceEntries, r.warmAt)
		p.Conversations = &c
		return p, more
	}
	return p, true
}

// snapshotChains adds chains of the first endpoint whose walk is not finished.
func (r *Router) snapshotChains(p *Piece) {
	w := &r.walk
	ep := w.chains[0]
	more := r.bySlot[ep.slot] == ep
	if more {
		if w.begun != ep {
			w.begun = ep
			r.cache.Rewind(ep.slot)
		}
		p.Endpoint = ep.spec.Name
		p.Chains, more = r.cache.Held(ep.slot, pieceNames)
	}
	if !more {
		w.chains = w.chains[1:]
	}
}

// Remember appends the entry of one conversation or response to a piece, to be stored by itself. It returns false if there is
// none.
func (r *Router) Remember(now time.Time, p *conversation.Piece, key session.Key) bool {
	return r.conversations.Add(now, p, key, r.warmAt)
}

// warmAt reports whether an endpoint's cache still has an epoch.
func (r *Router) warmAt(name string, epoch uint32) bool {
	ep := r.knownAs(name)
	return ep != nil && r.cache.Reader().Epoch(ep.slot) == epoch
}

// knownAs is the endpoint of a name, declared or restored; nil when there is none.
func (r *Router) knownAs(name string) *endpoint {
	if ep := r.byName[name]; ep != nil {
		return ep
	}
	return r.restored.endpoints[name]
}

func (p *pool) learnt() LearntPool {
	l := LearntPool{Name: p.name, Size: p.size.Export(), Parts: p.parts, Turns: p.turns.Export(), Prompts: p.prompts.Export()}
	l.Missing, l.Seen = p.answers.Export()
	return l
}

// Restore applies a piece. Pieces come in the order in which they were taken; later is the age of the snapshot. State of an
// endpoint that is not declared yet waits for its declaration. A router that has served requests keeps what it knows better: the
// speeds of endpoints that have had requests, and conversations whose latest turn came after the snapshot's.
func (r *Router) Restore(now time.Time, p *Piece, later time.Duration) {
	s := &r.restored
	if s.endpoints == nil {
		s.endpoints, s.pools = map[string]*endpoint{}, map[string]*LearntPool{}
	}
	if p.Fleet != nil || s.others == nil { // the first piece
		s.others, s.ahead = map[string]bool{}, map[string]uint32{}
	}
	if p.Fleet != nil && !r.worked {
		r.speed.RestoreFleet(p.Fleet)
	}
	s.until = now.Add(forgetAfter)
	for i := range p.Endpoints {
		r.restoreEndpoint(now, &p.Endpoints[i], later)
	}
	for i := range p.Pools {
		r.restorePool(&p.Pools[i])
	}
	if ep := r.knownAs(p.Endpoint); ep != nil && !s.others[p.Endpoint] {
		r.cache.Believe(ep.slot, p.Chains)
	}
	if p.Conversations != nil {
		r.conversations.Restore(now, p.Conversations, later, r.cacheNow)
	}
}

// cacheNow is the epoch of an endpoint's cache, 0 when the snapshot means another one, and how far its flow is ahead of the
// snapshot's.
func (r *Router) cacheNow(name string) (epoch, ahead uint32) {
	if ep := r.knownAs(name); ep != nil && !r.restored.others[name] {
		return r.cache.Reader().Epoch(ep.slot), r.restored.ahead[name]
	}
	return 0, 0
}

// restoreEndpoint allocates an endpoint's slot before its declaration. A declared one accepts speed and cache capacity until its
// first request.
func (r *Router) restoreEndpoint(now time.Time, l *LearntEndpoint, later time.Duration) {
	s, ep := &r.restored, r.knownAs(l.Name)
	if ep == nil {
		ep = r.newEndpoint(fleet.Endpoint{Name: l.Name, URL: l.URL, Part: l.Part})
		s.endpoints[l.Name] = ep
	}
	if ep.spec.URL != l.URL || ep.spec.Part != l.Part {
		s.others[l.Name] = true
		return
	}
	if !ep.worked {
		r.speed.Restore(now, ep.slot, &l.Speed, later)
	}
	if own := r.cache.Reader().Learnt(ep.slot).Flow; ep.worked || own != 0 {
		s.ahead[l.Name] = uint32(own) - uint32(l.Cache.Flow)
		return
	}
	r.cache.Restore(ep.slot, &l.Cache)
	r.describe(ep)
}

// restorePool keeps a pool's restored state until the pool exists. A pool that has learnt nothing takes it at once.
func (r *Router) restorePool(l *LearntPool) {
	s := &r.restored
	if len(s.pools) >= maxPools {
		return
	}
	s.pools[l.Name] = l
	if p := r.pools[l.Name]; p != nil && p.answers.Untaught() && p.size.Untaught() {
		s.of(p)
	}
}

// declared removes and returns the restored endpoint that matches a declaration; nil when there is none.
func (s *restored) declared(spec *fleet.Endpoint) *endpoint {
	ep := s.endpoints[spec.Name]
	if ep == nil || ep.spec.URL != spec.URL || ep.spec.Part != spec.Part {
		return nil
	}
	delete(s.endpoints, spec.Name)
	return ep
}

// of applies restored state to a new pool.
func (s *restored) of(p *pool) {
	l := s.pools[p.name]
	if l == nil {
		return
	}
	p.size.Restore(&l.Size)
	p.answers.Restore(l.Missing, l.Seen)
	if p.parts == l.Parts {
		p.turns.Restore(l.Turns)
		p.prompts.Restore(l.Prompts)
	}
}

// forgetRestored drops restored endpoints that were not declared in time.
func (r *Router) forgetRestored(now time.Time) {
	s := &r.restored
	if s.endpoints == nil || now.Before(s.until) {
		return
	}
	for _, ep := range slices.Clone(r.bySlot) {
		if ep != nil && s.endpoints[ep.spec.Name] == ep {
			r.leave(ep)
		}
	}
	*s = restored{}
}
