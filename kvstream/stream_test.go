package kvstream

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// storedEvent is an event that stores blocks of four tokens after a parent.
func storedEvent(parent uint64, hashes []uint64, tokens []uint32, session string) Event {
	return Event{
		Kind: Stored, Hashes: hashes, Parent: parent, HasParent: parent != 0, Tokens: tokens,
		BlockTokens: 4, Session: session,
	}
}

func TestKVSteps(t *testing.T) {
	type message struct {
		seq  uint64
		at   float64
		want Step
	}
	for name, messages := range map[string][]message{
		"in order":              {{0, 1, Apply}, {1, 2, Apply}, {2, 2, Apply}},
		"late":                  {{7, 1, Gap}},
		"a gap":                 {{0, 1, Apply}, {2, 2, Gap}},
		"the same twice":        {{0, 1, Apply}, {1, 2, Apply}, {0, 1, Drop}, {1, 2, Drop}, {2, 3, Apply}},
		"another engine":        {{0, 1, Apply}, {1, 2, Apply}, {0, 9, Restart}},
		"another one, late":     {{0, 1, Apply}, {1, 2, Apply}, {2, 3, Apply}, {1, 9, Restart}},
		"a clock that is slow":  {{0, 1000, Apply}, {1, 999.5, Apply}},
		"a clock that is reset": {{0, 1000, Apply}, {1, 5, Restart}},
		"no clock":              {{0, 0, Apply}, {1, 0, Apply}, {1, 0, Drop}, {0, 0, Restart}},
	} {
		s := New(0)
		var ops Ops
		for i, m := range messages {
			if got := s.Step(m.seq, m.at); got != m.want {
				t.Errorf("%s: message %d (number %d at %v): step %d, want %d", name, i, m.seq, m.at, got, m.want)
			}
			if m.want == Apply {
				s.Apply(m.seq, &Batch{At: m.at}, &ops)
			}
		}
	}
	s := New(0)
	var ops Ops
	s.Apply(0, &Batch{At: 1}, &ops)
	s.Apply(1, &Batch{At: 2}, &ops)
	if s.From() != 1 || !s.Same(1, 2) || s.Same(1, 3) || !s.Same(2, 9) {
		t.Error("what is asked for again does not show whether the engine is the same")
	}
}

// TestKVSmallerBlocksAfterRestart: a restarted engine may use smaller blocks. Without a restart a smaller block is a
// partial one.
func TestKVSmallerBlocksAfterRestart(t *testing.T) {
	s := New(0)
	var ops Ops
	stored := func(seq, hash uint64, blockTokens int) {
		ops.Reset()
		e := Event{Kind: Stored, Hashes: []uint64{hash}, Tokens: make([]uint32, blockTokens), BlockTokens: blockTokens}
		s.Apply(seq, &Batch{At: 1, Events: []Event{e}}, &ops)
	}
	stored(0, 1, 8)
	if stored(1, 2, 4); ops.Len() != 0 {
		t.Error("a block that is not full was followed")
	}
	s.Reset(true, 0)
	if stored(0, 3, 4); ops.Len() != 1 || s.Len() != 1 {
		t.Errorf("after a restart with smaller blocks: %d operations, %d blocks held, want one each",
			ops.Len(), s.Len())
	}
}

// TestKVNamesAreTheTokens: engines with different hash functions, and known tokens, give a prompt the same names;
// another prompt, salt or adapter gives other names.
func TestKVNamesAreTheTokens(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	name := func(change func(e *Event)) []uint64 {
		s := New(0)
		var ops Ops
		first := storedEvent(0, []uint64{101, 102}, tokens[:8], "")
		change(&first)
		second := storedEvent(first.Hashes[1], []uint64{first.Hashes[1] + 1}, tokens[8:], "")
		s.Apply(0, &Batch{At: 1, Events: []Event{first, second}}, &ops)
		return slices.Clone(ops.names)
	}
	base := name(func(*Event) {})
	if other := name(func(e *Event) { e.Hashes = []uint64{7, 9} }); !slices.Equal(base, other) {
		t.Errorf("another engine: %x, want %x", other, base)
	}
	if known := Names(append(slices.Clone(tokens), 13), 4, "", 0, nil); !slices.Equal(base, known) {
		t.Errorf("known tokens: %x, want %x", known, base)
	}
	for what, change := range map[string]func(e *Event){
		"salt": func(e *Event) { e.Salt = "s" }, "adapter": func(e *Event) { e.Adapter = "a" },
		"extra":  func(e *Event) { e.Extra = []uint64{5, 0} },
		"tokens": func(e *Event) { e.Tokens = []uint32{9, 2, 3, 4, 5, 6, 7, 8} },
	} {
		if got := name(change); slices.Contains(base, got[0]) || slices.Contains(base, got[2]) {
			t.Errorf("another %s has the same names", what)
		}
	}
	salted := name(func(e *Event) { e.Salt = "s" })
	if known := Names(tokens, 4, "s", 0, nil); !slices.Equal(salted, known) {
		t.Errorf("known tokens with a salt: %x, want %x", known, salted)
	}
}

// TestKVHeldOrphan: a block that is held and stored once more after a parent that is not tracked is removed by its
// name.
func TestKVHeldOrphan(t *testing.T) {
	s := New(0)
	var ops Ops
	told := func(e Event) (names []uint64) {
		ops.Reset()
		s.Apply(s.Next(), &Batch{At: 1, Events: []Event{e}}, &ops)
		for i := range ops.List {
			names = append(names, ops.Of(&ops.List[i])...)
		}
		return names
	}
	tokens := []uint32{1, 2, 3, 4}
	parent := told(storedEvent(0, []uint64{1}, tokens, ""))
	child := told(storedEvent(1, []uint64{2}, tokens, ""))
	if got := told(Event{Kind: Removed, Hashes: []uint64{1}}); !slices.Equal(got, parent) {
		t.Errorf("removed %v, want %v", got, parent)
	}
	if got := told(storedEvent(1, []uint64{2}, tokens, "")); len(got) > 0 { // another tier, whose parent has gone
		t.Errorf("an orphan was told: %v", got)
	}
	if got := told(Event{Kind: Removed, Hashes: []uint64{2}}); len(got) > 0 {
		t.Errorf("removed %v while another tier holds it", got)
	}
	if got := told(Event{Kind: Removed, Hashes: []uint64{2}}); !slices.Equal(got, child) || s.Len() > 0 {
		t.Errorf("removed %v, want %v; %d are left", got, child, s.Len())
	}
}

// TestKVOrphans: blocks after an unknown block are only counted; so are removed blocks that were never stored.
func TestKVOrphans(t *testing.T) {
	s := New(4)
	var ops Ops
	s.Apply(5, &Batch{At: 1, Events: []Event{
		storedEvent(77, []uint64{1, 2}, []uint32{1, 2, 3, 4, 5, 6, 7, 8}, ""),
		{Kind: Removed, Hashes: []uint64{1, 99}},
		{Kind: Stored, Hashes: []uint64{2}, Medium: "CPU"}, // no tokens: another tier
		{Kind: Stored, Hashes: []uint64{3}, Tokens: []uint32{1, 2}, BlockTokens: 2},
		{Kind: Stored, Hashes: []uint64{4}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4, Windowed: true},
		storedEvent(0, []uint64{11, 12, 13, 14}, make([]uint32, 16), ""),
	}}, &ops)
	c := s.Counts()
	if c.Orphans != 2 || c.Unknown != 1 || c.Skipped != 2 || c.Overfull != 1 || s.Len() != 4 {
		t.Errorf("got %+v, %d blocks", c, s.Len())
	}
	if ops.Reset(); ops.Tiers {
		t.Error("a second tier is told of after a reset")
	}
	s.Apply(6, &Batch{At: 2, Events: []Event{{Kind: Removed, Hashes: []uint64{2}}}}, &ops)
	if !ops.Tiers {
		t.Error("no second tier is told of")
	}
	if s.Len() != 4 {
		t.Error("a block in two tiers is gone when one lets go of it")
	}
}

// TestSteps: the pieces have all operations in order, none has more blocks than twice what was asked for, and what is
// cut goes on where it was cut.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, b, ops, hash := New(0), Batch{}, Ops{}, uint64(0)
		var all []uint64 // hashes
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			e := b.Next()
			e.BlockTokens = 1
			switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
			case what == 0:
				e.Kind = Cleared
			case what == 1 && len(all) > 0:
				e.Kind = Removed
				e.Hashes = append(e.Hashes, all...)
				all = nil
			default:
				for range rapid.IntRange(1, 50).Draw(t, "blocks") {
					hash++
					e.Hashes, e.Tokens = append(e.Hashes, hash), append(e.Tokens, uint32(hash))
				}
				all = append(all, e.Hashes...)
			}
		}
		s.Apply(0, &b, &ops)
		type change struct {
			kind         Kind
			name, parent uint64
		}
		changes := func(o *Ops) (list []change) {
			for i := range o.List {
				op := &o.List[i]
				parent := op.Parent
				if op.Kind == Cleared {
					list = append(list, change{kind: Cleared})
				}
				for _, name := range o.Of(op) {
					if op.Kind == Removed {
						parent = 0
					}
					list = append(list, change{op.Kind, name, parent})
					parent = name
				}
			}
			return list
		}
		most := rapid.IntRange(10, 40).Draw(t, "most")
		var got []change
		ops.Steps(most, func(some *Ops) {
			if some.Len() == 0 {
				t.Fatal("an empty piece")
			}
			n := 0
			for i := range some.List {
				n += len(some.Of(&some.List[i]))
			}
			if n > 2*most {
				t.Fatalf("a piece of %d blocks, %d were asked for", n, most)
			}
			got = append(got, changes(some)...)
		})
		if want := changes(&ops); !slices.Equal(got, want) {
			t.Fatalf("the pieces say\n%v, want\n%v", got, want)
		}
	})
}
