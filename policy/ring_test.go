package policy

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/pick"
)

func TestRingSpreadsAndMovesOnlyWhatItMust(t *testing.T) {
	cs := same(8)
	full, less := ring{places: 160}, ring{places: 160}
	full.fit(cs)
	less.fit(cs[:7])
	counts := make([]int, 8)
	for key := range uint64(40_000) {
		at := full.at(key, pick.Nobody)
		counts[at]++
		if after := less.at(key, pick.Nobody); at != 7 && after != at {
			t.Fatalf("key %d moved from %d to %d when 7 went", key, at, after)
		}
		if second := full.at(key, at); second == at {
			t.Fatalf("key %d has %d twice", key, at)
		}
	}
	// 160 places each: shares vary by about 8 %.
	if slices.Min(counts) < 3500 || slices.Max(counts) > 6500 {
		t.Errorf("shares %v", counts)
	}
	one := ring{places: 3}
	one.fit(cs[:1])
	if one.at(5, pick.Nobody) != 0 || one.at(5, 0) != 0 {
		t.Error("a ring of one endpoint gives another one")
	}
}
