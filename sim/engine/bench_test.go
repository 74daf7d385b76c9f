package engine

import (
	"testing"

	"github.com/warmpath/warmpath/sim/chance"
)

// BenchmarkRequest is one request of 8,192 prompt tokens (512 blocks) and 64 answer tokens: "warm" finds seven eighths
// of its prompt cached, "cold" nothing, both under eviction.
func BenchmarkRequest(b *testing.B) {
	for _, bench := range []struct {
		name   string
		shared int // prompt blocks common to all requests
	}{{"warm", 448}, {"cold", 0}} {
		b.Run(bench.name, func(b *testing.B) {
			e := newTestEngine(b, nil)
			shared := chainOf(1, bench.shared)
			chain := make([]uint64, 516)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				copy(chain, shared)
				h := uint64(i) << 20
				for j := bench.shared; j < len(chain); j++ {
					h = chance.Mix(h)
					chain[j] = h
				}
				if err := e.Submit(epoch, Job{
					ID: uint64(i), Chain: chain, PromptTokens: 8192, OutputTokens: 64,
				}); err != nil {
					b.Fatal(err)
				}
				for at, ok := e.Next(); ok; at, ok = e.Next() {
					e.Advance(at)
				}
			}
		})
	}
}

// A request allocates nothing once the engine has seen one like it.
func TestNoAllocationPerBlock(t *testing.T) {
	e := newTestEngine(t, nil)
	chain := chainOf(3, 516)
	id := uint64(0)
	got := testing.AllocsPerRun(50, func() {
		id++
		chain[0] = chance.Mix(id) // never found: everything is computed, and evicted in time
		for i := 1; i < len(chain); i++ {
			chain[i] = chance.Mix(chain[i-1])
		}
		_ = e.Submit(epoch, Job{ID: id, Chain: chain, PromptTokens: 8192, OutputTokens: 64})
		for at, ok := e.Next(); ok; at, ok = e.Next() {
			e.Advance(at)
		}
	})
	if got > 1 {
		t.Errorf("%v allocations a request", got)
	}
}
