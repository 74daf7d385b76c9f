package policy

import "github.com/warmpath/warmpath/route"

const nameLeastTTFT = "least_ttft"

// The reasons of least_ttft.
const (
	ReasonHome      route.Reason = "home"       // the conversation's endpoint, and leaving it would not pay
	ReasonLeaves    route.Reason = "leaves"     // the conversation's endpoint is so busy that computing it again elsewhere is quicker
	ReasonWarm      route.Reason = "warm"       // it holds more of the prompt than others
	ReasonLeastTTFT route.Reason = "least_ttft" // the shortest predicted time to first token
	ReasonSpread    route.Reason = "spread"     // several are as quick; the one given the fewest conversations of late
)

// leastTTFT sends a request where its first token is predicted soonest, what the placement costs others included.
// The terms are those of route.Terms, all in milliseconds.
type leastTTFT struct {
	cfg   LeastTTFTConfig
	given []given // by Candidate.Slot
}

// given counts the first turns an endpoint was given, forgetting a share with every first turn of the pool.
type given struct {
	key   uint64
	count float64
}

const (
	nearMs    = 1.0  // costs that differ by less are equal
	forget    = 0.01 // share of the counts forgotten with each first turn
	freeShare = 4    // requests that an endpoint may have outstanding whatever its share
)

func newLeastTTFT(c Config) route.Policy { return &leastTTFT{cfg: c.LeastTTFT} }

// Pick implements route.Policy.
func (p *leastTTFT) Pick(v *route.View, _ *route.Request) route.Choice {
	limit := p.fairLimit(v)
	p.reckon(v)
	best, bestCost := nobody, 0.0
	for i := range v.Candidates {
		if over(&v.Candidates[i], limit) {
			continue
		}
		c := v.Candidates[i].Terms.Cost()
		if best == nobody || c < bestCost {
			best, bestCost = i, c
		}
	}
	if best == nobody { // rounding cannot leave nobody, and if it did the least loaded is right
		return route.Choice{Index: least(v, requests), Reason: ReasonLeastTTFT}
	}
	if v.Home >= 0 && !over(&v.Candidates[v.Home], limit) {
		home := v.Candidates[v.Home].Terms.Cost()
		if home-bestCost <= max(p.cfg.StayMs, float64(p.cfg.StayShare*home)) {
			return route.Choice{Index: v.Home, Reason: ReasonHome}
		}
	}
	i, near := p.nearest(v, bestCost, limit)
	if v.FirstTurn {
		p.give(v, i)
	}
	reason := ReasonLeastTTFT
	switch {
	case v.Home >= 0:
		reason = ReasonLeaves
	case v.Candidates[i].CachedTokens > 0 && v.Candidates[i].CachedTokens == v.Known && !alike(v):
		reason = ReasonWarm
	case near > 1:
		reason = ReasonSpread
	}
	return route.Choice{Index: i, Reason: reason}
}

// alike reports whether all candidates hold as much of the prompt.
func alike(v *route.View) bool {
	for i := range v.Candidates {
		if v.Candidates[i].CachedTokens != v.Candidates[0].CachedTokens {
			return false
		}
	}
	return true
}

// reckon fills in the terms of all candidates.
func (p *leastTTFT) reckon(v *route.View) {
	fewest := -1.0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		prefill := float64(float64(v.PromptTokens-c.CachedTokens) * c.MsPerToken)
		c.Terms = route.Terms{Wait: c.WaitMs, Prefill: prefill, Fixed: c.FixedMs}
		c.Terms.Others = float64(prefill * min(p.cfg.OthersMost, c.Busy/max(1-c.Busy, 0.05)))
		if c.Full {
			c.Terms.Evict = float64(prefill * v.Missed)
		}
		if c.Weight < 1 {
			c.Terms.Wait /= c.Weight
			c.Terms.Others = float64(c.Terms.Others+c.Terms.Prefill)/c.Weight - c.Terms.Prefill
		}
		if v.FirstTurn {
			if n := p.share(c); fewest < 0 || n < fewest {
				fewest = n
			}
		}
	}
	if v.FirstTurn {
		for i := range v.Candidates {
			c := &v.Candidates[i]
			c.Terms.Spread = float64(p.cfg.SpreadMs * (p.share(c) - fewest))
		}
	}
}

// share is how many first turns the endpoint was given of late, per weight and speed.
func (p *leastTTFT) share(c *route.Candidate) float64 {
	if c.Slot < len(p.given) && p.given[c.Slot].key == c.Key {
		return float64(p.given[c.Slot].count/c.Weight) * speed(c) * 10
	}
	return 0
}

// fairLimit is the most requests an endpoint of weight 1 may have outstanding.
func (p *leastTTFT) fairLimit(v *route.View) float64 {
	requests, weight := 1, 0.0
	for i := range v.Candidates {
		requests += v.Candidates[i].Load.Requests
		weight += v.Candidates[i].Weight / speed(&v.Candidates[i])
	}
	return float64(p.cfg.FairShare*float64(requests)) / weight
}

// over reports whether one more request would be more than an endpoint's fair share. A few are always allowed.
func over(c *route.Candidate, limit float64) bool {
	n := c.Load.Requests + 1
	return n > freeShare && float64(n) > float64(limit*c.Weight)/speed(c)+1
}

// speed is the time for a token of a prompt, never 0.
func speed(c *route.Candidate) float64 { return max(c.MsPerToken, 1e-6) }

// nearest picks, among those that cost about as little as the best, the first in rendezvous order of the conversation, so that
// several routers tend to agree.
func (p *leastTTFT) nearest(v *route.View, bestCost, limit float64) (index, near int) {
	index = nobody
	order := rankFor(v)
	var first place
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if over(c, limit) || c.Terms.Cost()-bestCost > nearMs {
			continue
		}
		near++
		if at := order.of(c); index == nobody || at.before(first) {
			index, first = i, at
		}
	}
	return index, near
}

func (p *leastTTFT) give(v *route.View, i int) {
	c := &v.Candidates[i]
	for len(p.given) <= c.Slot {
		p.given = append(p.given, given{})
	}
	if g := &p.given[c.Slot]; g.key != c.Key {
		*g = given{key: c.Key}
	}
	for j := range p.given {
		p.given[j].count -= float64(forget * p.given[j].count)
	}
	p.given[c.Slot].count++
}
