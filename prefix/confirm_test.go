package prefix

import (
	"testing"

	"pgregory.net/rapid"
)

// confirm marks the held blocks of a chain.
func (n *naive) confirm(slot int, chain []uint64) {
	for _, h := range chain[:n.depth(slot, chain)] {
		n.slots[slot].stored[h] = 1
	}
}

// confirmed is how many blocks of a chain a slot holds and was told of.
func (n *naive) confirmed(slot int, chain []uint64) (d int) {
	for d < n.depth(slot, chain) && n.slots[slot].stored[chain[d]] > 0 {
		d++
	}
	return d
}

// TestConfirmed: what is confirmed is what was named while it was held, and eviction, forgetting and other chains
// through the same blocks change no more of it than they take away.
func TestConfirmed(t *testing.T) {
	const slots = 3
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 80).Draw(t, "capacity")
		x, n := New(Config{Capacity: capacity, Chains: true}), newNaive(slots, capacity)
		var before [][]uint64
		chain := func() []uint64 {
			c := drawnChain(t)
			if len(before) > 0 && rapid.Bool().Draw(t, "again") {
				c = rapid.SampledFrom(before).Draw(t, "which")
				c = c[:rapid.IntRange(0, len(c)).Draw(t, "of it")]
			}
			before = append(before, c)
			return c
		}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			slot, c := rapid.IntRange(0, slots-1).Draw(t, "slot"), chain()
			switch rapid.IntRange(0, 9).Draw(t, "operation") {
			case 0:
				d := x.Confirmed(slot, c)
				x.Truncate(slot, c, d)
				if n.depth(slot, c) > d {
					n.forget(slot, c[d])
				}
			case 1:
				x.SetCapacity(slot, len(c))
				n.slots[slot].capacity = len(c)
				n.evict(slot)
			case 2, 3, 4:
				x.Confirm(slot, c)
				n.confirm(slot, c)
			default:
				x.Insert(slot, c)
				n.insert(slot, c)
			}
			checkInvariants(t, x)
			for slot := range slots {
				for _, c := range before {
					if got, want := x.Confirmed(slot, c), n.confirmed(slot, c); got != want {
						t.Fatalf("slot %d: %d of %d blocks are confirmed, want %d", slot, got, len(c), want)
					}
				}
			}
		}
		if x.Confirmed(slots, before[0]) != 0 || x.Confirmed(-1, before[0]) != 0 {
			t.Error("a slot that there is not holds confirmed blocks")
		}
	})
}
