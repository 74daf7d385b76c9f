package prefix_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/prefix"
)

// TestHeldRestoresAll: the chains of a walk, inserted elsewhere, restore the slot's content, however the index was used
// in between.
func TestHeldRestoresAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := prefix.New(prefix.Config{Capacity: 40, Chains: true})
		chain := func() (c []uint64) { // of a small tree
			h := uint64(1)
			for range rapid.IntRange(1, 12).Draw(t, "blocks") {
				h = h*7 + uint64(rapid.IntRange(1, 2).Draw(t, "branch"))
				c = append(c, h)
			}
			return c
		}
		var all [][]uint64
		insert := func() {
			c := chain()
			all = append(all, c)
			x.Insert(rapid.IntRange(0, 1).Draw(t, "slot"), c)
		}
		for range rapid.IntRange(0, 20).Draw(t, "inserts") {
			insert()
		}
		copied := prefix.New(prefix.Config{Capacity: 40, Chains: true})
		x.Rewind(0)
		for {
			c, ok := x.Next(0, nil)
			if !ok {
				break
			}
			copied.Insert(0, c)
			if len(all) < 30 && rapid.Bool().Draw(t, "meanwhile") {
				insert()
			}
		}
		var here, there prefix.Matches
		for _, c := range all {
			x.Match(c, &here)
			copied.Match(c, &there)
			if here.Depth(0) > there.Depth(0) {
				t.Fatalf("of %v %d blocks are held, of the copy's %d", c, here.Depth(0), there.Depth(0))
			}
		}
	})
}

// TestHeldIsInOrderOfUse: the least recently used chain comes first, so that the copy evicts it first too.
func TestHeldIsInOrderOfUse(t *testing.T) {
	x := prefix.New(prefix.Config{Capacity: 10})
	x.Insert(0, []uint64{1, 2, 3})
	x.Insert(0, []uint64{1, 2, 4})
	x.Insert(0, []uint64{7})
	x.Insert(0, []uint64{1, 2, 3})
	x.Rewind(0)
	var got [][]uint64
	for c, ok := x.Next(0, nil); ok; c, ok = x.Next(0, nil) {
		got = append(got, c)
	}
	if want := [][]uint64{{1, 2, 4}, {7}, {1, 2, 3}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("told %v, want %v", got, want)
	}
}
