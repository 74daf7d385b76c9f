// Package cache estimates how much of a prompt each endpoint's KV cache holds.
//
// It owns the estimated content of each cache (bounded), its learnt capacity, and the requests that are about to add to
// it. It learns from placements, from the cached tokens that engines report, and, through package reported, from KV
// cache events. A second tier, in host memory or on disk, counts as capacity (capacity.go); where events tell of one,
// Cached.Far is what it alone has (predict.go), and package speed learns what fetching that takes. A Reader fills its
// columns of a pick.View and changes nothing; Note and Open store a decision's findings in its last step. The package
// counts tokens and blocks, of time only how long a request is under way, and chooses no endpoint.
//
// The way of a request: text.go names the blocks of its prompt, predict.go says who holds how many of them, place.go
// enters them where it goes, close.go settles what its engine counted. From that it learns capacity (capacity.go), in
// which unit a cache finds prompts again, and how much it finds of answers and of what was predicted (learn.go).
// Meanwhile the request is among those that are to add to the cache and those that occupy it, in an order by which
// others that begin alike are found (underway.go).
package cache

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/slot"
)

// Table holds the estimates of all caches.
type Table struct {
	Reader
	index     *prefix.Index // cached blocks, by endpoint
	near      *prefix.Index // of these, those in an engine's own memory, where it has a second tier; nil before one has
	missed    fit.Mean      // mean tokens per turn that were cached once and are cached nowhere now
	evicted   fit.Mean      // mean tokens that a turn evicts
	epochs    uint32        // last epoch number
	endpoints slot.Table[endpoint]
	leases    slot.Table[lease]
	Events    *reported.Table // what KV events say; Apply and Tokens take them in
	without   ablation.Set
}

// New makes an empty table that learns without some mechanisms.
func New(without ablation.Set) *Table {
	t := &Table{without: without, index: newIndex(), Events: reported.New()}
	t.Reader = Reader{t}
	return t
}

func newIndex() *prefix.Index { return prefix.New(prefix.Config{Reach: blocks.Reach, Chains: true}) }

// Reader is a read-only view of a Table.
type Reader struct{ t *Table }

// Facts are what an endpoint's declaration and reports state about its cache.
type Facts struct {
	OnePrompt   bool  // it holds one prompt at a time, as a slot of llama.cpp does
	Off         bool  // it says that it reuses no prefixes, which counts until an answer reports cached tokens
	CacheTokens int64 // stated capacity; 0 unknown
	BlockTokens int   // stated tokens per block; 0 unknown
}

// endpoint is one cache.
type endpoint struct {
	slot           int
	epoch          uint32 // changes when the cache is lost; unique over all endpoints
	facts          Facts
	outstanding    resident
	capacity       capacity
	grain          grain
	reuses         bool  // an answer has reported cached tokens
	flow           int64 // estimated blocks computed so far
	overprediction overprediction
	keeps          keeps
	lost           uint64 // times that the cache was lost
	coming         coming
	last           []uint64 // of a cache for one prompt, the one computed last
	unreported     unreported
}

// lease is a placed request.
type lease struct {
	slot         int
	epoch        uint32 // of the endpoint when it was placed
	turn         bool   // it has an answer
	first        bool   // it begins a conversation
	placed       time.Time
	leg          fleet.Leg
	done         bool // its prompt is computed
	promptTokens int  // estimated
	cachedTokens int  // predicted
	exact        bool // cachedTokens comes from KV events

	list    list     // of a request with several prompts; chain is empty then
	chain   []uint64 // block names of its prompt
	bytes   int      // canonical bytes of its prompt
	refused bool     // the engine is expected to refuse it, see endpoint.refuses
	depth   int      // blocks estimated to be cached
	counted int      // of these, blocks that cachedTokens includes
	sure    int      // of these, blocks already computed, not pending for another request
	flow    int      // blocks by which it increased the endpoint's flow

	base, answer int // tokens of the previous prompt and answer of the conversation at this endpoint; 0 for none
	since        int // blocks computed since then
}

// begin empties a lease's row and keeps its memory.
func (l *lease) begin() {
	*l = lease{chain: l.chain[:0], list: list{l.list.names[:0], l.list.ends[:0]}}
}

// AddEndpoint adds an endpoint.
func (t *Table) AddEndpoint(slot int) {
	e := t.endpoints.Grow(slot)
	*e = endpoint{slot: slot}
	t.renew(e)
	t.Events.AddEndpoint(slot, e.epoch)
}

// Describe sets the stated facts of an endpoint.
func (t *Table) Describe(slot int, f Facts) { t.endpoints.Get(slot).facts = f }

// Lost records that an endpoint's cache is empty: its process has ended or sleeps, or has said so.
func (t *Table) Lost(slot int) {
	t.Forget(slot)
	t.endpoints.Get(slot).lost++
}

// Forget empties an endpoint's cache, as that of a process of which nothing is known. It may find prompts in other
// units than the one before.
func (t *Table) Forget(slot int) {
	e := t.endpoints.Get(slot)
	t.empty(e)
	e.grain = grain{}
}

// RemoveEndpoint removes an endpoint without leases.
func (t *Table) RemoveEndpoint(slot int) {
	t.endpoints.Reset(slot)
	t.index.Drop(slot)
	if t.near != nil {
		t.near.Drop(slot)
	}
	t.Events.RemoveEndpoint(slot)
}

// empty begins a new epoch with nothing in the cache.
func (t *Table) empty(e *endpoint) {
	t.renew(e)
	t.index.Clear(e.slot)
	if t.near != nil {
		t.near.Clear(e.slot)
	}
	e.last = e.last[:0]
}

func (t *Table) renew(e *endpoint) {
	t.epochs++
	e.epoch = t.epochs
}

// Epoch is the cache's generation: above 0, unique over all endpoints, new when the cache is lost.
func (r Reader) Epoch(slot int) uint32 { return r.t.endpoints.Get(slot).epoch }

// Capacity is the estimated capacity in tokens; 0 before the first placement.
func (r Reader) Capacity(slot int) int64 {
	e := r.t.endpoints.Get(slot)
	if e.capacity.bound == 0 {
		return 0
	}
	return int64(float64(float64(r.statedTokens(slot)) * e.capacity.share))
}

// off reports whether the engine reuses nothing.
func (e *endpoint) off() bool { return e.facts.Off && !e.reuses }

// Room is the learnt capacity in tokens where the engine states one or its events show it; 0 where it is only
// assumed, and where the engine reuses nothing.
func (r Reader) Room(slot int) int64 {
	if r.t.endpoints.Get(slot).off() {
		return 0
	}
	if r.t.endpoints.Get(slot).facts.CacheTokens <= 0 && r.t.Events.Capacity(slot) <= 0 {
		return 0
	}
	return max(r.Capacity(slot), int64(firstShare*float64(r.statedTokens(slot))))
}

// Filled is the share of the estimated capacity that is believed to hold blocks, 0 to 1.
func (r Reader) Filled(slot int) float64 {
	bound := r.t.endpoints.Get(slot).capacity.bound
	if bound == 0 {
		return 0
	}
	return min(1, float64(r.t.index.Units(slot))/float64(bound))
}

// Losses counts how often an endpoint's cache was lost.
func (r Reader) Losses(slot int) uint64 { return r.t.endpoints.Get(slot).lost }

// Warmth is the state of a cache that a conversation remembers with its last turn.
type Warmth struct {
	Epoch uint32
	Flow  uint32 // blocks computed so far, modulo 2^32
	Bytes int    // canonical bytes of the turn's prompt, 0 unknown
	Marks [4]uint32
}

// Warmth is the state for a lease's conversation. It is valid until the lease's number is reused.
func (r Reader) Warmth(n uint32) Warmth {
	l := r.t.leases.Get(int(n))
	e := r.t.endpoints.Get(l.slot)
	return Warmth{Epoch: e.epoch, Flow: uint32(e.flow), Bytes: l.bytes, Marks: marksOf(l.chain)}
}

// Resident is the tokens that outstanding requests occupy, shared prefixes counted once. context counts them for each
// request.
func (r Reader) Resident(slot int, context int64) int64 {
	return r.t.endpoints.Get(slot).residentTokens(context)
}

// Audit checks the invariants of an endpoint without leases: nothing pending, nothing outstanding, a valid capacity.
func (r Reader) Audit(slot int) error {
	e := r.t.endpoints.Get(slot)
	if len(e.coming.leases) != 0 || e.coming.blocks != 0 ||
		len(e.outstanding.leases) != 0 || e.outstanding.blocks != 0 || e.outstanding.prompts != 0 {
		return fmt.Errorf("coming %+v, outstanding %+v", e.coming, e.outstanding)
	}
	if x := e.capacity.share; math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return fmt.Errorf("%v of the capacity is taken to be there", x)
	}
	return nil
}

// Empty reports whether a slot holds no blocks, as it must without an endpoint.
func (r Reader) Empty(slot int) bool { return r.t.index.Units(slot) == 0 }

// Export is what is known of an endpoint's cache.
func (r Reader) Export(slot int) learnt.Cache {
	e := r.t.endpoints.Get(slot)
	c := &e.capacity
	return learnt.Cache{
		Flow: e.flow, Bound: c.bound, Told: c.statedBlocks, Share: c.share,
		Missing: float64(e.overprediction.missing), Losses: float64(e.overprediction.n),
		Unit: e.grain.unit, Fits: e.grain.fits,
	}
}

// Restore takes in what was known of the cache of an endpoint that has entered and has had no request.
func (t *Table) Restore(slot int, l *learnt.Cache) {
	e := t.endpoints.Get(slot)
	e.flow = l.Flow
	e.capacity = capacity{bound: min(max(0, l.Bound), mostBlocks), statedBlocks: max(0, l.Told), share: l.Share}
	e.grain = grain{max(0, l.Unit), min(max(0, l.Fits), fit.Enough)}
	e.overprediction = overprediction{missing: fit.Sum(l.Missing), n: fit.Sum(l.Losses)}
	if e.capacity.bound > 0 {
		t.index.SetCapacity(slot, e.capacity.bound)
	}
}

// Rewind begins a walk through what an endpoint is estimated to hold.
func (t *Table) Rewind(slot int) { t.index.Rewind(slot) }

// Chains is the next chains of the walk, those used longest ago first, until they have that many names. more is false
// at the end.
func (t *Table) Chains(slot, names int) (chains []learnt.Chain, more bool) {
	var last []uint64
	for names > 0 {
		chain, ok := t.index.Next(slot, nil)
		if !ok {
			return chains, false
		}
		same := blocks.Common(chain, last)
		chains = append(chains, learnt.Chain{Same: same, Rest: chain[same:]})
		names -= len(chain)
		last = chain
	}
	return chains, true
}

// Believe adds chains that an endpoint was estimated to hold.
func (t *Table) Believe(slot int, chains []learnt.Chain) {
	e := t.endpoints.Get(slot)
	var chain []uint64
	for _, c := range chains {
		if c.Same < 0 || c.Same > len(chain) {
			return
		}
		chain = append(chain[:c.Same], c.Rest...)
		t.add(e, chain)
	}
}
