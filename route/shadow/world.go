package shadow

import (
	"container/heap"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/internal/speed"
	"github.com/warmpath/warmpath/session"
)

// world models the fleet as if one policy had always decided: the endpoint of each conversation, the blocks that each
// endpoint holds, and its outstanding work. Only that policy's choices change it. Requests, their times, the endpoints,
// their speed and health are the real ones. An endpoint computes prompts one after another at its learnt speed; an
// answer ends after its expected tokens. No engine corrects a world, so worlds can be compared with each other, but not
// with measurements.
type world struct {
	homes   *session.Table
	index   *prefix.Index
	found   prefix.Matches
	keys    []uint64
	within  string // model name for the keys
	places  []place
	ends    ends
	sizes   size.Model // for the tokens of a prompt per canonical byte
	sums    World
	spread  spreadOf
	returns arrivals.Returns
	clock   arrivals.Clock
}

// place is an endpoint in a world, by Candidate.Slot.
type place struct {
	key         uint64
	epoch       uint32
	bound       int // most blocks that it holds
	load        fleet.Load
	until       time.Time // when its prompts are computed
	turns       arrivals.Turns
	utilisation arrivals.Utilisation
	// idle from the time of their turns on, since a world does not follow the ends of answers
	idles arrivals.Idles
}

func newWorld(c session.Config) *world {
	return &world{
		sizes: size.NewModel(),
		homes: session.New(c),
		index: prefix.New(prefix.Config{Reach: blocks.Reach, Chains: true}),
	}
}

func (w *world) knows(g *Sighting) bool {
	name := g.name(g.session)
	_, ok := w.homes.Get(g.view.Now, &name)
	return ok
}

func (g *Sighting) name(id string) session.Name { return session.NameOf(g.request.Tenant, g.pool, id) }

// follow applies the choice of this world's policy, or the actual choice if p is nil. mix has the kinds of turns there.
func (w *world) follow(s *Set, g *Sighting, p *pick.Installed, mix *arrivals.Mix) {
	w.advance(g.view.Now)
	v := &s.view
	s.show(v, g)
	name := g.name(g.session)
	home, known := w.homes.Get(v.Now, &name)
	w.fill(v, g, &home, known && !v.FirstTurn)
	v.LaterTurns, v.TurnTokens = mix.Expect(0)
	at := g.chosen
	if p != nil && (len(v.Candidates) > 1 || !g.forced) { // as in the router
		at = s.ask(p, v, g).Index
	}
	c := &v.Candidates[at]
	own := cost.OwnTerms(v.PromptTokens, &c.Cached, &c.Pace, &c.Wait)
	ttft := own.TTFT()
	if len(v.Candidates) > 1 {
		mix.Add(v.FirstTurn, v.PromptTokens-c.CachedTokens)
	}
	w.sums.Turns++
	w.sums.PromptTokens += uint64(v.PromptTokens)
	w.sums.CachedTokens += uint64(c.CachedTokens)
	w.sums.TTFTMs += ttft
	w.spread.add(ttft)
	if v.Home >= 0 {
		w.sums.Later++
		if v.Home == at {
			w.sums.Home++
		}
	}
	w.put(v, g, c, &home, p)
}

// fill replaces homes, caches and queues in the view by those of this world.
func (w *world) fill(v *pick.View, g *Sighting, home *session.Entry, known bool) {
	v.Home, v.Parent, v.MostCached = -1, -1, 0
	parent := ""
	if g.request.Parent != "" {
		name := g.name(g.request.Parent)
		e, _ := w.homes.Get(v.Now, &name)
		parent = e.Endpoint
	}
	w.within = ""
	now := w.clock.Tick(v.Now)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		at, cached := w.at(c), c.Cached
		cached.CachedTokens = 0
		depth, rest := 0, uint32(0)
		if g.request.Content != nil && len(g.content.Blocks) > 0 {
			w.look(g, c.Model)
			if depth = w.found.Depth(c.Slot); depth > 0 {
				found, lead := blocks.Bytes(depth), g.content.Lead
				cached.CachedTokens = min(size.Part(v.PromptTokens, lead+found, lead+g.content.Bytes), v.PromptTokens-1)
			}
		}
		if known && home.Endpoint == c.Name {
			v.Home, rest = i, home.IdleSince
			if home.Epoch == c.Epoch &&
				(g.request.Content == nil || depth >= blocks.Kept(home.Bytes/fleet.BlockBytes)) {
				cached.CachedTokens = max(cached.CachedTokens, min(home.Tokens, v.PromptTokens-1))
			}
		}
		if parent != "" && parent == c.Name {
			v.Parent = i
		}
		cached.CachedTokens = max(0, cached.CachedTokens)
		if c.BlockTokens > 1 {
			cached.CachedTokens -= cached.CachedTokens % c.BlockTokens
		}
		v.MostCached = max(v.MostCached, cached.CachedTokens)
		// Common blocks of outstanding prompts are not modelled here.
		cached.ActiveTokens, cached.AddsTokens = at.load.ContextTokens-at.load.DecodeTokens,
			v.PromptTokens-cached.CachedTokens
		cached.Full = at.bound > 0 && w.index.Units(c.Slot) >= at.bound-at.bound/64
		wait := at.expect(v, c)
		if c.Load = at.load; c.CacheTokens > 0 {
			c.KVUsage = min(1, at.used(c))
		}
		at.idles.Advance(now, &w.returns)
		own, demand := cost.OwnTerms(v.PromptTokens, &cached, &c.Pace, &wait),
			pick.Demand{TurnsPerMs: at.turns.PerMs(v.Now)}
		demand.Utilisation = at.utilisation.Share(v.Now)
		demand.ReturnsPerMs = at.idles.PerMs(now, rest, own.Wait+own.Prefill, &w.returns)
		c.Complete(&cached, &c.Pace, &wait, &c.DecodePace, &demand, &c.Link)
	}
}

// expect is how long a request waits at an endpoint in this world. What the world does not model is as in the row.
func (at *place) expect(v *pick.View, c *pick.Candidate) pick.Wait {
	w := c.Wait
	w.WaitMs, w.Occupancy, w.OfPlaces = max(0, fleet.Ms(at.until.Sub(v.Now))), 0, false
	if n := c.Places; n > 0 {
		if at.load.Requests >= n {
			answerMs := float64(float64(v.OutputTokens) * perAnswer(c))
			w.WaitMs = max(w.WaitMs, float64(answerMs*float64(at.load.Requests-n+1))/float64(n))
		}
		w.Occupancy, w.OfPlaces = float64(at.load.Requests)/float64(n), true
	}
	if used := at.used(c); c.CacheTokens > 0 && used > w.Occupancy {
		w.Occupancy, w.OfPlaces = used, false
	}
	return w
}

// used is the share of an endpoint's cache that is taken in this world.
func (at *place) used(c *pick.Candidate) float64 {
	return float64(at.load.ContextTokens) / float64(c.CacheTokens)
}

func perAnswer(c *pick.Candidate) float64 {
	if c.MsPerAnswer > 0 {
		return c.MsPerAnswer
	}
	return speed.FirstPace
}

// at is a candidate's place. It is empty if the slot has a new endpoint, or the cache is known to be lost.
func (w *world) at(c *pick.Candidate) *place {
	for len(w.places) <= c.Slot {
		w.places = append(w.places, place{})
	}
	at := &w.places[c.Slot]
	if at.key != c.Key {
		w.index.Drop(c.Slot)
		*at = place{key: c.Key, epoch: c.Epoch}
	}
	if at.epoch != c.Epoch {
		w.index.Clear(c.Slot)
		at.epoch = c.Epoch
	}
	return at
}

// look finds the endpoints that hold blocks of a prompt, for a model.
func (w *world) look(g *Sighting, model string) {
	if w.within == model && len(w.keys) > 0 {
		return
	}
	w.keys = blocks.Keys(w.keys, blocks.Scope(model, g.request.Tenant, &g.content), &g.content)
	w.index.Match(w.keys, &w.found)
	w.within = model
}

func (w *world) put(v *pick.View, g *Sighting, c *pick.Candidate, home *session.Entry, p *pick.Installed) {
	at := &w.places[c.Slot]
	prefill, decode := int64(v.PromptTokens-c.CachedTokens), int64(v.OutputTokens)
	took := float64(float64(prefill) * c.MsPerToken)
	begins := v.Now.Add(fleet.Duration(c.WaitMs))
	at.until = begins.Add(fleet.Duration(took))
	first := at.until.Add(fleet.Duration(c.FixedMs))
	at.utilisation.Spend(v.Now, took)
	at.turns.Add(v.Now)
	context := int64(v.PromptTokens) + decode
	at.load.Add(fleet.Load{Requests: 1, PrefillTokens: prefill, DecodeTokens: decode, ContextTokens: context})
	w.later(end{at: first, slot: c.Slot, key: at.key, load: fleet.Load{PrefillTokens: -prefill}})
	last := end{
		at: first.Add(fleet.Duration(float64(float64(decode) * perAnswer(c)))), slot: c.Slot, key: at.key,
		load: fleet.Load{Requests: -1, DecodeTokens: -decode, ContextTokens: -context},
	}
	if p != nil {
		if p.Hooks.Reserved != nil {
			p.Hooks.Reserved(g.lease, c, v, &g.request)
		}
		last.released, last.lease = p.Hooks.Released, g.lease
	}
	w.later(last)
	if g.session != "" {
		now := w.clock.Tick(v.Now)
		if v.Home >= 0 {
			w.at(&v.Candidates[v.Home]).idles.Return(now, home.IdleSince, &w.returns)
		}
		at.idles.Add(now, &w.returns)
		name := g.name(g.session)
		w.homes.Put(v.Now, &name, session.Entry{
			Endpoint: c.Name, Epoch: c.Epoch, Tokens: v.PromptTokens + v.OutputTokens, Bytes: g.content.Bytes,
			Prompt: v.PromptTokens, IdleSince: now,
		})
	}
	if g.request.Content == nil || len(g.content.Blocks) == 0 {
		return
	}
	w.look(g, c.Model)
	w.bound(v, g, c, at)
	w.index.Insert(c.Slot, w.keys)
}

func (w *world) bound(v *pick.View, g *Sighting, c *pick.Candidate, at *place) {
	w.sizes.Learn(&size.Sample{Bytes: g.content.Bytes}, v.PromptTokens, 0)
	if n := cache.Blocks(c.CacheTokens, w.sizes.TokensPerByte); at.bound == 0 || cache.Differs(n, at.bound) {
		at.bound = max(n, 1)
		w.index.SetCapacity(c.Slot, at.bound)
	}
}

func (w *world) report() World {
	r := w.sums
	r.P50Ms, r.P90Ms, r.P99Ms = w.spread.quantile(0.5), w.spread.quantile(0.9), w.spread.quantile(0.99)
	return r
}

// end is the end of a part of an endpoint's load in a world.
type end struct {
	at   time.Time
	slot int
	key  uint64     // of the slot's endpoint
	load fleet.Load // what ends of the load, below 0

	released func(l fleet.Lease, answered bool) // hook for the end of the lease; nil for none
	lease    fleet.Lease
}

// ends is a heap, earliest first.
type ends []*end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push and Pop implement heap.Interface.
func (e *ends) Push(x any) { *e = append(*e, x.(*end)) }

// Pop removes the last one.
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return x
}

// later schedules an end. Above bound.Most of them the next one comes at once.
func (w *world) later(e end) {
	if len(w.ends) >= bound.Most {
		w.over(heap.Pop(&w.ends).(*end))
	}
	heap.Push(&w.ends, &e)
}

// advance applies the ends up to now.
func (w *world) advance(now time.Time) {
	for len(w.ends) > 0 && !w.ends[0].at.After(now) {
		w.over(heap.Pop(&w.ends).(*end))
	}
}

func (w *world) over(e *end) {
	if e.released != nil {
		e.released(e.lease, true)
	}
	at := &w.places[e.slot]
	if at.key != e.key {
		return // the slot has another endpoint now
	}
	at.load.Add(e.load)
}
