package prefix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// depths is how many blocks of a chain each of the first slots holds.
func depths(x *Index, slots int, chain []uint64) []int {
	var m Matches
	x.Match(chain, &m)
	out := make([]int, slots)
	for s, d := range m.All() {
		out[s] = d
	}
	return out
}

func TestEvictionOrder(t *testing.T) {
	long := []uint64{1, 2, 3, 4, 5, 6}
	branch := []uint64{1, 2, 30, 40}
	for _, c := range []struct {
		name         string
		capacity     int
		use          [][]uint64
		long, branch int // blocks held at the end
	}{
		{"the deepest of one chain goes first", 4, [][]uint64{long}, 4, 2},
		{"the branch used last stays, the other loses its end", 6, [][]uint64{long, branch}, 4, 4},
		{"used again, the older branch stays", 6, [][]uint64{long, branch, long}, 6, 2},
		{"what a shorter repeat does not use goes first", 6, [][]uint64{long, {1, 2, 3, 4, 5}, {9}}, 5, 2},
		{"one block less is enough", 7, [][]uint64{long, {1, 2}, branch, {8}, {9}}, 3, 4},
		{"what is shared is as recent as its latest use", 5, [][]uint64{branch, long}, 5, 2},
		{"another chain pushes all out but what is used", 3, [][]uint64{long, {7, 8, 9}}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := New(Config{Capacity: c.capacity})
			for _, chain := range c.use {
				x.Insert(0, chain)
				checkInvariants(t, x)
			}
			if got := []int{depths(x, 1, long)[0], depths(x, 1, branch)[0]}; !slices.Equal(got,
				[]int{c.long, c.branch}) {
				t.Errorf("holds %d of the long chain and its branch, want %d and %d", got, c.long, c.branch)
			}
		})
	}
}

func TestRepeatsAreHeldUntilRemovedAsOften(t *testing.T) {
	x := New(Config{})
	chain := chainOf(0, 5, 40)
	x.Insert(0, chain[:10]) // believed only: the first Store confirms it
	for range 3 {
		x.Store(0, 0, chain[:20])
		x.Store(0, chain[19], chain[20:])
	}
	x.Store(1, 0, chain)
	for round, want := range []int{40, 40, 15} {
		x.Remove(0, chain[15:])
		if got := depths(x, 2, chain); !slices.Equal(got, []int{want, 40}) {
			t.Errorf("after %d removals %d blocks are held, want [%d 40]", round+1, got, want)
		}
		checkInvariants(t, x)
	}
	if len(x.repeats) != 15 {
		t.Errorf("%d repeats are remembered, want those of the 15 blocks still held", len(x.repeats))
	}
	x.Clear(0)
	if len(x.repeats) != 0 {
		t.Errorf("%d repeats are left of a slot that holds nothing", len(x.repeats))
	}
}

func TestStoreNeedsItsParent(t *testing.T) {
	x := New(Config{})
	chain := chainOf(0, 5, 8)
	if got := x.Store(0, chain[3], chain[4:]); got != 0 {
		t.Errorf("took %d blocks after one that nobody holds", got)
	}
	x.Store(1, 0, chain)
	if got := x.Store(0, chain[3], chain[4:]); got != 0 {
		t.Errorf("took %d blocks after one that another slot holds", got)
	}
	x.Store(0, 0, chain[:3])
	if got := x.Store(0, chain[3], chain[4:]); got != 0 {
		t.Errorf("took %d blocks after one beyond what the slot holds", got)
	}
	if got := x.Store(0, chain[2], chain[3:]); got != 5 {
		t.Errorf("took %d blocks after one held, want 5", got)
	}
	checkInvariants(t, x)
}

func TestTruncate(t *testing.T) {
	x := New(Config{})
	a := []uint64{1, 2, 3, 4, 5}
	b := []uint64{1, 2, 3, 40, 50}
	c := []uint64{1, 20, 30}
	for s := range 2 {
		for _, chain := range [][]uint64{a, b, c} {
			x.Insert(s, chain)
		}
	}
	if got := x.Truncate(0, a, 2); got != 5 {
		t.Errorf("forgot %d blocks, want 5: the third and what follows it on two chains", got)
	}
	for _, row := range []struct {
		chain []uint64
		want  []int
	}{{a, []int{2, 5}}, {b, []int{2, 5}}, {c, []int{3, 3}}} {
		if diff := cmp.Diff(row.want, depths(x, 2, row.chain)); diff != "" {
			t.Errorf("%v: %s", row.chain, diff)
		}
	}
	for _, depth := range []int{2, 3, 5, 9} {
		if got := x.Truncate(0, a, depth); got != 0 {
			t.Errorf("forgot %d blocks beyond %d, where it held none", got, depth)
		}
	}
	if got := x.Truncate(0, a, -1); got != 4 {
		t.Errorf("forgot %d blocks, want all 4", got)
	}
	checkInvariants(t, x)
}

func TestContradictionsCountUpToWhereTheyBegin(t *testing.T) {
	x := New(Config{})
	x.Insert(0, []uint64{1, 2, 3})
	for _, c := range []struct {
		chain []uint64
		want  int
	}{
		{[]uint64{5, 2, 3}, 1},     // 2 comes after 1
		{[]uint64{1, 3}, 1},        // 3 comes after 2
		{[]uint64{2, 3}, 0},        // 2 is no first block
		{[]uint64{6, 6}, 1},        // a block after itself
		{[]uint64{7, 8, 7, 9}, 2},  // a circle
		{[]uint64{10, 0, 11}, 1},   // 0 names no block
		{[]uint64{1, 2, 3, 12}, 4}, // none
	} {
		x.Insert(1, c.chain)
		if got := depths(x, 2, c.chain)[1]; got != c.want {
			t.Errorf("%v: holds %d, want %d", c.chain, got, c.want)
		}
		checkInvariants(t, x)
	}
}

func TestClearAndDropLeaveNothing(t *testing.T) {
	const slots = 200
	x := New(Config{Capacity: 300})
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		for range 3000 {
			// Chains that part at many places; every slot holds a part of each.
			chain := chainOf(0, uint64(r.IntN(3)), r.IntN(60))
			if len(chain) > 0 {
				chain = append(chain, chainOf(chain[len(chain)-1], uint64(100+r.IntN(5)), r.IntN(40))...)
			}
			s := r.IntN(slots)
			x.Insert(s, chain)
			if r.IntN(10) == 0 {
				x.Store(s, 0, chain)
			}
		}
		checkInvariants(t, x)
		for s := range slots {
			if round == 1 {
				x.Drop(s)
			} else {
				x.Clear(s)
			}
			if x.Len(s) != 0 {
				t.Fatalf("slot %d still holds %d blocks", s, x.Len(s))
			}
		}
		nodes, chunks, members := x.nodes.given()-1, x.chunks.given()-1, x.members.given()-1
		if x.Blocks() != 0 || nodes != 0 || chunks != 0 || members != 0 || len(x.repeats) != 0 {
			t.Fatalf("%d blocks, %d nodes, %d chunks, %d members and %d repeats are left",
				x.Blocks(), nodes, chunks, members, len(x.repeats))
		}
		checkInvariants(t, x)
	}
}

func TestDropGivesBackTheCapacity(t *testing.T) {
	x := New(Config{Capacity: 9})
	x.SetCapacity(2, 3)
	x.Insert(2, []uint64{1, 2, 3, 4})
	if x.Len(2) != 3 || x.Capacity(2) != 3 {
		t.Errorf("holds %d of %d, want 3 of 3", x.Len(2), x.Capacity(2))
	}
	x.Drop(2)
	if x.Len(2) != 0 || x.Capacity(2) != 9 {
		t.Errorf("after Drop holds %d of %d, want 0 of 9", x.Len(2), x.Capacity(2))
	}
	x.SetCapacity(1, 0)
	if got := x.Insert(1, []uint64{1}); got != 0 || x.Blocks() != 0 {
		t.Errorf("a slot without capacity took %d blocks", got)
	}
}

func TestLongChains(t *testing.T) {
	const n = 100_000
	x := New(Config{Capacity: 3 * n})
	chain := chainOf(0, 9, n)
	if got := x.Insert(0, chain); got != n {
		t.Fatalf("added %d blocks, want %d", got, n)
	}
	x.Insert(1, chain[:n/2])
	// Each splits the run at another place.
	for _, at := range []int{1, 13, 14, 15, 77, n / 3, n - 1} {
		x.Insert(2, append(slices.Clone(chain[:at]), uint64(at)))
	}
	checkInvariants(t, x)
	if diff := cmp.Diff([]int{n, n / 2, n - 1}, depths(x, 3, chain)); diff != "" {
		t.Error(diff)
	}
	// One block per node, the worst case for one chain, then all of it at once.
	for at := 2000; at > 0; at-- {
		x.Insert(3, chain[:at])
	}
	x.SetCapacity(3, 1)
	x.Truncate(0, chain, 1)
	x.Drop(2)
	checkInvariants(t, x)
	if diff := cmp.Diff([]int{1, n / 2, 0, 1}, depths(x, 4, chain)); diff != "" {
		t.Error(diff)
	}
}

// TestMatchesIsReused: nothing of an earlier chain remains, and nothing is allocated.
func TestMatchesIsReused(t *testing.T) {
	x := New(Config{})
	x.Insert(0, []uint64{1, 2, 3})
	x.Insert(5, []uint64{1, 2})
	x.Insert(9, []uint64{7})
	var m Matches
	for _, c := range []struct {
		chain            []uint64
		deepest, holders int
	}{{[]uint64{1, 2, 3, 4}, 3, 2}, {[]uint64{7}, 1, 1}, {[]uint64{8}, 0, 0}, {nil, 0, 0}} {
		x.Match(c.chain, &m)
		if m.Deepest() != c.deepest || m.Holders() != c.holders {
			t.Errorf("%v: deepest %d by %d, want %d by %d", c.chain, m.Deepest(), m.Holders(), c.deepest, c.holders)
		}
	}
	if m.Depth(0) != 0 || m.Depth(9) != 0 || m.Depth(-1) != 0 || m.Depth(MaxSlots) != 0 {
		t.Error("depths are left of an earlier chain")
	}
	chain := []uint64{1, 2, 3}
	if n := testing.AllocsPerRun(100, func() { x.Match(chain, &m) }); n != 0 {
		t.Errorf("a look-up allocates %v times", n)
	}
}

// TestSameOperationsSameIndex: equal operations give equal results, including the order of All.
func TestSameOperationsSameIndex(t *testing.T) {
	run := func() string {
		x := New(Config{Capacity: 50})
		r := rand.New(rand.NewPCG(3, 4))
		for range 2000 {
			chain := chainOf(0, uint64(r.IntN(9)), r.IntN(30))
			switch s := r.IntN(8); r.IntN(5) {
			case 0:
				x.Remove(s, chain)
			case 1:
				x.Truncate(s, chain, r.IntN(10))
			default:
				x.Insert(s, chain)
			}
		}
		var m Matches
		out := ""
		for k := range uint64(9) {
			x.Match(chainOf(0, k, 30), &m)
			for s, d := range m.All() {
				out += fmt.Sprintf("%d:%d ", s, d)
			}
		}
		return out
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

func TestBadArguments(t *testing.T) {
	x := New(Config{})
	for name, f := range map[string]func(){
		"negative capacity": func() { New(Config{Capacity: -1}) },
		"negative slot":     func() { x.Insert(-1, nil) },
		"slot too large":    func() { x.SetCapacity(MaxSlots, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	// Clear and Len of an unknown slot are allowed.
	x.Clear(7)
	x.Drop(-1)
	x.Remove(7, []uint64{1})
	x.Truncate(7, []uint64{1}, 0)
	if x.Len(7) != 0 || x.Capacity(7) != DefaultCapacity {
		t.Error("a slot never named is not empty")
	}
}

// TestShorterRepeat: a block that a shorter repeat leaves out keeps its age.
func TestShorterRepeat(t *testing.T) {
	x := New(Config{Capacity: 7})
	chain := []uint64{1, 2, 3, 4, 5, 6}
	x.Insert(0, chain)
	x.Insert(0, []uint64{7})
	x.Insert(0, chain[:5])
	x.Insert(0, []uint64{8})
	for _, row := range []struct {
		chain []uint64
		want  int
	}{{chain, 5}, {[]uint64{7}, 1}, {[]uint64{8}, 1}} {
		if got := depths(x, 1, row.chain)[0]; got != row.want {
			t.Errorf("%v: holds %d, want %d", row.chain, got, row.want)
		}
	}
	checkInvariants(t, x)
}
