package cache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// TestComing compares what chains share with the prompts that are still to come, of each generation and way, with a
// search of all, while these come and end in any order. Some requests have several prompts, and some have another
// router's names, which need not cover all before them.
func TestComing(t *testing.T) {
	type kind struct {
		epoch    uint32
		transfer bool
	}
	var (
		x      Table
		c      coming
		rng    = rand.New(rand.NewPCG(5, 6))
		all    = chains(200)
		placed = map[uint32]bool{}
	)
	check := func(chain []uint64) {
		got, want, beyond, added := map[kind]int{}, map[kind]int{}, map[kind]int{}, 0
		for _, a := range c.groups {
			k := kind{a.epoch, a.transfer}
			if _, ok := got[k]; ok && len(a.prompts) > 0 {
				t.Fatalf("%v has two rows", k)
			}
			if n := a.prompts.common(&x.leases, chain, 2); n > 2 {
				got[k] = n
			}
			for p := range a.prompts.beyond(&x.leases, chain, 2) {
				if blocks.Common(p.chain(&x.leases), chain) <= 2 {
					t.Fatalf("%v shares no more than 2 blocks", p)
				}
				beyond[k]++
			}
		}
		for n := range placed {
			l := x.leases.Get(int(n))
			added += l.adds()
			for _, of := range l.prompts() {
				k := kind{l.epoch, l.leg == fleet.LegDecode}
				if n := blocks.Common(of, chain); n > 2 {
					want[k] = max(want[k], n)
					beyond[k]--
				}
			}
		}
		for k := range beyond {
			if got[k] != want[k] || beyond[k] != 0 {
				t.Fatalf("%v: %d blocks are shared, want %d; %d prompts too many share them",
					k, got[k], want[k], beyond[k])
			}
		}
		if c.blocks != added || len(c.leases) != len(placed) {
			t.Fatalf("%d leases add %d blocks, want %d and %d", len(c.leases), c.blocks, len(placed), added)
		}
	}
	for step := range 4000 {
		n := uint32(rng.IntN(300))
		l := x.leases.Grow(int(n))
		if placed[n] {
			c.remove(&x.leases, n)
			delete(placed, n)
		} else {
			l.begin()
			l.epoch, l.leg = uint32(1+step/100), []fleet.Leg{fleet.LegUnsplit, fleet.LegDecode}[rng.IntN(2)]
			if rng.IntN(4) == 0 {
				for range 1 + rng.IntN(3) {
					l.list.add(all[rng.IntN(len(all))])
				}
				l.list.add(nil)
			} else {
				l.chain = append(l.chain, all[rng.IntN(len(all))]...)
				l.depth = rng.IntN(len(l.chain) + 1)
			}
			c.add(&x.leases, n)
			placed[n] = true
		}
		check(all[rng.IntN(len(all))])
	}
	if len(c.groups) > 60 {
		t.Errorf("%d rows are kept for 40 generations, of which most are gone", len(c.groups))
	}
	for i := range uint32(100) { // the first names differ, the next are the same
		odd := x.leases.Grow(int(1000 + i))
		odd.begin()
		odd.epoch = 9
		odd.chain = append(odd.chain, uint64(rng.IntN(3)), uint64(rng.IntN(3)), uint64(rng.IntN(3)))
		c.add(&x.leases, 1000+i)
		placed[1000+i] = true
	}
	for _, n := range rng.Perm(100) {
		c.remove(&x.leases, uint32(1000+n))
		delete(placed, uint32(1000+n))
	}
	for n := range placed {
		c.remove(&x.leases, n)
	}
	if i := slices.IndexFunc(c.groups, func(a group) bool { return len(a.prompts) > 0 }); i >= 0 || c.blocks != 0 {
		t.Errorf("nothing is to come: %+v", c)
	}
}
