package cache

// ghosts are blocks that prompts had of late, whether or not any cache still holds them: what a prompt has in common with an earlier one
// and no cache holds was evicted too early. Every eighth block by its name is kept, in a table in which newer ones take the place of
// older ones: half a million blocks, in 256 kB.
type ghosts struct{ tags []uint32 }

const (
	ghostEvery = 8
	ghostSlots = 1 << 16
)

// ghost is a block's place and what is kept of its name; ok is false for those that are not kept.
func ghost(block uint64) (at int, tag uint32, ok bool) {
	return int(block>>3) & (ghostSlots - 1), uint32(block>>32) | 1, block%ghostEvery == 0
}

// add takes in a prompt.
func (g *ghosts) add(chain []uint64) {
	if g.tags == nil {
		g.tags = make([]uint32, ghostSlots)
	}
	for _, block := range chain {
		if at, tag, ok := ghost(block); ok {
			g.tags[at] = tag
		}
	}
}

// seen is how many of a prompt's blocks, from the first on, an earlier one had, as far as is remembered. Names of blocks cover all before
// them, so that the last one known decides.
func (g *ghosts) seen(chain []uint64) int {
	if g.tags == nil {
		return 0
	}
	for n := len(chain); n > 0; n-- {
		if at, tag, ok := ghost(chain[n-1]); ok && g.tags[at] == tag {
			return n
		}
	}
	return 0
}
