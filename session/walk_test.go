package session

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWalkMissesNothing: a walk returns every entry that exists throughout, as it was last written, however the table
// is used in between.
func TestWalkMissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, now := New(Config{Max: 20}), time.Unix(1_700_000_000, 0)
		put := func(i int) {
			now = now.Add(time.Second)
			id := fmt.Sprint(i)
			e, _ := table.Peek(now, name("", "m", id))
			e.Turns++
			table.Put(now, name("", "m", id), e)
		}
		for i := range rapid.IntRange(0, 30).Draw(t, "entries") {
			put(i)
		}
		table.Rewind()
		told := map[Key]Kept{}
		for more := true; more; {
			var kept []Kept
			kept, more = table.Next(now, rapid.IntRange(1, 5).Draw(t, "entries told"), nil)
			for _, k := range kept {
				told[k.Key] = k
			}
			for range rapid.IntRange(0, 3).Draw(t, "uses") {
				if i := rapid.IntRange(0, 40).Draw(t, "entry"); more {
					put(i)
				}
			}
		}
		copied := New(Config{Max: 20})
		for i := range 41 {
			id := fmt.Sprint(i)
			want, there := table.Peek(now, name("", "m", id))
			k, ok := told[KeyOf("", "m", id)]
			if there && (!ok || k.Entry.Turns != want.Turns || k.Age != now.Sub(want.Last)) &&
				want.Turns > k.Entry.Turns {
				t.Fatalf("%s has %+v, the walk told %+v", id, want, k)
			}
			if there {
				k.Age = now.Sub(want.Last)
				copied.Restore(now, &k)
				if got, ok := copied.Peek(now, name("", "m", id)); !ok || got.Turns != want.Turns {
					t.Fatalf("%s is restored as %+v, not %+v", id, got, want)
				}
			}
		}
	})
}

// TestWalkOfTrails: a restored copy recognises what the original does.
func TestWalkOfTrails(t *testing.T) {
	here, there := NewTrails(10), NewTrails(10)
	first := &Trail{Whole: 11, Strict: 12}
	f := here.Find(first, "one")
	here.Note(first, &f)
	here.Rewind()
	for more := true; more; {
		var ends []End
		ends, more = here.NextEnds(1, nil)
		for i := range ends {
			there.RestoreEnd(&ends[i])
		}
	}
	second := &Trail{Whole: 21, Strict: 22, Marks: []uint64{11}, StrictMarks: []uint64{12}}
	if f := there.Find(second, "two"); f.ID != "one" || !f.Known {
		t.Errorf("the next turn is of %+v", f)
	}
}
