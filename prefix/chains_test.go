package prefix

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawnChain draws a chain over few different blocks, so that many have common beginnings. Each hash covers all blocks
// before, as in real prompts.
func drawnChain(t *rapid.T) (chain []uint64) {
	h := uint64(1)
	for _, b := range rapid.SliceOfN(rapid.Uint64Range(1, 2), 0, 40).Draw(t, "blocks") {
		h = h*0x100000001b3 + b
		chain = append(chain, h|1<<63)
	}
	return chain
}

// what describes all that an Index reports.
func what(x *Index, chain []uint64, slots int) string {
	var m Matches
	x.Match(chain, &m)
	s := fmt.Sprintf("blocks %d deepest %d holders %d", x.Blocks(), m.Deepest(), m.Holders())
	for i := range slots {
		s += fmt.Sprintf(" [%d: depth %d len %d units %d of %d]", i, m.Depth(i), x.Len(i), x.Units(i), x.Capacity(i))
	}
	return s
}

// TestChainsOnly compares an Index that finds single blocks with one that does not.
func TestChainsOnly(t *testing.T) {
	const slots = 3
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Capacity: rapid.IntRange(1, 60).Draw(t, "capacity")}
		if rapid.Bool().Draw(t, "reach") {
			c.Reach = func(n int) int { return n + min(n, 5) }
		}
		all := New(c)
		c.Chains = true
		few := New(c)
		var before []uint64
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			slot, chain := rapid.IntRange(0, slots-1).Draw(t, "slot"), drawnChain(t)
			if len(before) > 0 && rapid.Bool().Draw(t, "again") {
				chain = before[:rapid.IntRange(0, len(before)).Draw(t, "of it")]
			}
			before = chain
			for _, x := range []*Index{all, few} {
				switch n := len(chain); n % 7 {
				case 5:
					x.Truncate(slot, chain, n/2)
				case 6:
					x.SetCapacity(slot, n*2)
				default:
					x.Insert(slot, chain)
				}
				if len(chain) == 33 {
					x.Clear(slot)
				}
				checkInvariants(t, x)
			}
			if want, got := what(all, chain, slots), what(few, chain, slots); got != want {
				t.Fatalf("by chains alone: %s\nwith all blocks: %s", got, want)
			}
		}
		for i := range slots {
			few.Drop(i)
		}
		checkInvariants(t, few)
		if few.Blocks() != 0 || few.table.entries() != 0 {
			t.Fatalf("%d blocks, %d entries are left", few.Blocks(), few.table.entries())
		}
	})
}

// TestChainsContradict inserts hashes after different parents, which an Index made with Chains does not notice at once:
// it stays sound and forgets everything in the end.
func TestChainsContradict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := New(Config{Capacity: rapid.IntRange(1, 40).Draw(t, "capacity"), Chains: true})
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			slot := rapid.IntRange(0, 2).Draw(t, "slot")
			chain := rapid.SliceOfN(rapid.Uint64Range(0, 12), 0, 20).Draw(t, "chain")
			if rapid.IntRange(0, 4).Draw(t, "what") == 0 {
				x.Truncate(slot, chain, len(chain)/2)
			} else {
				x.Insert(slot, chain)
			}
			checkInvariants(t, x)
		}
		for i := range 3 {
			x.Clear(i)
		}
		checkInvariants(t, x)
		if x.Blocks() != 0 || x.table.entries() != 0 {
			t.Fatalf("%d blocks, %d entries are left", x.Blocks(), x.table.entries())
		}
	})
}

// TestChainsRefuse: methods that need single blocks panic instead of finding nothing, as do those that need chains
// alone.
func TestChainsRefuse(t *testing.T) {
	x, single := New(Config{Chains: true}), New(Config{})
	for name, f := range map[string]func(){
		"Store": func() { x.Store(0, 0, []uint64{1}) }, "Remove": func() { x.Remove(0, []uint64{1}) },
		"Chain": func() { x.Chain(1, nil) }, "Holds": func() { x.Holds(0, 1) }, "Depth": func() { x.Depth(1) },
		"Confirm": func() { single.Confirm(0, nil) }, "Confirmed": func() { single.Confirmed(0, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// BenchmarkNewPrompts inserts prompts without common parts into a full index, so that each evicts another: a router
// without KV events under traffic that never returns.
func BenchmarkNewPrompts(b *testing.B) {
	for _, blocks := range []int{128, 1600} {
		for _, chains := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/chains=%v", blocks, chains), func(b *testing.B) {
				x := New(Config{Chains: chains})
				h, prompt := uint64(1), make([]uint64, blocks)
				next := func() {
					for i := range prompt {
						h = h*0x9e3779b97f4a7c15 + 1
						prompt[i] = h
					}
				}
				for i := range 4 * (DefaultCapacity/blocks + 1) {
					next()
					x.Insert(i%4, slices.Clone(prompt))
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					next()
					x.Insert(i%4, prompt)
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(blocks), "ns/block")
				b.ReportMetric(float64(x.Bytes())/float64(x.Blocks()), "B/block")
			})
		}
	}
}
