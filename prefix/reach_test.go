package prefix

import (
	"testing"

	"pgregory.net/rapid"
)

// TestReach: with blocks of different size a slot stays within its capacity after inserts, splits and evictions, and
// its units are those of its blocks.
func TestReach(t *testing.T) {
	reach := func(n int) int { return min(n, 4) + 3*max(0, n-4) }
	rapid.Check(t, func(t *rapid.T) {
		x := New(Config{Capacity: 40, Reach: reach})
		var chains [][]uint64
		last := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			var chain []uint64
			if len(chains) > 0 && rapid.Bool().Draw(t, "branches") {
				from := rapid.SampledFrom(chains).Draw(t, "from")
				chain = append(chain, from[:rapid.IntRange(0, len(from)).Draw(t, "at")]...)
			}
			for range rapid.IntRange(0, 20).Draw(t, "more") {
				last++ // each hash has one place
				chain = append(chain, last)
			}
			chains = append(chains, chain)
			slot := rapid.IntRange(0, 2).Draw(t, "slot")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				x.Truncate(slot, chain, rapid.IntRange(0, 10).Draw(t, "depth"))
			case 1:
				x.SetCapacity(slot, rapid.IntRange(0, 60).Draw(t, "capacity"))
			default:
				x.Insert(slot, chain)
				var m Matches
				x.Match(chain, &m)
				if want := x.within(len(chain), x.Capacity(slot)); m.Depth(slot) != want {
					t.Fatalf("%d of %d blocks are held after they were inserted, want %d",
						m.Depth(slot), len(chain), want)
				}
			}
			for i := range x.slots {
				units := 0
				for id := x.slots[i].newest; id != 0; id = x.members.at(id).older {
					m := x.members.at(id)
					nd := x.nodes.at(m.node)
					if p := x.nodes.at(nd.parent); nd.at != p.at+p.length {
						t.Fatalf("node %d is at %d, its parent ends at %d", m.node, nd.at, p.at+p.length)
					}
					units += reach(int(nd.at+m.length)) - reach(int(nd.at))
				}
				if units != x.Units(i) || units > x.Capacity(i) {
					t.Fatalf("slot %d takes %d units of %d, says %d", i, units, x.Capacity(i), x.Units(i))
				}
			}
		}
	})
}
