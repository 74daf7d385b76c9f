package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveCache is the cache's behaviour with slices only: blocks in order of release, and how often each is held.
type naiveCache struct {
	size  int
	held  map[uint64]int
	order []uint64 // kept, oldest first
}

// acquire holds a whole chain, evicting from the front, and returns how many of its blocks were cached; false if it
// does not fit.
func (n *naiveCache) acquire(chain []uint64) (hits int, ok bool) {
	for hits < len(chain) && (n.held[chain[hits]] > 0 || slices.Contains(n.order, chain[hits])) {
		hits++
	}
	kept := 0
	for _, h := range chain[:hits] {
		if n.held[h] == 0 {
			kept++
		}
	}
	if len(chain)-hits > n.size-len(n.held)-kept {
		return hits, false
	}
	for i, h := range chain {
		if at := slices.Index(n.order, h); at >= 0 {
			n.order = slices.Delete(n.order, at, at+1)
		} else if i >= hits && len(n.held)+len(n.order) == n.size {
			n.order = n.order[1:]
		}
		n.held[h]++
	}
	return hits, true
}

func (n *naiveCache) release(chain []uint64) {
	for _, h := range slices.Backward(chain) {
		if n.held[h]--; n.held[h] == 0 {
			delete(n.held, h)
			n.order = append(n.order, h)
		}
	}
}

func TestCacheAgainstNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 24).Draw(t, "size")
		c := newCache(size)
		model := &naiveCache{size: size, held: map[uint64]int{}}
		type holding struct {
			chain  []uint64
			blocks []int32
		}
		var open []holding
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				// Chains of one seed are prefixes of each other; hashes are small numbers so that the table collides.
				seed, n := rapid.Uint64Range(0, 3).Draw(t, "seed"), rapid.IntRange(1, 12).Draw(t, "n")
				chain := make([]uint64, n)
				for i := range chain {
					chain[i] = seed<<32 | uint64(i)
				}
				want, fits := model.acquire(chain)
				hits, keptHits := c.match(chain)
				if hits != want {
					t.Fatalf("%d hits, want %d", hits, want)
				}
				if got := n-hits <= c.available()-keptHits; got != fits {
					t.Fatalf("fits: %v, want %v", got, fits)
				}
				if !fits {
					return
				}
				blocks := c.hold(nil, chain[:hits])
				for _, h := range chain[hits:] {
					blocks = append(blocks, c.publish(c.alloc(), h))
				}
				open = append(open, holding{chain, blocks})
			},
			"release": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is held that could be released")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "i")
				model.release(open[i].chain)
				c.releaseAll(open[i].blocks)
				open = slices.Delete(open, i, i+1)
			},
			"": func(t *rapid.T) {
				var order []uint64
				for b := c.blocks[0].next; b != 0; b = c.blocks[b].next {
					order = append(order, c.blocks[b].hash)
				}
				if !slices.Equal(order, model.order) || c.kept != len(order) {
					t.Fatalf("kept %v (%d), want %v", order, c.kept, model.order)
				}
				for _, h := range order {
					if b := c.table.find(c.blocks, h); b == 0 || c.blocks[b].hash != h {
						t.Fatalf("kept block %x is not in the table", h)
					}
				}
			},
		})
	})
}

// Two requests that compute the same prompt concurrently end up with one copy of its blocks.
func TestTwinsShareBlocks(t *testing.T) {
	c := newCache(4)
	a, b := c.alloc(), c.alloc()
	if c.publish(a, 7) != a || c.publish(b, 7) != a {
		t.Fatal("the second block was not merged into the first")
	}
	if got := c.available(); got != 3 {
		t.Errorf("%d blocks available, want 3", got)
	}
	c.releaseAll([]int32{a, a})
	if got := c.available(); got != 4 || c.kept != 1 {
		t.Errorf("%d available, %d kept, want 4 and 1", got, c.kept)
	}
}
