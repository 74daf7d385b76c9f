package route

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// storedEvent is blocks of four tokens after a parent.
func storedEvent(parent uint64, hashes []uint64, tokens []uint32, session string) kvstream.Event {
	return kvstream.Event{Kind: kvstream.Stored, Hashes: hashes, Parent: parent, HasParent: parent != 0, Tokens: tokens, BlockTokens: 4, Session: session}
}

// TestKVStreamCounts holds a stream and the index under it to a naive model: a block is held as long as it was stored more often than
// removed.
func TestKVStreamCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(Config{Policy: func() pick.Policy { return firstPolicy{} }})
		r.Observe(kvNow, Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}}})
		s := kvstream.New(0)
		var ops kvstream.Ops
		count := map[uint64]int{}     // by hash
		path := map[uint64][]uint32{} // the tokens up to a block, by hash
		hashOf := func(tokens []uint32) uint64 {
			h := uint64(14695981039346656037)
			for _, x := range tokens {
				h = (h ^ uint64(x)) * 1099511628211
			}
			return h | 1
		}
		for seq := range uint64(rapid.IntRange(1, 60).Draw(t, "messages")) {
			var events []kvstream.Event
			switch held := heldHashes(count); rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				events = append(events, kvstream.Event{Kind: kvstream.Cleared})
				clear(count)
			case 1, 2, 3:
				if len(held) == 0 {
					continue
				}
				h := leafOf(rapid.SampledFrom(held).Draw(t, "removed"), held, path)
				events = append(events, kvstream.Event{Kind: kvstream.Removed, Hashes: []uint64{h}})
				if count[h]--; count[h] == 0 {
					delete(count, h)
				}
			default:
				tokens := rapid.SliceOfN(rapid.Uint32Range(0, 2), 4, 12).Draw(t, "tokens")
				tokens = tokens[:len(tokens)/4*4]
				parent, prefix := uint64(0), []uint32(nil)
				if len(held) > 0 && rapid.Bool().Draw(t, "goes on") {
					parent = rapid.SampledFrom(held).Draw(t, "parent")
					prefix = path[parent]
				}
				var hashes []uint64
				for i := 0; i < len(tokens); i += 4 {
					all := append(slices.Clone(prefix), tokens[:i+4]...)
					h := hashOf(all)
					hashes, path[h] = append(hashes, h), all
					count[h]++
				}
				events = append(events, storedEvent(parent, hashes, tokens, ""))
			}
			s.Apply(seq, &kvstream.Batch{At: float64(seq), Events: events}, &ops)
			r.Observe(kvNow, KVApplied{Endpoint: "a", Ops: &ops, Blocks: s.Held(), Size: 4})
			ops.Reset()
		}
		if s.Held() != len(count) {
			t.Fatalf("%d blocks are held, want %d", s.Held(), len(count))
		}
		if r.kv.index == nil {
			return
		}
		for h, tokens := range path {
			names := kvstream.Names(tokens, 4, "", 0, nil)
			if got, want := r.kv.index.Holds(r.byName["a"].slot, names[len(names)-1]), count[h] > 0; got != want {
				t.Fatalf("block %x: held %v, want %v", h, got, want)
			}
		}
	})
}

func heldHashes(count map[uint64]int) []uint64 {
	var out []uint64
	for h := range count {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

// leafOf is a block that goes on from h, or h, on which nothing held depends: engines evict no other.
func leafOf(h uint64, held []uint64, path map[uint64][]uint32) uint64 {
	for {
		next := h
		for _, c := range held {
			if len(path[c]) == len(path[h])+4 && slices.Equal(path[c][:len(path[h])], path[h]) {
				next = c
			}
		}
		if next == h {
			return h
		}
		h = next
	}
}

// BenchmarkKVApply takes in events of 8 blocks of 16 tokens, each removed again, up to the router's belief.
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
		r.Observe(kvNow, KVApplied{Endpoint: "a", Ops: &ops, Blocks: s.Held(), Size: 16})
		ops.Reset()
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

var kvNow = time.Unix(1_700_000_000, 0)

// firstPolicy takes the first.
type firstPolicy struct{}

func (firstPolicy) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }
