// Package prefix remembers which endpoint is believed to hold which blocks of which prompts, and finds the cached
// prefix of a new prompt at all endpoints in one pass.
//
// A block is named by a sequence hash, which covers the block and everything before it; a chain is the sequence hashes
// of a prompt from its first block on. So a hash has one place: the first chain that contains it fixes its parent, and
// two chains with a common hash have a common beginning up to it. A chain that contradicts this (by collision or
// mistake) counts up to the contradiction only. The hash 0 names no block.
//
// The blocks form a radix tree. A node is a run of consecutive blocks and knows the endpoints that hold a beginning of
// the run. An endpoint that holds a block also holds all before it. Each endpoint is bounded by an exact LRU over its
// blocks: the least recently used block goes first, and of those used by the same operation the deepest, so a block
// never goes before one that needs it. Recency is the order of operations, not time.
//
// Memory consists of paged arrays of records without pointers (no work for the garbage collector), reused through free
// lists: about 28 bytes for a block held by one endpoint in long chains, 10 with Config.Chains, no allocation at steady
// state. Results do not depend on chance or on map order.
package prefix

import (
	"fmt"
	"sort"
)

// MaxSlots is the number of endpoints of an Index; slots are 0 to MaxSlots-1.
const MaxSlots = 1 << 16

// DefaultCapacity is the default bound of an endpoint, in blocks: one million tokens in blocks of 32.
const DefaultCapacity = 32768

// Config sets up an Index.
type Config struct {
	// Capacity is how many blocks (units of Reach) an endpoint may hold unless SetCapacity was called; 0 means
	// DefaultCapacity. Memory is at most about 28 bytes per block, and 230 if every conversation is a single block that
	// no other shares.
	Capacity int
	// Reach is the number of units of capacity that the first n blocks of a chain take; nil means n. It never decreases
	// and Reach(0) is 0. It allows blocks of different size.
	Reach func(n int) int
	// Chains means that single blocks are never named, as events of engines do: Store, Remove, Chain and Depth
	// panic. Only the first block of each run can then be found by its hash, which saves two thirds of time and memory.
	// A contradiction between chains is noticed where they part, not at each block. Confirm says then what Store says
	// otherwise.
	Chains bool
}

// Index holds the belief about each endpoint's cache. The zero value is not usable; see New. It is not safe for
// concurrent use, except that several Match may run concurrently, each with its own Matches, while nothing else does.
type Index struct {
	table   table // hash -> address of the block; with Chains only of first blocks of runs
	chains  bool  // Config.Chains
	chunks  pool[chunk, *chunk]
	nodes   pool[node, *node]
	members pool[member, *member]
	slots   []slot

	// repeats counts how often an engine stored a block beyond the first time.
	repeats map[repeat]uint32

	reach    func(n int) int
	capacity int      // of slots without SetCapacity
	scratch  []uint32 // nodes of a subtree
	last     uint32   // node that Remove shortened last; it may be gone
}

// slot is one endpoint.
type slot struct {
	blocks   int
	units    int // used capacity; equals blocks without Config.Reach
	capacity int
	newest   uint32 // members in order of use
	oldest   uint32
	walk     *walk // nil if there is none
}

// New returns an empty Index.
func New(c Config) *Index {
	if c.Capacity < 0 {
		panic(fmt.Sprintf("prefix: capacity of %d blocks", c.Capacity))
	}
	if c.Capacity == 0 {
		c.Capacity = DefaultCapacity
	}
	x := &Index{capacity: c.Capacity, reach: c.Reach, chains: c.Chains, repeats: map[repeat]uint32{}}
	// Index 0 of each pool means none; node 0 is the root, which holds no block.
	x.chunks.take()
	x.nodes.take()
	x.members.take()
	return x
}

// single panics if single blocks cannot be found by hash.
func (x *Index) single() {
	if x.chains {
		panic("prefix: a single block is named in an Index made with Config.Chains")
	}
}

// onlyChains panics if the engine names single blocks, which Store counts.
func (x *Index) onlyChains() {
	if !x.chains {
		panic("prefix: a chain is confirmed in an Index made without Config.Chains")
	}
}

// units is the capacity that blocks [from, to) of a node's run take.
func (x *Index) units(nd *node, from, to uint32) int {
	if x.reach == nil {
		return int(to - from)
	}
	return x.reach(int(nd.at+to)) - x.reach(int(nd.at+from))
}

// SetCapacity bounds a slot, in units of Config.Reach; a smaller bound evicts at once. A bound of 0 keeps the slot
// empty.
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

// Len is the number of blocks that a slot holds.
func (x *Index) Len(slot int) int {
	if slot < 0 || slot >= len(x.slots) {
		return 0
	}
	return x.slots[slot].blocks
}

// Units is the used capacity of a slot.
func (x *Index) Units(slot int) int {
	if slot < 0 || slot >= len(x.slots) {
		return 0
	}
	return x.slots[slot].units
}

// Insert notes that the slot holds the chain, as it will once a request with this prompt was sent there. New blocks are
// added, all are marked as just used, and blocks over capacity are evicted; of a chain longer than the capacity the
// beginning is kept. It returns the number of new blocks.
func (x *Index) Insert(slot int, chain []uint64) int {
	s := x.slot(slot)
	chain = chain[:x.within(len(chain), s.capacity)] // the rest would be evicted first
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

// Truncate notes that the slot holds at most depth blocks of the chain, because the endpoint reported fewer cached
// tokens than predicted. The blocks after them are forgotten, on all chains that contain the first of them. It returns
// their number.
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

// Confirm notes that the endpoint has computed what the slot holds of the chain. It does not count as a use.
func (x *Index) Confirm(slot int, chain []uint64) {
	x.onlyChains()
	for id, same := range x.along(slot, chain) {
		m := x.members.at(id)
		m.stored = max(m.stored, same)
	}
}

// Confirmed is how many blocks of the chain the slot holds and Confirm has named, alone or as the beginning of a longer
// chain.
func (x *Index) Confirmed(slot int, chain []uint64) (n int) {
	x.onlyChains()
	for id, same := range x.along(slot, chain) {
		n += int(min(x.members.at(id).stored, same))
	}
	return n
}

// Clear forgets what a slot holds, after its endpoint restarted or emptied its cache.
func (x *Index) Clear(slot int) {
	if slot < 0 || slot >= len(x.slots) {
		return
	}
	for s := &x.slots[slot]; s.oldest != 0; {
		x.shrink(s.oldest, 0)
	}
}

// Drop forgets a slot and its capacity, after its endpoint left; the slot may be reused.
func (x *Index) Drop(slot int) {
	if slot < 0 || slot >= len(x.slots) {
		return
	}
	x.Clear(slot)
	x.slots[slot].capacity = x.capacity
}

// slot is the state of a slot, created on first use.
func (x *Index) slot(i int) *slot {
	if i < 0 || i >= MaxSlots {
		panic(fmt.Sprintf("prefix: slot %d is not in 0 to %d", i, MaxSlots-1))
	}
	for len(x.slots) <= i {
		x.slots = append(x.slots, slot{capacity: x.capacity})
	}
	return &x.slots[i]
}

// Chain appends the chain that ends with block last to to, first block first; ok is false when no slot holds the block.
func (x *Index) Chain(last uint64, to []uint64) (chain []uint64, ok bool) {
	x.single()
	a := x.find(last)
	if last == 0 || a == 0 {
		return to, false
	}
	n, i := x.locate(a)
	return x.path(n, i+1, to), true
}

// Depth is the length of the chain that ends with a block; 0 when no slot holds it.
func (x *Index) Depth(hash uint64) int {
	x.single()
	a := x.find(hash)
	if hash == 0 || a == 0 {
		return 0
	}
	n, i := x.locate(a)
	return int(x.nodes.at(n).at+i) + 1
}
