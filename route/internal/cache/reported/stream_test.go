package reported

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/prefix"
	"pgregory.net/rapid"
)

// storedEvent is blocks of four tokens after a parent.
func storedEvent(parent uint64, hashes []uint64, tokens []uint32, session string) kvstream.Event {
	return kvstream.Event{
		Kind: kvstream.Stored, Hashes: hashes, Parent: parent, HasParent: parent != 0, Tokens: tokens,
		BlockTokens: 4, Session: session,
	}
}

// TestStreamCounts holds a stream and the index under it to a naive model: a block is held as long as it was stored
// more often than removed.
func TestStreamCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := New()
		k.AddEndpoint(0, 1)
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
			k.Apply(0, &Batch{Ops: &ops, Blocks: s.Len(), Size: 4}, 0)
			ops.Reset()
		}
		if s.Len() != len(count) {
			t.Fatalf("%d blocks, want %d", s.Len(), len(count))
		}
		if k.index == nil {
			return
		}
		var matches prefix.Matches
		for h, tokens := range path {
			names := kvstream.Names(tokens, 4, "", 0, nil)
			k.index.Match(names, &matches)
			if got, want := matches.Depth(0) == len(names), count[h] > 0; got != want {
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
