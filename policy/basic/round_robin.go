package basic

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/slot"
)

// roundRobin is smooth weighted round robin as in nginx (upstream round robin, since 1.3.1): each pick adds its weight
// to every candidate's credit and subtracts the sum of all weights from the one with most credit. So an endpoint of
// weight 3 beside two of weight 1 gives A B A C A instead of A A A B C.
//
// A new endpoint starts with a random credit below one round, so that the first turn does not always go to the first or
// heaviest endpoint, and routers started together do not run in step. An endpoint that was away keeps its credit,
// within one round of the present candidates.
type roundRobin struct {
	pick.Plain
	turns slot.Table[turn]
}

type turn struct {
	known  bool // has been here before
	credit float64
}

// NewRoundRobin makes round_robin.
func NewRoundRobin() pick.Policy { return &roundRobin{Plain: pick.Plain{Name: "round_robin"}} }

// Pick implements pick.Policy.
func (p *roundRobin) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := p.round(v, func(*pick.Candidate, float64) {})
	return pick.Choice{Index: at, Reason: reasons.RoundRobin}
}

// Hooks implements pick.Policy.
func (p *roundRobin) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *roundRobin) placed(v *pick.View, _ *fleet.Request, choice pick.Choice) {
	total := weight(v)
	p.round(v, func(c *pick.Candidate, credit float64) {
		*p.turns.At(c.Slot, c.Key) = turn{known: true, credit: credit}
	})
	c := &v.Candidates[choice.Index]
	p.turns.At(c.Slot, c.Key).credit -= total
}

// round finds whose turn it is, and calls each with every candidate's credit.
func (p *roundRobin) round(v *pick.View, each func(c *pick.Candidate, credit float64)) int {
	var e fair.Sample
	total, best := weight(v), 0.0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		credit := 0.0
		if t := p.turns.Peek(c.Slot, c.Key); t != nil && t.known {
			credit = t.credit
		} else {
			credit = v.Rand.Float64() * total
		}
		credit = min(max(credit, -total), total) + c.Weight
		switch {
		case i == 0 || credit > best:
			best = credit
			e.Only(i, c.Weight)
		case credit == best:
			e.Add(v.Rand, i, c.Weight)
		}
		each(c, credit)
	}
	return e.Index
}

// weight is the candidates' total weight.
func weight(v *pick.View) float64 {
	total := 0.0
	for i := range v.Candidates {
		total += v.Candidates[i].Weight
	}
	return total
}
