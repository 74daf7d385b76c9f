package route

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
)

// BenchmarkKVApply applies events of 8 blocks of 16 tokens, each removed again, through the stream and the router.
func BenchmarkKVApply(b *testing.B) {
	r := New(Config{Policy: func() pick.Policy { return firstPolicy{} }})
	r.Observe(kvNow, Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}}})
	s := kvstream.New(0)
	var ops kvstream.Ops
	const events = 10
	batch := kvstream.Batch{Rank: -1}
	seq := uint64(0)
	tokens := make([]uint32, 128)
	hashes := func(n uint64) []uint64 {
		out := make([]uint64, 8)
		for i := range out {
			out[i] = (n*8 + uint64(i) + 1) * 0x9e3779b97f4a7c15
		}
		return out
	}
	var kept [][]uint64
	for i := range uint64(20_000) {
		kept = append(kept, hashes(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		batch.Events = batch.Events[:0]
		for range events / 2 {
			h := kept[seq%uint64(len(kept))]
			for i := range tokens {
				tokens[i] = uint32(h[i/16]) + uint32(i)
			}
			e := batch.Next()
			e.Kind, e.BlockTokens = kvstream.Stored, 16
			e.Hashes, e.Tokens = append(e.Hashes, h...), append(e.Tokens, tokens...)
			if old := kept[(seq+10_000)%uint64(len(kept))]; seq >= 10_000 {
				e = batch.Next()
				e.Kind, e.Hashes = kvstream.Removed, append(e.Hashes, old...)
			}
			seq++
		}
		s.Apply(s.Next(), &batch, &ops)
		r.Observe(kvNow, KVApplied{Endpoint: "a", Ops: &ops, Blocks: s.Len(), Size: 16})
		ops.Reset()
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

var kvNow = time.Unix(1_700_000_000, 0)

// firstPolicy picks the first candidate.
type firstPolicy struct{}

func (firstPolicy) Needs() pick.Needs { return pick.Needs{Name: "first"} }

func (firstPolicy) Hooks() pick.Hooks { return pick.Hooks{} }

func (firstPolicy) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }
