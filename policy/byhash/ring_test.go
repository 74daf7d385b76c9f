package byhash_test

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
)

func TestRingSpreadsAndMovesOnlyWhatItMust(t *testing.T) {
	cs := policytest.Same(8)
	full, less := byhash.Ring{Places: 160}, byhash.Ring{Places: 160}
	full.Fit(cs)
	less.Fit(cs[:7])
	counts := make([]int, 8)
	for key := range uint64(40_000) {
		at := full.At(key, pick.None)
		counts[at]++
		if after := less.At(key, pick.None); at != 7 && after != at {
			t.Fatalf("key %d moved from %d to %d when 7 went", key, at, after)
		}
		if second := full.At(key, at); second == at {
			t.Fatalf("key %d has %d twice", key, at)
		}
	}
	// 160 places each: shares vary by about 8 %.
	if slices.Min(counts) < 3500 || slices.Max(counts) > 6500 {
		t.Errorf("shares %v", counts)
	}
	one := byhash.Ring{Places: 3}
	one.Fit(cs[:1])
	if one.At(5, pick.None) != 0 || one.At(5, 0) != 0 {
		t.Error("a ring of one endpoint gives another one")
	}
}
