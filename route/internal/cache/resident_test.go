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

// TestKeepsMore: a cache keeps more than is believed once most of the conversations that had little predicted are found
// whole, and no longer once they are not. Those that had much predicted say nothing.
func TestKeepsMore(t *testing.T) {
	k := keeps{}
	learn := func(times, base, predicted, found int) {
		for range times {
			k.learn(&lease{base: base, cachedTokens: predicted}, found)
		}
	}
	for _, step := range []struct {
		what                          string
		times, base, predicted, found int
		want                          bool
	}{
		{"as predicted", 50, 8000, 8000, 8000, false},
		{"new ones", 50, 0, 0, 8000, false},
		{"a few found whole", 3, 8000, 0, 8000, false},
		{"more of them", 7, 8000, 3000, 7000, true},
		{"found in part", 40, 8000, 3000, 6000, false},
		{"found whole again", 40, 8000, 3000, 8000, true},
	} {
		learn(step.times, step.base, step.predicted, step.found)
		if got := k.more(); got != step.want {
			t.Errorf("%s: %t, want %t", step.what, got, step.want)
		}
	}
}
