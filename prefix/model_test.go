package prefix

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is the meaning of an Index: a set of hashes per slot, each with the operation that used it last.
type naive struct {
	parent map[uint64]uint64 // of every held block; 0 for a first block
	slots  []naiveSlot
	now    int
}

type naiveSlot struct {
	capacity int
	used     map[uint64]int // block -> operation
	stored   map[uint64]int // block -> times stored minus times removed by the engine
}

func newNaive(slots, capacity int) *naive {
	n := &naive{parent: map[uint64]uint64{}}
	for range slots {
		n.slots = append(n.slots, naiveSlot{capacity, map[uint64]int{}, map[uint64]int{}})
	}
	return n
}

// path is a block and all before it, in order.
func (n *naive) path(h uint64) (p []uint64) {
	for ; h != 0; h = n.parent[h] {
		p = append(p, h)
	}
	slices.Reverse(p)
	return p
}

// extend marks the blocks before as used and accepts hashes up to the first contradiction.
func (n *naive) extend(slot int, parent uint64, hashes []uint64) int {
	n.now++
	taken := 0
	for _, h := range hashes {
		if p, known := n.parent[h]; h == 0 || known && p != parent {
			break
		}
		n.parent[h] = parent
		parent = h
		taken++
	}
	for _, h := range n.path(parent) {
		n.slots[slot].used[h] = n.now
	}
	return taken
}

func (n *naive) insert(slot int, chain []uint64) {
	n.extend(slot, 0, chain[:min(len(chain), n.slots[slot].capacity)])
	n.evict(slot)
}

func (n *naive) store(slot int, parent uint64, hashes []uint64) int {
	s := &n.slots[slot]
	if _, held := s.used[parent]; parent != 0 && !held {
		return 0
	}
	taken := n.extend(slot, parent, hashes)
	if taken > 0 {
		for _, h := range n.path(parent) {
			s.stored[h] = max(1, s.stored[h])
		}
	}
	for _, h := range hashes[:taken] {
		s.stored[h]++
	}
	n.evict(slot)
	return taken
}

func (n *naive) evict(slot int) {
	s := &n.slots[slot]
	for len(s.used) > s.capacity {
		var victim uint64
		for h := range s.used {
			if victim == 0 || s.used[h] < s.used[victim] ||
				s.used[h] == s.used[victim] && len(n.path(h)) > len(n.path(victim)) {
				victim = h
			}
		}
		n.forget(slot, victim)
	}
}

// forget removes a block and all after it from a slot.
func (n *naive) forget(slot int, h uint64) {
	s := &n.slots[slot]
	if _, held := s.used[h]; !held {
		return
	}
	for _, b := range slices.Sorted(maps.Keys(s.used)) {
		if slices.Contains(n.path(b), h) {
			delete(s.used, b)
			delete(s.stored, b)
		}
	}
	// A block that no slot holds has no place.
	for b := range n.parent {
		if !slices.ContainsFunc(n.slots, func(s naiveSlot) bool { _, held := s.used[b]; return held }) {
			delete(n.parent, b)
		}
	}
}

func (n *naive) remove(slot int, h uint64) {
	if s := &n.slots[slot]; s.stored[h] > 1 {
		s.stored[h]--
		return
	}
	n.forget(slot, h)
}

// depth is how many blocks of a chain a slot holds, each in its place.
func (n *naive) depth(slot int, chain []uint64) (d int) {
	parent := uint64(0)
	for _, h := range chain {
		if _, held := n.slots[slot].used[h]; !held || n.parent[h] != parent {
			break
		}
		parent = h
		d++
	}
	return d
}

// genChain draws chains that often share a beginning, a few of which contradict each other: a block's hash depends on
// the one before and on one of a few choices; sometimes it is a random small number instead.
func genChain(t *rapid.T, longest int) []uint64 {
	choices := rapid.SliceOfN(rapid.IntRange(0, 39), 0, longest).Draw(t, "choices")
	chain := make([]uint64, len(choices))
	at := uint64(0)
	for i, c := range choices {
		switch {
		case c == 39:
			at = rapid.Uint64Range(0, 9).Draw(t, "any hash")
		case c < 36:
			at = mix(at) // the most common choice
		default:
			at = mix(at + uint64(c))
		}
		chain[i] = at
	}
	return chain
}

// machine drives an Index and its model with the same operations.
type machine struct {
	x       *Index
	n       *naive
	matches Matches
	longest int // blocks of a chain
	initial int // capacity
}

func TestAgainstNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SampledFrom([]int{1, 2, 3, 5}).Draw(t, "slots")
		capacity := rapid.SampledFrom([]int{1, 7, 40, 200}).Draw(t, "capacity")
		m := &machine{
			x: New(Config{Capacity: capacity}), n: newNaive(slots, capacity), initial: capacity,
			longest: rapid.SampledFrom([]int{4, 20, 60}).Draw(t, "longest"),
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": m.insert, "insert more": m.insert, "store": m.store, "store more": m.store,
			"remove": m.remove, "truncate": m.truncate, "capacity": m.capacity, "drop": m.drop, "": m.check,
		})
	})
}

func (m *machine) slot(t *rapid.T) int { return rapid.IntRange(0, len(m.n.slots)-1).Draw(t, "slot") }

// held is a block of a slot, or a random number if it holds none.
func (m *machine) held(t *rapid.T, slot int) uint64 {
	all := slices.Sorted(maps.Keys(m.n.slots[slot].used))
	if len(all) == 0 {
		return rapid.Uint64Range(0, 9).Draw(t, "not held")
	}
	return rapid.SampledFrom(all).Draw(t, "held")
}

func (m *machine) insert(t *rapid.T) {
	s, chain := m.slot(t), genChain(t, m.longest)
	before, known := len(m.n.slots[s].used), m.n.depth(s, chain)
	added := m.x.Insert(s, chain)
	m.n.insert(s, chain)
	if left := len(m.n.slots[s].used); left-before > added || added > max(0, len(chain)-known) {
		t.Fatalf("Insert added %d of %d blocks, %d of them known; %d became %d", added, len(chain), known, before, left)
	}
}

func (m *machine) store(t *rapid.T) {
	s, chain := m.slot(t), genChain(t, m.longest)
	parent := uint64(0)
	switch rapid.IntRange(0, 3).Draw(t, "parent") {
	case 0:
		parent = m.held(t, s)
	case 1, 2: // as engines do: part of the chain, after its parent
		at := rapid.IntRange(0, len(chain)).Draw(t, "from")
		if at > 0 {
			parent = chain[at-1]
		}
		chain = chain[at:]
	}
	if got, want := m.x.Store(s, parent, chain), m.n.store(s, parent, chain); got != want {
		t.Fatalf("Store took %d, want %d", got, want)
	}
}

func (m *machine) remove(t *rapid.T) {
	s := m.slot(t)
	hashes := []uint64{m.held(t, s), m.held(t, s), 77}[:rapid.IntRange(1, 3).Draw(t, "hashes")]
	before := len(m.n.slots[s].used)
	got := m.x.Remove(s, hashes)
	for _, h := range hashes {
		m.n.remove(s, h)
	}
	if want := before - len(m.n.slots[s].used); got != want {
		t.Fatalf("Remove took %d, want %d", got, want)
	}
}

func (m *machine) truncate(t *rapid.T) {
	s, chain := m.slot(t), genChain(t, m.longest)
	depth := rapid.IntRange(-1, len(chain)+1).Draw(t, "depth")
	before := len(m.n.slots[s].used)
	got := m.x.Truncate(s, chain, depth)
	if d := max(0, depth); m.n.depth(s, chain) > d {
		m.n.forget(s, chain[d])
	}
	if want := before - len(m.n.slots[s].used); got != want {
		t.Fatalf("Truncate took %d, want %d", got, want)
	}
}

func (m *machine) capacity(t *rapid.T) {
	s, c := m.slot(t), rapid.IntRange(0, 2*m.initial).Draw(t, "capacity")
	m.x.SetCapacity(s, c)
	m.n.slots[s].capacity = c
	m.n.evict(s)
}

func (m *machine) drop(t *rapid.T) {
	s := m.slot(t)
	if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
		t.Skip("dropping is rare, or there would be nothing to drop")
	}
	m.x.Drop(s)
	m.n.slots[s].capacity = 0
	m.n.evict(s)
	m.n.slots[s].capacity = m.initial
}

func (m *machine) check(t *rapid.T) {
	checkInvariants(t, m.x)
	for s := range m.n.slots {
		used := m.n.slots[s].used
		if got, want := m.x.Len(s), len(used); got != want {
			t.Fatalf("slot %d holds %d blocks, want %d", s, got, want)
		}
		// The sets are equal if they have equally many blocks and each of the model's is held.
		for h := range used {
			path := m.n.path(h)
			if m.x.Match(path, &m.matches); m.matches.Depth(s) != len(path) {
				t.Fatalf("slot %d holds %d of %d blocks to %x", s, m.matches.Depth(s), len(path), h)
			}
		}
	}
	if m.x.Blocks() != len(m.n.parent) {
		t.Fatalf("%d blocks, want %d", m.x.Blocks(), len(m.n.parent))
	}
	chain := genChain(t, m.longest)
	m.x.Match(chain, &m.matches)
	deepest := 0
	for s := range m.n.slots {
		want := m.n.depth(s, chain)
		deepest = max(deepest, want)
		if got := m.matches.Depth(s); got != want {
			t.Fatalf("slot %d holds %d blocks of %x, want %d", s, got, chain, want)
		}
	}
	if m.matches.Deepest() != deepest {
		t.Fatalf("deepest %d, want %d", m.matches.Deepest(), deepest)
	}
}
