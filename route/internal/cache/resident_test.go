package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/route/internal/blocks"
)

// chains are n chains, of which every few begin alike; the names of each cover all before them.
func chains(n int) [][]uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([][]uint64, n)
	for i := range all {
		if i > 0 && rng.IntN(4) > 0 {
			from := all[rng.IntN(i)]
			all[i] = append(all[i], from[:rng.IntN(len(from)+1)]...)
		}
		for range 1 + rng.IntN(40) {
			all[i] = append(all[i], rng.Uint64())
		}
	}
	return all
}

// outstandingOf is a table with an endpoint that has requests with these chains.
func outstandingOf(all [][]uint64) (*Table, *endpoint) {
	t, e := &Table{}, &endpoint{}
	for i, chain := range all {
		l := t.leases.Grow(i)
		l.chain = chain
		t.addResident(e, uint32(i), l, .25)
	}
	return t, e
}

// TestShared compares what chains share with those outstanding with a search of all, while these end one by one.
func TestShared(t *testing.T) {
	all := chains(300)
	x, e := outstandingOf(all)
	gone := 0
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(all)) {
		for _, chain := range all[:30] {
			want := 0
			for _, n := range e.outstanding.leases {
				want = max(want, blocks.Common(chain, all[n]))
			}
			if got := x.shared(e, chain); got != want {
				t.Fatalf("with %d outstanding %d are shared, want %d", len(e.outstanding.leases), got, want)
			}
		}
		x.removeResident(e, uint32(i), x.leases.Get(i))
		gone++
	}
	if o := e.outstanding; gone != len(all) || len(o.leases) != 0 || len(o.sorted) != 0 || o.blocks != 0 {
		t.Errorf("with none outstanding: %+v", o)
	}
}

// BenchmarkResident places and ends one request while n others are outstanding at its endpoint.
func BenchmarkResident(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := chains(n + 1)
			x, e := outstandingOf(all[:n])
			l := x.leases.Grow(n)
			l.chain = all[n]
			for b.Loop() {
				x.addResident(e, uint32(n), l, .25)
				x.removeResident(e, uint32(n), l)
			}
		})
	}
}

// BenchmarkTouchInUse ends a request at a full cache with 64 answers under way, from prompts of 500 kB.
func BenchmarkTouchInUse(b *testing.B) {
	const blocks = 600 // names of such a prompt
	all := make([][]uint64, 64)
	for i := range all {
		for j := range blocks {
			all[i] = append(all[i], uint64(i*blocks+j+1))
		}
	}
	x, e := outstandingOf(all)
	x.index = newIndex()
	x.index.SetCapacity(0, e.outstanding.blocks)
	e.capacity.bound = e.outstanding.blocks
	*x.endpoints.Grow(0) = *e
	e = x.endpoints.Get(0)
	for i, chain := range all {
		x.leases.Get(i).done = true
		x.index.Insert(0, chain)
	}
	b.ReportAllocs()
	for b.Loop() {
		x.touchInUse(e)
	}
}
