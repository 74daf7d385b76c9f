package sent

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBindingsAreAnLRU(t *testing.T) {
	type entry struct{ conversation, rank uint64 }
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 5).Draw(t, "most")
		b := NewBindings(most)
		var want []entry // latest last
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "leaves") == 0 {
				gone := rapid.Uint64Range(0, 3).Draw(t, "gone")
				b.Forget(gone)
				want = slices.DeleteFunc(want, func(e entry) bool { return e.rank == gone })
			}
			c := rapid.Uint64Range(1, 8).Draw(t, "conversation")
			at := slices.IndexFunc(want, func(e entry) bool { return e.conversation == c })
			e := entry{c, 0}
			if at >= 0 {
				e = want[at]
			}
			if rapid.Bool().Draw(t, "put") {
				e.rank = rapid.Uint64Range(0, 3).Draw(t, "rank")
				b.Put(c, e.rank)
			} else if got, ok := b.Peek(c); ok != (at >= 0) || got != e.rank {
				t.Fatalf("%d: %d, %v; want %+v", c, got, ok, e)
			} else {
				continue
			}
			if at >= 0 {
				want = slices.Delete(want, at, at+1)
			}
			if want = append(want, e); len(want) > most {
				want = want[1:]
			}
		}
		if len(b.index) != len(want) || len(b.table) > most+1 {
			t.Fatalf("%d remembered in %d places, want %d", len(b.index), len(b.table), len(want))
		}
	})
}
