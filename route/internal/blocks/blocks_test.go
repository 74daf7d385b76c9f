package blocks

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestKept: the kept blocks lie where both functions say, none is lost, and what is not covered is at most a sixteenth.
func TestKept(t *testing.T) {
	for blocks := range 6000 {
		n := Kept(blocks)
		if Reach(n) > blocks || Reach(n+1) <= blocks {
			t.Fatalf("of %d blocks %d are kept, which cover %d; one more would cover %d",
				blocks, n, Reach(n), Reach(n+1))
		}
		if blocks > 32 && (blocks-Reach(n))*16 > blocks {
			t.Fatalf("of %d blocks only %d are covered", blocks, Reach(n))
		}
	}
	c := &fleet.Content{Blocks: make([]uint64, 4000)}
	for i := range c.Blocks {
		c.Blocks[i] = uint64(i + 1)
	}
	if k := Keys(nil, 0, c); len(k) != 612 || k[40] != Keys(nil, 0, &fleet.Content{Blocks: c.Blocks[:100]})[40] {
		t.Errorf("%d of 4,000 blocks are kept, or not the same ones in a longer prompt", len(k))
	}
}
