// Package leastttft is the default policy, least_ttft: a request goes where its predicted time to first token is
// shortest, including the cost of the placement to other requests.
//
// Besides that cost (package cost) it owns the rule by which a conversation leaves its endpoint, the placement fairness
// that spreads new conversations, and the breaking of ties. It remembers where it placed first turns, and writes
// nothing in a view but Candidate.Terms. These it fills in for every row, so that a policy around it can choose
// otherwise by the same figures: it asks Pick, then compares Terms.Cost.
package leastttft

import (
	"cmp"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/slot"
)

// Config are the options of least_ttft.
type Config struct {
	// StayMs is by how many milliseconds another endpoint must cost less than a conversation's own before the
	// conversation moves. 0 means 20.
	StayMs float64 `yaml:"stay_ms"`
	// StayShare is the same as a share of the cost at its own endpoint; the larger of both counts. 0 means 0.2.
	StayShare float64 `yaml:"stay_share"`
	// FairShare limits an endpoint's outstanding requests to this many times its fair share, by weight alone or by
	// weight and speed, whichever is larger, plus eight. 0 means 2.
	FairShare float64 `yaml:"fair_share"`
	// SpreadShare scales the penalty for an endpoint that received more new conversations than the least-used one: the
	// penalty for each 1/14 more, as a share of a turn's mean time. 0 means 1.
	SpreadShare float64 `yaml:"spread_share"`
	// Without are mechanisms switched off for a simulation.
	Without ablation.Set `yaml:"-"`
}

// WithDefaults returns c with defaults for options that are not set.
func (c Config) WithDefaults() Config {
	c.StayMs = cmp.Or(c.StayMs, 20)
	c.StayShare = cmp.Or(c.StayShare, 0.2)
	c.FairShare = cmp.Or(c.FairShare, 2)
	c.SpreadShare = cmp.Or(c.SpreadShare, 1)
	return c
}

// leastTTFT sends a request where its first token is predicted soonest, including the cost to other requests.
type leastTTFT struct {
	pick.Plain
	cfg        Config
	firstTurns slot.Table[firstTurnCount]
	turns      uint64 // first turns placed

	endpoints int // that could have taken a first turn of late

	total float64             // sum of the counts
	left  map[uint64]struct{} // endpoints whose counts are still to be dropped

	shares []float64 // scratch of spread
}

// firstTurnCount is a decayed count of the first turns placed at an endpoint: with each first turn all forget fit.Slow,
// over the number of endpoints.
type firstTurnCount struct {
	count float64
	seen  uint64 // value of turns when it was last a candidate
}

const (
	freeShare   = 8    // outstanding requests allowed beyond the fair share, because of chance
	evenness    = 14   // one first turn in this many above the fewest costs a turn's mean time
	leastSpread = 0.03 // least share of the penalty, however few later turns follow: weights apply to those too
	rarely      = 8    // first turns for each endpoint, in which all have been candidates with near certainty
)

// New makes least_ttft. The configuration must have its defaults.
func New(c Config) pick.Policy {
	return &leastTTFT{cfg: c, left: map[uint64]struct{}{}, Plain: pick.Plain{
		Name: "least_ttft", Content: true, Returns: true, Sharers: !c.Without.Has(ablation.Copies), Shortlist: true,
	}}
}

// Hooks implements pick.Policy.
func (p *leastTTFT) Hooks() pick.Hooks {
	return pick.Hooks{Placed: p.placed, Forgotten: p.forgotten, PeerPlaced: p.peerPlaced}
}

// Pick implements pick.Policy.
func (p *leastTTFT) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	limit := p.fairLimit(v, r)
	cost.Score(v)
	if v.FirstTurn && !p.cfg.Without.Has(ablation.Spread) {
		p.spread(v)
	}
	best, bestCost := pick.None, 0.0
	for i := range v.Candidates {
		if limit.over(v, &v.Candidates[i]) {
			continue
		}
		c := v.Candidates[i].Terms.Cost()
		if best == pick.None || c < bestCost {
			best, bestCost = i, c
		}
	}
	if best == pick.None { // only by rounding; then the least loaded is right
		return pick.Choice{Index: fair.Least(v, fair.Requests), Reason: reasons.LeastTTFT}
	}
	atHome := v.Home >= 0 && !v.Repeats
	if atHome && !limit.over(v, &v.Candidates[v.Home]) {
		// it stays unless another one costs less by StayMs and by StayShare, with the delay of others by computing its
		// prompt again
		stay := v.Candidates[v.Home].Terms.Cost()
		if stay-v.Candidates[best].Terms.Cost() <= max(p.cfg.StayMs, float64(p.cfg.StayShare*stay)) {
			return pick.Choice{Index: v.Home, Reason: reasons.Home}
		}
	}
	i, near := nearest(v, bestCost, limit)
	parent := v.Home < 0 && v.Parent >= 0 && !limit.over(v, &v.Candidates[v.Parent]) &&
		v.Candidates[v.Parent].Terms.Cost()-bestCost <= p.cfg.StayMs
	if parent {
		i = v.Parent
	}
	reason := reasons.LeastTTFT
	switch {
	case atHome:
		reason = reasons.Leaves
	case parent:
		reason = reasons.Parent
	case v.Candidates[i].CachedTokens > 0 && v.Candidates[i].CachedTokens == v.MostCached && !equallyCached(v):
		reason = reasons.Warm
	case near > 1:
		reason = reasons.Spread
	}
	return pick.Choice{Index: i, Reason: reason}
}

// equallyCached reports whether all candidates have the same number of the prompt's tokens cached.
func equallyCached(v *pick.View) bool {
	for i := range v.Candidates {
		if v.Candidates[i].CachedTokens != v.Candidates[0].CachedTokens {
			return false
		}
	}
	return true
}

// spread fills in the penalty for more first turns than the least-used endpoint, in proportion to weight and speed,
// since conversations continue where they begin. With few later turns it is small, so that prompts can gather at their
// shared prefix.
func (p *leastTTFT) spread(v *pick.View) {
	fastest, mean := p.standard(v)
	fewest, sum := -1.0, 0.0
	p.shares = p.shares[:0]
	for i := range v.Candidates {
		c := &v.Candidates[i]
		s := share(v, c, p.countOf(v, c, fastest, mean), fastest)
		if fewest < 0 || s < fewest {
			fewest = s
		}
		p.shares = append(p.shares, s)
		sum += s
	}
	sum += float64(mean * float64(v.Beyond.Count))
	eligible, later := float64(v.Eligible()), min(1, max(leastSpread, v.LaterTurns))
	each := float64(p.cfg.SpreadShare*evenness) * later * eligible / max(sum, eligible)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		turnMs, times := cost.TurnMs(v, c)+v.Fixed(c), min(float64(each*(p.shares[i]-fewest)), fit.Bound)
		c.Terms.Spread = float64(float64(turnMs) * times)
	}
}

// placed notes who were candidates for a first turn, and counts it where it went, unless it had a home there.
func (p *leastTTFT) placed(v *pick.View, _ *fleet.Request, choice pick.Choice) {
	if !v.FirstTurn {
		return
	}
	p.dropLeft()
	if !p.cfg.Without.Has(ablation.Spread) {
		fastest, mean := p.standard(v)
		for i := range v.Candidates {
			c := &v.Candidates[i]
			count := p.countOf(v, c, fastest, mean)
			*p.firstTurns.At(c.Slot, c.Key) = firstTurnCount{count: count, seen: p.turns + 1}
		}
		p.turns++
	}
	if choice.Reason != reasons.Home {
		c := &v.Candidates[choice.Index]
		p.endpoints = max(v.Eligible(), p.recent()) // as many as could have taken it
		p.addFirstTurn(c.Slot, c.Key)
	}
}

// standard is what counts of first turns are measured by: the speed of the fastest candidate, and the mean share of
// those that were present.
func (p *leastTTFT) standard(v *pick.View) (fastest, mean float64) {
	fastest = cost.Speed(v, &v.Candidates[0])
	for i := range v.Candidates {
		fastest = min(fastest, cost.Speed(v, &v.Candidates[i]))
	}
	if v.Beyond.Count > 0 { // then of all endpoints, if each has what its weight and speed deserve
		ready := v.Beyond.Ready
		for i := range v.Candidates {
			ready += v.Candidates[i].FullWeight() / cost.Speed(v, &v.Candidates[i])
		}
		return fastest, p.total / (fastest * ready)
	}
	sum, n := 0.0, 0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if g := p.firstTurns.Peek(c.Slot, c.Key); p.present(v, g) {
			sum += share(v, c, g.count, fastest)
			n++
		}
	}
	return fastest, sum / float64(max(n, 1))
}

// countOf is an endpoint's count of first turns. One that was away starts at the others' mean.
func (p *leastTTFT) countOf(v *pick.View, c *pick.Candidate, fastest, mean float64) float64 {
	g, count := p.firstTurns.Peek(c.Slot, c.Key), 0.0
	if g != nil {
		count = g.count
	}
	if p.present(v, g) {
		return count
	}
	return max(count, float64(mean*c.FullWeight())/slower(v, c, fastest))
}

// present reports whether the endpoint was a candidate for a first turn of late. It need not have been one for the
// latest: prompts of some lengths, models or APIs have fewer candidates.
func (p *leastTTFT) present(v *pick.View, g *firstTurnCount) bool {
	return g != nil && p.seenLately(g, max(p.endpoints, v.Eligible()))
}

// seenLately reports whether an endpoint was a candidate among the latest first turns, of a fleet of that many
// endpoints.
func (p *leastTTFT) seenLately(g *firstTurnCount, endpoints int) bool {
	return g.seen > 0 && p.turns-g.seen <= uint64(rarely*endpoints)
}

// slower is how many times as slow an endpoint is as the fastest one, at most fit.Bound times: a misjudged one must
// still get requests.
func slower(v *pick.View, c *pick.Candidate, fastest float64) float64 {
	return min(cost.Speed(v, c)/fastest, fit.Bound)
}

// share is an endpoint's recent first turns relative to its weight and speed.
func share(v *pick.View, c *pick.Candidate, count, fastest float64) float64 {
	return float64(count/c.FullWeight()) * slower(v, c, fastest)
}

// fairLimit is the most outstanding requests of an endpoint, in proportion to its weight, or to its weight and the
// speed of its prompts where that is more. Most outstanding requests are being answered, which an endpoint with slow
// prompts need not do slowly. Auxiliary requests count for each other only, so that these spread: nothing else waits
// for them.
type fairLimit struct {
	fast      float64 // of an endpoint of weight 1 that takes 1 ms for a token of a prompt
	even      float64 // of an endpoint of weight 1
	auxiliary bool
}

func (p *leastTTFT) fairLimit(v *pick.View, r *fleet.Request) fairLimit {
	limit := fairLimit{auxiliary: r.Class == fleet.Auxiliary}
	requests, able := 1+v.Beyond.Requests, v.Beyond.Ready
	weight := float64(float64(v.Beyond.Count) * v.Beyond.Heaviest) // an upper bound: weights may differ
	for i := range v.Candidates {
		requests += limit.counted(&v.Candidates[i].Load)
		able += v.Candidates[i].Weight / cost.Speed(v, &v.Candidates[i])
		weight += v.Candidates[i].Weight
	}
	most := float64(p.cfg.FairShare * float64(requests))
	limit.fast, limit.even = most/able, most/weight
	return limit
}

func (f fairLimit) counted(l *fleet.Load) int {
	if f.auxiliary {
		return l.Requests
	}
	return l.Working()
}

// over reports whether one more request would exceed an endpoint's fair share by more than freeShare.
func (f fairLimit) over(v *pick.View, c *pick.Candidate) bool {
	n := f.counted(&c.Load) + 1
	return float64(n) > float64(c.Weight*max(f.fast/cost.Speed(v, c), f.even))+freeShare
}

// nearest picks, among the candidates within cost.NearMs of the least cost, the first in the conversation's rendezvous
// order, so that several routers tend to agree.
func nearest(v *pick.View, bestCost float64, limit fairLimit) (index, near int) {
	index = pick.None
	inOrder := byhash.OrderFor(v)
	var first byhash.Place
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if limit.over(v, c) || c.Terms.Cost()-bestCost > cost.NearMs {
			continue
		}
		near++
		if at := inOrder.Of(c); index == pick.None || at.Before(first) {
			index, first = i, at
		}
	}
	return index, near
}

// peerPlaced counts another router's first turns too.
func (p *leastTTFT) peerPlaced(t *pick.PeerTurn) {
	if t.FirstTurn {
		p.dropLeft()
		p.addFirstTurn(t.Slot, t.Key)
	}
}

// recent is how many endpoints have been candidates of late.
func (p *leastTTFT) recent() (n int) {
	p.firstTurns.Each(func(g *firstTurnCount) {
		if p.seenLately(g, p.endpoints) {
			n++
		}
	})
	return n
}

func (p *leastTTFT) forgotten(endpoint uint64) {
	if p.left[endpoint] = struct{}{}; len(p.left) >= p.endpoints {
		p.dropLeft()
	}
}

// dropLeft drops the counts of endpoints that have left, all at once, since that looks at every row.
func (p *leastTTFT) dropLeft() {
	if len(p.left) == 0 {
		return
	}
	p.firstTurns.Drop(func(key uint64) bool { _, gone := p.left[key]; return gone })
	clear(p.left)
	p.total = 0
	p.firstTurns.Each(func(g *firstTurnCount) { p.total += g.count })
}

// addFirstTurn counts a first turn at an endpoint.
func (p *leastTTFT) addFirstTurn(slot int, key uint64) {
	p.total = 1
	p.firstTurns.Each(func(g *firstTurnCount) {
		g.count -= g.count / float64(1/fit.Slow*max(1, p.endpoints))
		p.total += g.count
	})
	p.firstTurns.At(slot, key).count++
}
