package session

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func seenKey(id int) Key { return KeyOf("", "m", strconv.Itoa(id)) }

func TestSeenTellsFirstTurns(t *testing.T) {
	s := NewSeen(2)
	for i, step := range []struct {
		id    int
		again bool
		want  bool
	}{
		{1, false, true},
		{1, true, true}, // the first turn, retried
		{1, true, true},
		{1, false, false},
		{1, true, false},
		{2, true, false}, // not noted: a retry notes nothing
		{2, false, true},
		{1, false, false},
		{3, false, true}, // evicts 2, which was requested longest ago
		{1, false, false},
		{2, false, true},
	} {
		if got := s.First(seenKey(step.id), step.again); got != step.want {
			t.Fatalf("step %d: %v, want %v", i, got, step.want)
		}
	}
	if s.Len() != 2 {
		t.Errorf("%d ids are remembered", s.Len())
	}
}

func TestSeenIsAnLRU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 5).Draw(t, "most")
		s := NewSeen(most)
		var order []int // latest last
		for _, id := range rapid.SliceOfN(rapid.IntRange(0, 8), 0, 60).Draw(t, "ids") {
			at := slices.Index(order, id)
			if got := s.First(seenKey(id), false); got != (at < 0) {
				t.Fatalf("%d after %v: first is %v", id, order, got)
			}
			if at >= 0 {
				order = slices.Delete(order, at, at+1)
			}
			if order = append(order, id); len(order) > most {
				order = order[1:]
			}
		}
		if s.Len() != len(order) {
			t.Fatalf("%d remembered, %d expected", s.Len(), len(order))
		}
	})
}

func TestSeenHoldsWhatIsPublished(t *testing.T) {
	s := NewSeen(DefaultSeen)
	for id := range DefaultSeen + 1 {
		s.First(seenKey(id), false)
	}
	if s.Len() != 100_000 || s.First(seenKey(1), false) || !s.First(seenKey(0), false) {
		t.Errorf("%d ids are remembered, and not the latest 100,000", s.Len())
	}
}
