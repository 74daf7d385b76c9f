package route

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// storedEvent is blocks of four tokens after a parent.
func storedEvent(parent uint64, hashes []uint64, tokens []uint32, session string) KVEvent {
	return KVEvent{Kind: KVStored, Hashes: hashes, Parent: parent, HasParent: parent != 0, Tokens: tokens, BlockTokens: 4, Session: session}
}

func TestKVSteps(t *testing.T) {
	type message struct {
		seq  uint64
		at   float64
		want KVStep
	}
	for name, messages := range map[string][]message{
		"in order":              {{0, 1, KVApply}, {1, 2, KVApply}, {2, 2, KVApply}},
		"late":                  {{7, 1, KVGap}},
		"a gap":                 {{0, 1, KVApply}, {2, 2, KVGap}},
		"the same twice":        {{0, 1, KVApply}, {1, 2, KVApply}, {0, 1, KVDrop}, {1, 2, KVDrop}, {2, 3, KVApply}},
		"another engine":        {{0, 1, KVApply}, {1, 2, KVApply}, {0, 9, KVRestart}},
		"another one, late":     {{0, 1, KVApply}, {1, 2, KVApply}, {2, 3, KVApply}, {1, 9, KVRestart}},
		"a clock that is slow":  {{0, 1000, KVApply}, {1, 999.5, KVApply}},
		"a clock that is reset": {{0, 1000, KVApply}, {1, 5, KVRestart}},
		"no clock":              {{0, 0, KVApply}, {1, 0, KVApply}, {1, 0, KVDrop}, {0, 0, KVRestart}},
	} {
		s := NewKVStream(0)
		var ops KVOps
		for i, m := range messages {
			if got := s.Step(m.seq, m.at); got != m.want {
				t.Errorf("%s: message %d (number %d at %v): step %d, want %d", name, i, m.seq, m.at, got, m.want)
			}
			if m.want == KVApply {
				s.Apply(m.seq, &KVBatch{At: m.at}, &ops)
			}
		}
	}
	s := NewKVStream(0)
	var ops KVOps
	s.Apply(0, &KVBatch{At: 1}, &ops)
	s.Apply(1, &KVBatch{At: 2}, &ops)
	if s.From() != 1 || !s.Same(1, 2) || s.Same(1, 3) || !s.Same(2, 9) {
		t.Error("what is asked for again does not show whether the engine is the same")
	}
}

// TestKVSmallerBlocksAfterRestart: an engine that is started anew with smaller blocks is followed as before. Within one life a smaller
// block is one that is not full.
func TestKVSmallerBlocksAfterRestart(t *testing.T) {
	s := NewKVStream(0)
	var ops KVOps
	stored := func(seq, hash uint64, blockTokens int) {
		ops.Reset()
		e := KVEvent{Kind: KVStored, Hashes: []uint64{hash}, Tokens: make([]uint32, blockTokens), BlockTokens: blockTokens}
		s.Apply(seq, &KVBatch{At: 1, Events: []KVEvent{e}}, &ops)
	}
	stored(0, 1, 8)
	if stored(1, 2, 4); ops.Len() != 0 {
		t.Error("a block that is not full was followed")
	}
	s.Reset(true, 0)
	if stored(0, 3, 4); ops.Len() != 1 || s.Held() != 1 {
		t.Errorf("after a restart with smaller blocks: %d operations, %d blocks held, want one each", ops.Len(), s.Held())
	}
}

// TestKVNamesAreTheTokens: two engines that hash differently, and one whose tokens are known, name the same prompt the same; another prompt, salt
// or adapter has other names.
func TestKVNamesAreTheTokens(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	name := func(change func(e *KVEvent)) []uint64 {
		s := NewKVStream(0)
		var ops KVOps
		first := storedEvent(0, []uint64{101, 102}, tokens[:8], "")
		change(&first)
		second := storedEvent(first.Hashes[1], []uint64{first.Hashes[1] + 1}, tokens[8:], "")
		s.Apply(0, &KVBatch{At: 1, Events: []KVEvent{first, second}}, &ops)
		return slices.Clone(ops.names)
	}
	base := name(func(*KVEvent) {})
	if other := name(func(e *KVEvent) { e.Hashes = []uint64{7, 9} }); !slices.Equal(base, other) {
		t.Errorf("another engine: %x, want %x", other, base)
	}
	if known := KVNames(append(slices.Clone(tokens), 13), 4, "", 0, nil); !slices.Equal(base, known) {
		t.Errorf("known tokens: %x, want %x", known, base)
	}
	for what, change := range map[string]func(e *KVEvent){
		"salt": func(e *KVEvent) { e.Salt = "s" }, "adapter": func(e *KVEvent) { e.Adapter = "a" }, "extra": func(e *KVEvent) { e.Extra = []uint64{5, 0} },
		"tokens": func(e *KVEvent) { e.Tokens = []uint32{9, 2, 3, 4, 5, 6, 7, 8} },
	} {
		if got := name(change); slices.Contains(base, got[0]) || slices.Contains(base, got[2]) {
			t.Errorf("another %s has the same names", what)
		}
	}
	salted := name(func(e *KVEvent) { e.Salt = "s" })
	if known := KVNames(tokens, 4, "s", 0, nil); !slices.Equal(salted, known) {
		t.Errorf("known tokens with a salt: %x, want %x", known, salted)
	}
}

// TestKVStreamCounts holds a stream and the index under it to a naive model: a block is held as long as it was stored more often than
// removed.
func TestKVStreamCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(Config{Policy: func() Policy { return firstPolicy{} }})
		r.Observe(kvNow, Declared{Source: "s", Endpoints: []Endpoint{{Name: "a", URL: "http://a", Weight: 1}}})
		s := NewKVStream(0)
		var ops KVOps
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
			var events []KVEvent
			switch held := heldHashes(count); rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				events = append(events, KVEvent{Kind: KVCleared})
				clear(count)
			case 1, 2, 3:
				if len(held) == 0 {
					continue
				}
				h := leafOf(rapid.SampledFrom(held).Draw(t, "removed"), held, path)
				events = append(events, KVEvent{Kind: KVRemoved, Hashes: []uint64{h}})
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
			s.Apply(seq, &KVBatch{At: float64(seq), Events: events}, &ops)
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
			names := KVNames(tokens, 4, "", 0, nil)
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

// TestKVOrphans: blocks after one that is not known are counted and no more; so is what is removed and was never stored.
func TestKVOrphans(t *testing.T) {
	s := NewKVStream(4)
	var ops KVOps
	s.Apply(5, &KVBatch{At: 1, Events: []KVEvent{
		storedEvent(77, []uint64{1, 2}, []uint32{1, 2, 3, 4, 5, 6, 7, 8}, ""),
		{Kind: KVRemoved, Hashes: []uint64{1, 99}},
		{Kind: KVStored, Hashes: []uint64{2}, Medium: "CPU"}, // no tokens: another tier
		{Kind: KVStored, Hashes: []uint64{3}, Tokens: []uint32{1, 2}, BlockTokens: 2},
		{Kind: KVStored, Hashes: []uint64{4}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4, Windowed: true},
		storedEvent(0, []uint64{11, 12, 13, 14}, make([]uint32, 16), ""),
	}}, &ops)
	c := s.Counts()
	if c.Orphans != 2 || c.Unknown != 1 || c.Skipped != 2 || c.Overfull != 1 || s.Held() != 4 {
		t.Errorf("got %+v, %d held", c, s.Held())
	}
	ops.Reset()
	s.Apply(6, &KVBatch{At: 2, Events: []KVEvent{{Kind: KVRemoved, Hashes: []uint64{2}}}}, &ops)
	if s.Held() != 4 {
		t.Error("a block in two tiers is gone when one lets go of it")
	}
}

// BenchmarkKVApply takes in events of 8 blocks of 16 tokens, each removed again, up to the router's belief.
func BenchmarkKVApply(b *testing.B) {
	r := New(Config{Policy: func() Policy { return firstPolicy{} }})
	r.Observe(kvNow, Declared{Source: "s", Endpoints: []Endpoint{{Name: "a", URL: "http://a", Weight: 1}}})
	s := NewKVStream(0)
	var ops KVOps
	const events = 10
	batch := KVBatch{Rank: -1}
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
			e.Kind, e.BlockTokens = KVStored, 16
			e.Hashes, e.Tokens = append(e.Hashes, h...), append(e.Tokens, tokens...)
			if old := kept[(seq+10_000)%uint64(len(kept))]; seq >= 10_000 {
				e = batch.Next()
				e.Kind, e.Hashes = KVRemoved, append(e.Hashes, old...)
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

func (firstPolicy) Pick(*View, *Request) Choice { return Choice{} }
