package simrun_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/simrun"
)

// TestSearch: for any number that is needed, start and bound, the search finds it in few steps, asks for nothing twice
// and for nothing outside 1..Most, and tries Most before it gives up.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 300).Draw(t, "most")
		s := simrun.Search{Start: rapid.IntRange(1, most).Draw(t, "start"), Most: most}
		needed := rapid.IntRange(1, 400).Draw(t, "needed")
		asked := map[int]bool{}
		for n := s.Next(); n != 0; n = s.Next() {
			if n < 1 || n > most || asked[n] {
				t.Fatalf("%d is asked for after %v, at most %d", n, asked, most)
			}
			asked[n] = true
			s.Tried(n, n >= needed)
		}
		if found := asked[needed] && (needed == 1 || asked[needed-1]); found != (needed <= most) ||
			!found && !asked[most] {
			t.Errorf("of at most %d the search for %d ended with %v", most, needed, asked)
		}
		if len(asked) > 20 {
			t.Errorf("%d were tried", len(asked))
		}
	})
}

// TestSearchGivesUp: it ends without an answer only while it has none.
func TestSearchGivesUp(t *testing.T) {
	s := simrun.Search{Start: 1, Most: 100}
	s.Tried(s.Next(), false)
	s.GiveUp()
	if s.Next() != 0 {
		t.Errorf("goes on with %d", s.Next())
	}
	s = simrun.Search{Start: 8, Most: 100}
	s.Tried(s.Next(), true)
	s.GiveUp()
	if s.Next() != 4 {
		t.Errorf("gave up what it had; next is %d", s.Next())
	}
}
