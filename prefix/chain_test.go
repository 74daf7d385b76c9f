package prefix

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestChainIsThePath inserts chains with common beginnings and looks up the chain to each of their blocks.
func TestChainIsThePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := New(Config{Capacity: 1 << 20})
		paths := map[uint64][]uint64{}
		names := []uint64{0}
		for i := range rapid.IntRange(1, 40).Draw(t, "stores") {
			parent := rapid.SampledFrom(names).Draw(t, "parent")
			var chain []uint64
			for j := range rapid.IntRange(1, 40).Draw(t, "blocks") {
				chain = append(chain, uint64(i+1)<<16|uint64(j)+1)
			}
			if got := x.Store(i%3, parent, chain); got == 0 && parent != 0 {
				continue // another slot holds the parent
			}
			for j, h := range chain {
				paths[h] = append(slices.Clone(paths[parent]), chain[:j+1]...)
				names = append(names, h)
			}
		}
		for _, h := range names[1:] {
			got, ok := x.Chain(h, []uint64{7})
			if !ok || got[0] != 7 || !slices.Equal(got[1:], paths[h]) {
				t.Fatalf("the way to %x is %x (%v), want %x", h, got, ok, paths[h])
			}
			if d := x.Depth(h); d != len(paths[h]) {
				t.Fatalf("%x is at depth %d, want %d", h, d, len(paths[h]))
			}
			held := false
			for slot := range 3 {
				held = held || x.Holds(slot, h)
			}
			if !held {
				t.Fatalf("nobody holds %x", h)
			}
		}
		if _, ok := x.Chain(99<<40, nil); ok {
			t.Fatal("the way to a block that nobody holds")
		}
	})
}
