package speed

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// naive is what equate does, from the start: sort all endpoints, and look for the peers of each.
func naive(t *Table) map[int]float64 {
	var order []int
	for _, slot := range t.order {
		if t.endpoints.Get(slot).prefill.known > 0 {
			order = append(order, slot)
		}
	}
	of := func(i int) *prefill { return &t.endpoints.Get(order[i]).prefill }
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(t.endpoints.Get(a).prefill.known, t.endpoints.Get(b).prefill.known)
	})
	sums, weights := []float64{0}, []float64{0}
	for i := range order {
		w := min(of(i).evidence(), priorTokens*priorTokens)
		sums, weights = append(sums, sums[i]+float64(w*of(i).known)), append(weights, weights[i]+w)
	}
	beyond := func(perToken float64) int {
		return sort.Search(len(order), func(i int) bool { return of(i).known > perToken })
	}
	like := map[int]float64{}
	for i, slot := range order {
		s := of(i)
		_, fixed := t.settled(s)
		off := s.unsure(min(fixed, t.mean.fixed))
		from, to := beyond(min(s.known/alike, s.known-off)), beyond(max(float64(s.known*alike), s.known+off))
		like[slot] = (sums[to] - sums[from]) / (weights[to] - weights[from])
	}
	return like
}

// TestEquateAgainstModel: whatever endpoints come, go and turn out to be, their pooled speeds are those of the model, to the last bit.
func TestEquateAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(0)
		const slots = 12
		in := map[int]bool{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			slot := rapid.IntRange(0, slots-1).Draw(t, "slot")
			switch {
			case !in[slot]:
				table.Enter(slot)
				in[slot] = true
				continue
			case rapid.IntRange(0, 9).Draw(t, "leaves") == 0:
				table.Drop(slot)
				delete(in, slot)
				continue
			}
			s := &table.endpoints.Get(slot).prefill
			before := s.known
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // only a guess was known, and it is taken back
				s.samples, s.early.XX = 0, 0
			case 1, 2: // equally fast ones
				s.samples, s.perToken, s.early.XX = 1, float64(rapid.IntRange(1, 3).Draw(t, "speed"))/10, 0
			default:
				x := float64(rapid.IntRange(1, 4000).Draw(t, "tokens"))
				s.take(x, 0, float64(x*rapid.Float64Range(0.01, 1).Draw(t, "ms")), 1, rapid.Bool().Draw(t, "fresh"), firstPerToken, firstFixed)
			}
			table.takeMeans()
			table.compare(slot)
			if s.known == before { // it was too little to pool again
				continue
			}
			want := naive(&table)
			for slot := range in {
				if got := table.endpoints.Get(slot).prefill.like; got != want[slot] {
					t.Fatalf("endpoint %d is pooled at %v, want %v", slot, got, want[slot])
				}
			}
			if n := len(table.equals.ranks); n != len(want) {
				t.Fatalf("%d endpoints are ranked, want %d", n, len(want))
			}
		}
	})
}

// BenchmarkEquate measures how long the fleet's lock is held when one endpoint's speed has changed.
func BenchmarkEquate(b *testing.B) {
	for _, n := range []int{4, 64, 256, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			t := New(0)
			for i := range n {
				t.Enter(i)
				s := &t.endpoints.Get(i).prefill
				for range 5 {
					s.take(1000+1000*rng.Float64(), 0, 100+20*rng.Float64(), 1, true, firstPerToken, firstFixed)
				}
				t.compare(i)
			}
			t.takeMeans()
			for i := 0; b.Loop(); i++ {
				s := &t.endpoints.Get(i % n).prefill
				s.take(1000+1000*rng.Float64(), 0, 100+200*rng.Float64(), 1, true, firstPerToken, firstFixed)
				s.known = 1e-9 // so that it has moved
				t.compare(i % n)
			}
		})
	}
}
