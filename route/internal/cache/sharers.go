package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Sharers are the outstanding first turns whose prompts begin with all blocks of this one that any endpoint is believed
// to hold. All of them are at endpoints that hold these: the blocks of a request are believed to be where it is. cached
// is as Predict found it, and memory is for the result. Of the many requests of an endpoint it looks at bound.Step, at
// even distances.
func (r Reader) Sharers(
	x *Text, p *Prompt, at pick.Endpoints, cached []pick.Cached, memory []pick.Sharer,
) []pick.Sharer {
	memory = memory[:0]
	longest := 0
	for i := range cached {
		longest = max(longest, cached[i].Blocks)
	}
	if !isText(p.Request, p.Size.Tokens) || longest == 0 {
		return memory
	}
	for i := range cached {
		if cached[i].Blocks < longest {
			continue
		}
		c := at.At(i)
		r.look(x, p.Request, c.Model)
		sharing := r.t.endpoints.Get(c.Slot).outstanding.sorted.of(&r.t.leases, x.keys[:longest])
		each := max(1, float64(len(sharing))/bound.Step)
		for k := 0.0; int(k) < len(sharing); k += each {
			if l := r.t.leases.Get(int(sharing[int(k)].lease)); l.first {
				memory = append(memory, pick.Sharer{AgeMs: fleet.Ms(p.Now.Sub(l.placed)), Turns: each})
			}
		}
	}
	return memory
}
