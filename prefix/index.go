// Package prefix is REMEMBER for blocks: which endpoint is believed to hold which blocks of which prompt, so that the
// part of a new prompt that need not be prefilled again can be told for every endpoint at once.
//
// A block is named by a sequence hash, which covers the block and everything before it; a chain is the sequence hashes
// of a prompt from its first block on. So a hash has one place: the first chain that brings it fixes its parent, two
// chains with a hash in common have everything before it in common too, and a chain that contradicts this (by collision
// or mistake) counts up to the contradiction only. The hash 0 names no block.
//
// The blocks form a radix tree. A node is a run of blocks that are followed one by another; it knows the endpoints that
// hold a beginning of the run. What an endpoint holds is closed: with a block it holds all before it. Each endpoint is
// bounded by an exact LRU over its blocks: the block used longest ago goes first, and of those used by the same
// operation the deepest, so a block never goes before one that needs it. Recency is the order of operations, not time.
//
// Memory is paged arrays of records without pointers (the garbage collector has nothing to look at), reused through
// free lists: about 28 bytes for a block held by one endpoint in long chains, 10 when only chains are named, no allocation
// at steady state. Nothing depends on chance or on the order of a map.
package prefix

import (
	"fmt"
	"sort"
)

// MaxSlots is how many endpoints an Index can tell apart; slots are 0 to MaxSlots-1.
const MaxSlots = 1 << 16

// DefaultCapacity is the bound, in blocks, of an endpoint of which nothing is known: one million tokens in blocks of 32.
const DefaultCapacity = 32768

// Config sets up an Index.
type Config struct {
	// Capacity is how many blocks (units of Reach) an endpoint may hold until SetCapacity says otherwise; 0 means DefaultCapacity.
	// Memory is bounded by about 28 bytes for each block, and by 230 if every conversation is one block that it shares with none.
	Capacity int
	// Reach says how many units of capacity the first n blocks of a chain take; nil stands for n. It never decreases and
	// Reach(0) is 0. It lets the blocks of a chain be of different size.
	Reach func(n int) int
	// Chains says that nobody will name single blocks, as the events of engines do: Store, Remove, Chain, Holds and Depth
	// panic. Of each run only the first block can then be found by its hash, which saves two thirds of the time and the
	// memory. A chain that contradicts another is found out where the one leaves the other, not at each block.
	Chains bool
}

// Index is the belief of what each endpoint holds. The zero value is not usable; see New. It is not safe for concurrent
// use, except that several Match may run at once, each with its own Matches, while nothing else does.
type Index struct {
	table   table // hash -> address of the block, or of first blocks of runs only
	chains  bool  // Config.Chains
	blocks  int   // in all runs
	chunks  pool[chunk, *chunk]
	nodes   pool[node, *node]
	members pool[member, *member]
	slots   []slot

	// repeats counts, for blocks that an engine stored more than once, how often beyond the first.
	repeats map[repeat]uint32

	reach    func(n int) int
	capacity int      // of slots that SetCapacity has not named
	scratch  []uint32 // nodes of a subtree
	last     uint32   // node that Remove shortened last; it may have gone since
}

// slot is one endpoint.
type slot struct {
	blocks   int
	units    int // of capacity; blocks, unless Config.Reach says otherwise
	capacity int
	newest   uint32 // members, in order of use
	oldest   uint32
}

// New makes an empty Index.
func New(c Config) *Index {
	if c.Capacity < 0 {
		panic(fmt.Sprintf("prefix: capacity of %d blocks", c.Capacity))
	}
	if c.Capacity == 0 {
		c.Capacity = DefaultCapacity
	}
	x := &Index{capacity: c.Capacity, reach: c.Reach, chains: c.Chains, repeats: map[repeat]uint32{}}
	// Index 0 of each pool is nobody; node 0 is the root, which holds no block.
	x.chunks.take()
	x.nodes.take()
	x.members.take()
	return x
}

// single panics where single blocks are named that cannot be found.
func (x *Index) single() {
	if x.chains {
		panic("prefix: a single block is named in an Index made with Config.Chains")
	}
}

// units is what the blocks from to to of a node's run take of the capacity.
func (x *Index) units(nd *node, from, to uint32) int {
	if x.reach == nil {
		return int(to - from)
	}
	return x.reach(int(nd.at+to)) - x.reach(int(nd.at+from))
}

// SetCapacity bounds what a slot holds, in units of Config.Reach; a smaller bound than before evicts at once. A bound of 0 keeps the slot empty.
func (x *Index) SetCapacity(slot, blocks int) {
	s := x.slot(slot)
	s.capacity = max(0, blocks)
	x.evict(s)
}

// Capacity is the bound of a slot in units.
func (x *Index) Capacity(slot int) int {
	if slot < 0 || slot >= len(x.slots) {
		return x.capacity
	}
	return x.slots[slot].capacity
}

// Len is how many blocks a slot holds.
func (x *Index) Len(slot int) int {
	if slot < 0 || slot >= len(x.slots) {
		return 0
	}
	return x.slots[slot].blocks
}

// Units is how much of its capacity a slot takes.
func (x *Index) Units(slot int) int {
	if slot < 0 || slot >= len(x.slots) {
		return 0
	}
	return x.slots[slot].units
}

// Blocks is how many distinct blocks are held by anybody.
func (x *Index) Blocks() int { return x.blocks }

// Bytes is the memory taken, in bytes. It follows the largest size the index had: what is freed is kept for use again.
func (x *Index) Bytes() int64 {
	const repeatBytes = 40 // a map entry, its control byte and the room that maps leave free
	return x.table.bytes() + x.chunks.bytes(chunkBytes) + x.nodes.bytes(nodeBytes) + x.members.bytes(memberBytes) +
		int64(cap(x.slots))*slotBytes + int64(cap(x.scratch))*4 + int64(len(x.repeats))*repeatBytes
}

// Insert says that the slot now holds the chain, as it does once a request with this prompt was sent there. Blocks that
// are new to the slot are added, all are marked as just used, and what no longer fits is evicted; of a chain longer than
// the capacity the beginning is kept. It returns how many blocks were new to the slot.
func (x *Index) Insert(slot int, chain []uint64) int {
	s := x.slot(slot)
	chain = chain[:x.within(len(chain), s.capacity)] // the rest would be the first to go
	before := s.blocks
	n, k, _ := x.extend(uint16(slot), 0, 0, chain)
	x.claim(uint16(slot), n, k, 0)
	added := s.blocks - before
	x.evict(s)
	return added
}

// within is how many of n blocks fit a capacity.
func (x *Index) within(n, capacity int) int {
	if x.reach == nil {
		return min(n, capacity)
	}
	if x.reach(n) <= capacity {
		return n
	}
	return sort.Search(n, func(i int) bool { return x.reach(i+1) > capacity })
}

// Truncate says that the slot holds no more than depth blocks of the chain: the endpoint reported fewer cached tokens than
// believed. What it was believed to hold beyond is forgotten, on all chains that share the first block beyond. It returns
// how many blocks were forgotten.
func (x *Index) Truncate(slot int, chain []uint64, depth int) int {
	if depth = max(0, depth); slot < 0 || slot >= len(x.slots) || depth >= len(chain) {
		return 0
	}
	before := x.slots[slot].blocks
	if n, k, i := x.descend(0, 0, chain[:depth+1]); i == depth+1 {
		x.forget(uint16(slot), n, k-1)
	}
	return before - x.slots[slot].blocks
}

// Clear forgets what a slot holds: the endpoint has started anew or emptied its cache.
func (x *Index) Clear(slot int) {
	if slot < 0 || slot >= len(x.slots) {
		return
	}
	for s := &x.slots[slot]; s.oldest != 0; {
		x.shrink(s.oldest, 0)
	}
}

// Drop forgets a slot and its capacity: the endpoint is gone and the slot may get another.
func (x *Index) Drop(slot int) {
	if slot < 0 || slot >= len(x.slots) {
		return
	}
	x.Clear(slot)
	x.slots[slot].capacity = x.capacity
}

// slot is the state of a slot, made when it is first named.
func (x *Index) slot(i int) *slot {
	if i < 0 || i >= MaxSlots {
		panic(fmt.Sprintf("prefix: slot %d is not in 0 to %d", i, MaxSlots-1))
	}
	for len(x.slots) <= i {
		x.slots = append(x.slots, slot{capacity: x.capacity})
	}
	return &x.slots[i]
}
