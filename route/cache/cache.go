// Package cache estimates how much of a prompt each endpoint's KV cache holds.
//
// It owns what each endpoint is believed to hold, how large its cache proves to be, and which requests are about to add to it. It
// learns from what was placed where, from what engines say they found cached, and, through package reported, from KV cache events. A
// Reader fills in its columns of a pick.View and changes nothing; a decision's findings are noted in its last step. What is
// believed is bounded for each endpoint. The package reckons in tokens and blocks, never in time, and chooses no endpoint.
package cache

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/cache/reported"
	"github.com/warmpath/warmpath/slot"
)

// Table is what is known of all caches.
type Table struct {
	index     *prefix.Index // by endpoint, the blocks that it is believed to hold
	missed    float64       // tokens of a turn that were known and are cached nowhere any more, of late
	evicted   float64       // tokens that a turn pushed out of a cache, of late
	epochs    uint32        // handed out so far
	endpoints slot.Table[endpoint]
	leases    slot.Table[lease]
	reported  reported.Table
}

// New makes an empty table.
func New() *Table {
	return &Table{index: prefix.New(prefix.Config{Reach: blocks.Reach, Chains: true})}
}

// Reader reads a Table. None of its methods changes the table.
type Reader struct{ t *Table }

// Reader is what steps that may not write are handed.
func (t *Table) Reader() Reader { return Reader{t} }

// Facts are what an endpoint's declaration and reports say of its cache.
type Facts struct {
	OnePrompt   bool  // it holds one prompt at a time, as a slot of llama.cpp does
	CacheTokens int64 // that it has room for, as the engine says; 0 unknown
	BlockTokens int   // tokens of a block, as the engine says; 0 unknown
}

// endpoint is what is known of one cache.
type endpoint struct {
	facts      Facts
	engine     uint32 // counts the engines that were at its address
	epoch      uint32 // another one since the cache is known to have been lost; no two endpoints ever have the same
	capacity   capacity
	restart    restart
	flow       int64    // blocks computed so far, as far as is known
	restarts   uint64   // times that it was noticed to have lost its cache
	pending    []uint32 // leases whose blocks are not computed yet
	held       held
	losses     losses
	unreported unreported
}

// lease is what is kept of a placed request.
type lease struct {
	slot         int
	engine       uint32 // of the endpoint when it was placed
	epoch        uint32 // of the endpoint when it was placed
	turn         bool   // it has an answer
	leg          fleet.Leg
	placed       time.Time
	done         bool // its prompt is computed
	promptTokens int  // estimated
	cachedTokens int  // predicted
	exact        bool // that prediction was made of events

	chain   []uint64 // the blocks of its prompt
	bytes   int      // canonical bytes of it
	depth   int      // blocks of it that were believed to be cached
	counted int      // of these, blocks that the prediction counts on
	sure    int      // of these, blocks that were not only about to be computed for another request

	base, answer int  // tokens of the prompt and the answer that it goes on from at its endpoint; 0 for none
	since        int  // blocks computed since that
	recent       bool // it goes on from a turn since which little has been put into the cache
}

// mostKept bounds the memory, in blocks, that the row of a lease keeps for the next one.
const mostKept = 4096

// Enter begins the row of an endpoint.
func (t *Table) Enter(slot int) {
	e := t.endpoints.Get(slot)
	*e = endpoint{}
	t.renew(e)
	t.reported.Enter(slot, e.epoch)
}

// Describe takes over what an endpoint's declaration and its reports say.
func (t *Table) Describe(slot int, f Facts) { t.endpoints.Get(slot).facts = f }

// Lost forgets what an endpoint held: its cache is empty.
func (t *Table) Lost(slot int) {
	e := t.endpoints.Get(slot)
	t.renew(e)
	e.restart.forget()
	t.index.Clear(slot)
}

// Replaced forgets what was learnt of an endpoint: another engine is at its address. What is under way there still counts.
func (t *Table) Replaced(slot int) {
	t.Lost(slot)
	e := t.endpoints.Get(slot)
	e.engine++
	e.capacity, e.restart, e.flow, e.restarts, e.unreported = capacity{}, restart{}, 0, 0, unreported{}
	t.reported.Replaced(slot)
}

// Left forgets an endpoint with no lease.
func (t *Table) Left(slot int) {
	t.endpoints.Reset(slot)
	t.index.Drop(slot)
	t.reported.Left(slot)
}

// renew begins another epoch of a cache.
func (t *Table) renew(e *endpoint) {
	t.epochs++
	e.epoch = t.epochs
}

// restarted forgets what an endpoint held, since it has started anew.
func (t *Table) restarted(slot int) {
	t.Lost(slot)
	t.endpoints.Get(slot).restarts++
}

// Epoch is the number of an endpoint's cache: above 0, another one when the cache is lost, and never that of another endpoint.
func (r Reader) Epoch(slot int) uint32 { return r.t.endpoints.Get(slot).epoch }

// Capacity is how many tokens an endpoint's cache is taken to hold; 0 before anything was placed there.
func (r Reader) Capacity(slot int) int64 {
	e := r.t.endpoints.Get(slot)
	if e.capacity.bound == 0 {
		return 0
	}
	return r.provenTokens(slot)
}

// Restarts is how often an endpoint was noticed to have lost its cache.
func (r Reader) Restarts(slot int) uint64 { return r.t.endpoints.Get(slot).restarts }

// Figures are what is known of an endpoint's KV events.
func (r Reader) Figures(slot int) reported.Figures { return r.t.reported.Reader().Figures(slot) }

// Warmth is what a conversation remembers of the cache that its turn was computed into.
type Warmth struct {
	Epoch uint32
	Flow  uint32 // blocks put into the cache so far, modulo 2^32
	Bytes int    // canonical bytes of the turn's prompt, 0 unknown
}

// Warmth is that of a lease, until its number is used again.
func (r Reader) Warmth(n uint32) Warmth {
	l := r.t.leases.Get(int(n))
	e := r.t.endpoints.Get(l.slot)
	return Warmth{Epoch: e.epoch, Flow: uint32(e.flow), Bytes: l.bytes}
}

// Resident is how many tokens outstanding requests keep in an endpoint's memory. context is the same with what they share counted for each.
func (r Reader) Resident(slot int, context int64) int64 {
	return r.t.endpoints.Get(slot).resident(context)
}

// Idle reports what is left of leases that have ended, at an endpoint with none, or what no cache can have been learnt to be.
func (r Reader) Idle(slot int) error {
	e := r.t.endpoints.Get(slot)
	if len(e.pending) != 0 || len(e.held.leases) != 0 || e.held.blocks != 0 || e.held.prompts != 0 {
		return fmt.Errorf("pending %v, held %+v", e.pending, e.held)
	}
	if x := e.capacity.share; math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return fmt.Errorf("%v of the capacity is taken to be there", x)
	}
	return nil
}

// Empty reports whether nothing is believed to be at a slot, as must be so where no endpoint has it.
func (r Reader) Empty(slot int) bool { return r.t.index.Units(slot) == 0 }
