package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/slot"
)

// roundRobin is smooth weighted round robin as in nginx (upstream round robin, since 1.3.1): each pick adds its weight to every
// candidate's credit and subtracts the sum of all weights from the one with most credit. So an endpoint of weight 3 beside two
// of weight 1 gives A B A C A instead of A A A B C.
//
// A new endpoint starts with a random credit below one round, so that the first turn does not always go to the first or
// heaviest endpoint, and routers started together do not run in step. An endpoint that was away keeps its credit, within one
// round of the present candidates.
type roundRobin struct {
	turns slot.Table[turn]
}

type turn struct {
	known  bool // has been here before
	credit float64
}

// NewRoundRobin makes round_robin.
func NewRoundRobin() pick.Policy { return &roundRobin{} }

// Pick implements pick.Policy.
func (p *roundRobin) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	total := 0.0
	for i := range v.Candidates {
		total += v.Candidates[i].Weight
	}
	var e fair.Sample
	best := 0.0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		t := p.turns.At(c.Slot, c.Key)
		if !t.known {
			*t = turn{known: true, credit: v.Rand.Float64() * total}
		}
		t.credit = min(max(t.credit, -total), total) + c.Weight
		switch {
		case i == 0 || t.credit > best:
			best = t.credit
			e.Only(i, c.Weight)
		case t.credit == best:
			e.Add(v.Rand, i, c.Weight)
		}
	}
	c := &v.Candidates[e.Index]
	p.turns.At(c.Slot, c.Key).credit -= total
	return pick.Choice{Index: e.Index, Reason: reasons.RoundRobin}
}
