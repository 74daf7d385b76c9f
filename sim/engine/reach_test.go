package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestReach: for any jobs, branches, cancellations and evictions, the cached blocks of a chain come first, and among
// those the held ones, so that binary search finds as many as a walk.
func TestReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := tiny(rapid.SampledFrom([]int{0, 20, 200}).Draw(t, "host"))
		c.Slots, c.ChunkTokens = rapid.IntRange(1, 4).Draw(t, "slots"), rapid.IntRange(1, 60).Draw(t, "chunk")
		c.CacheTokens = 10 * rapid.IntRange(4, 20).Draw(t, "blocks")
		e, err := New(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		var chains [][]uint64
		now := epoch
		for id := range uint64(rapid.IntRange(1, 40).Draw(t, "jobs")) {
			prompt, output := rapid.IntRange(1, c.CacheTokens-5).Draw(t, "prompt"),
				rapid.IntRange(0, 5).Draw(t, "output")
			chain := chainOf(1000+id, (prompt+output)/10)
			if len(chains) > 0 { // continue a part of an earlier one
				from := rapid.SampledFrom(chains).Draw(t, "from")
				copy(chain, from[:rapid.IntRange(0, len(from)).Draw(t, "common")])
			}
			if err := e.Submit(now, Job{
				ID: id + 1, Chain: chain, PromptTokens: prompt, OutputTokens: output,
			}); err != nil {
				t.Fatal(err)
			}
			chains = append(chains, chain)
			e.Cancel(rapid.Uint64Range(1, 200).Draw(t, "cancelled"))
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond)
			e.Advance(now)
			if rapid.IntRange(0, 20).Draw(t, "clear") == 0 {
				e.ClearCache()
			}
			for _, chain := range chains {
				want, wantKept := e.cache.match(chain)
				if got, kept := e.cache.lookup(chain); got != want || kept != wantKept {
					t.Fatalf("a search finds %d blocks of %d, %d of them kept; a walk %d and %d",
						got, len(chain), kept, want, wantKept)
				}
			}
		}
	})
}
