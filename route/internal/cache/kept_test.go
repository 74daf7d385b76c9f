package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// TestKept: after a snapshot, taken in steps, as much is predicted as before, of prompts that begin alike too.
func TestKept(t *testing.T) {
	for _, one := range []bool{false, true} {
		f := Facts{CacheTokens: 50_000, BlockTokens: 16, OnePrompt: one}
		e, after := newEngines(t, 1, f), newEngines(t, 1, f)
		text := func(i int) *fleet.Request { return said(words(i/4, 320), words(100+i, 640)) }
		for i := range 20 {
			e.serve(0, "", text(i), -1, 1)
		}
		kept := e.Export(0)
		after.Restore(0, &kept)
		e.Rewind(0)
		for more := true; more; {
			chains, rest := e.Chains(0, 100)
			after.Believe(0, chains)
			more = rest
		}
		for i := range 20 {
			after.want(fmt.Sprintf("text %d, one prompt %t", i, one), 0, "", text(i), e.cached(0, "", text(i)))
		}
		got, want := after.Export(0), e.Export(0)
		if got.Bound != want.Bound || got.Share != want.Share {
			t.Errorf("after a snapshot %+v, want %+v", got, want)
		}
	}
}

// TestDifferenceOf: where a prompt begins to differ from an earlier one is known to a quarter of that, and to the block
// where the common part ends in the cache.
func TestDifferenceOf(t *testing.T) {
	earlier := make([]uint64, 48) // kept of 64 blocks
	for i := range earlier {
		earlier[i] = uint64(i) + 1
	}
	const bytes = 64 * fleet.BlockBytes
	other := func(same, n int) []uint64 {
		names := slices.Clone(earlier[:same])
		for len(names) < n {
			names = append(names, uint64(1000+len(names)))
		}
		return names
	}
	at := blocks.Bytes
	for _, tt := range []struct {
		name   string
		names  []uint64
		cached int
		want   Difference
	}{
		{"goes on", other(48, 60), 48, Difference{Known: true, Continues: true, From: at(48), To: bytes}},
		{"in the second quarter", other(20, 60), 0, Difference{Known: true, From: at(12), To: at(24)}},
		{"where the cache ends", other(20, 60), 20, Difference{Known: true, From: at(20), To: at(21)}},
		{"the cache ends elsewhere", other(20, 60), 30, Difference{Known: true, From: at(12), To: at(24)}},
		{"from the beginning", other(0, 60), 0, Difference{Known: true, To: at(12)}},
		{"shorter", other(20, 20), 0, Difference{Known: true, From: at(12), To: at(24)}},
		{"unknown", nil, 0, Difference{}},
	} {
		if got := DifferenceOf(tt.names, bytes, marksOf(earlier), tt.cached); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := DifferenceOf(earlier, bytes, [4]uint32{}, 0); got != (Difference{}) {
		t.Errorf("without marks: %+v", got)
	}
}
