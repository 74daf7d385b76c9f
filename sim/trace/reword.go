package trace

import (
	"slices"

	"github.com/warmpath/warmpath/sim/chance"
)

// Reworded is the trace in other words: prompts share what they shared, and nothing with those of the original. So an
// engine that has seen these knows nothing of them. 0 leaves it as it is.
func (t *Trace) Reworded(by uint64) *Trace {
	if by == 0 {
		return t
	}
	out := *t
	out.forest.nodes = slices.Clone(t.forest.nodes)
	for i := range out.forest.nodes {
		n := &out.forest.nodes[i]
		n.seed = chance.Mix(n.seed ^ chance.Mix(by))
	}
	return &out
}

// Reworded are conversations in other words, see Trace.Reworded.
func Reworded(all []Conversation, by uint64) []Conversation {
	if by == 0 {
		return all
	}
	out := slices.Clone(all)
	for i := range out {
		c := &out[i]
		c.System, c.Turns = chance.Mix(c.System^chance.Mix(by)), slices.Clone(c.Turns)
		for n := range c.Turns {
			c.Turns[n].Seed = chance.Mix(c.Turns[n].Seed ^ chance.Mix(by))
		}
	}
	return out
}

// Shuffle puts numbers into an order that the seed draws.
func Shuffle[T any](order []T, seed uint64) {
	for i := len(order) - 1; i > 0; i-- {
		k := int(chance.Mix(seed^uint64(i)) % uint64(i+1))
		order[i], order[k] = order[k], order[i]
	}
}
