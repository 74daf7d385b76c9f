package cache

import (
	"testing"

	"github.com/warmpath/warmpath/route/blocks"
	"pgregory.net/rapid"
)

// TestGhosts against what was last put into each place: every eighth block is found again until a newer one takes its place, as 300 blocks
// in 65,536 places do now and then, and none that was not there is.
func TestGhosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g ghosts
		last := map[int]uint64{}
		for range rapid.IntRange(1, 40).Draw(t, "prompts") {
			var chain []uint64
			name := uint64(1)
			for range rapid.IntRange(0, 60).Draw(t, "blocks") {
				name = blocks.Scramble(name + uint64(rapid.IntRange(0, 1).Draw(t, "part")))
				chain = append(chain, name)
			}
			want := 0
			for i, b := range chain {
				if at, _, ok := ghost(b); ok && last[at] == b {
					want = i + 1
				}
			}
			if got := g.seen(chain); got != want {
				t.Fatalf("%d blocks of %x are known, want %d", got, chain, want)
			}
			g.add(chain)
			for _, b := range chain {
				if at, _, ok := ghost(b); ok {
					last[at] = b
				}
			}
		}
	})
}
