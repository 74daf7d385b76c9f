package prompt

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/prompt/jsonscan"
	"pgregory.net/rapid"
)

// TestSettle: an edit is dropped if and only if a later one sets the same, or one that begins before it replaces all of
// it.
func TestSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var edits []Edit
		for i := range rapid.IntRange(0, 8).Draw(t, "edits") {
			start := rapid.IntRange(0, 6).Draw(t, "start")
			e := Edit{
				At:     jsonscan.Span{Start: start, End: start + rapid.IntRange(0, 4).Draw(t, "length")},
				With:   []byte(strconv.Itoa(i)),
				member: rapid.Bool().Draw(t, "member"),
			}
			if e.member {
				e.name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			}
			edits = append(edits, e)
		}
		sorted := slices.Clone(edits)
		slices.SortStableFunc(sorted, compareEdits)
		var want []string
		for i, e := range sorted {
			again := slices.ContainsFunc(sorted[i+1:], func(o Edit) bool {
				return o.At == e.At && o.member == e.member && o.name == e.name && (e.member || e.At.Len() > 0)
			})
			within := slices.ContainsFunc(sorted, func(o Edit) bool {
				return o.At.Start < e.At.Start && e.At.End <= o.At.End && e.At.Start < o.At.End
			})
			if !again && !within {
				want = append(want, string(e.With))
			}
		}
		var got []string
		for _, e := range settle(edits) {
			got = append(got, string(e.With))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("left are %v, want %v, of %+v", got, want, sorted)
		}
	})
}

// TestManyEdits ends although there are a million edits, as in a body of a million names of images: their number must
// not count twice.
func TestManyEdits(t *testing.T) {
	const n = 1_000_000
	edits := make([]Edit, n)
	for i := range edits {
		edits[i] = Edit{At: jsonscan.Span{Start: i, End: i + 1}, With: []byte("yy")}
	}
	body := bytes.Repeat([]byte{'x'}, n)
	if got := Splice(nil, body, edits...); !bytes.Equal(got, bytes.Repeat([]byte{'y'}, 2*n)) {
		t.Error("not every edit is made")
	}
}
