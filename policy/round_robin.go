package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// turnsKept bounds the table of turns. Slots beyond it share places, which costs fairness and nothing else.
const turnsKept = 1 << 16

// roundRobin gives each endpoint its turn, smoothly by weight as nginx does (upstream round robin, since 1.3.1): each
// pick adds its weight to every candidate's credit and takes the sum of all weights from the one with most credit. An
// endpoint of weight 3 beside two of weight 1 then comes up as A B A C A and not as A A A B C.
//
// An endpoint that is new starts with a random credit below one round, so that the first turn is not always the first
// or the heaviest endpoint's and routers started together do not go round in step. One that was away keeps its credit,
// within one round of the present candidates.
type roundRobin struct {
	turns []turn // by Candidate.Slot
}

type turn struct {
	key    uint64 // of the endpoint that has the slot now
	known  bool
	credit float64
}

func newRoundRobin() pick.Policy { return &roundRobin{} }

// Pick implements route.Policy.
func (p *roundRobin) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	total := 0.0
	for i := range v.Candidates {
		total += v.Candidates[i].Weight
	}
	var e even
	best := 0.0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		t := p.turn(c)
		if !t.known || t.key != c.Key {
			*t = turn{key: c.Key, known: true, credit: v.Rand.Float64() * total}
		}
		t.credit = min(max(t.credit, -total), total) + c.Weight
		switch {
		case i == 0 || t.credit > best:
			best = t.credit
			e.only(i, c.Weight)
		case t.credit == best:
			e.add(v.Rand, i, c.Weight)
		}
	}
	p.turn(&v.Candidates[e.index]).credit -= total
	return pick.Choice{Index: e.index, Reason: ReasonRoundRobin}
}

// turn is the place of a candidate's slot. The table grows to the largest slot seen, up to turnsKept.
func (p *roundRobin) turn(c *pick.Candidate) *turn {
	i := int(uint(c.Slot) % turnsKept)
	if i >= len(p.turns) {
		p.turns = append(p.turns, make([]turn, i+1-len(p.turns))...)
	}
	return &p.turns[i]
}
