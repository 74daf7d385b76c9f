// Package leastttft is the default policy, least_ttft: a request goes where its first token is predicted soonest, what the placement
// costs other requests included.
//
// It owns the terms of that cost, the rule by which a conversation leaves its endpoint, and placement fairness, which spreads new
// conversations. All figures are in milliseconds and learnt; no constant stands for a GPU or a model. It learns from the requests
// that it is asked about and never changes what it sees but for Candidate.Terms.
package leastttft

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/slot"
)

// Config are the options of least_ttft.
type Config struct {
	// StayMs is how many milliseconds another endpoint must be quicker than a conversation's own before the conversation
	// moves. 0 means 20.
	StayMs float64 `yaml:"stay_ms"`
	// StayShare is the same as a share of the time predicted at its own endpoint; the larger of both counts. 0 means 0.2.
	StayShare float64 `yaml:"stay_share"`
	// FairShare bounds an endpoint's outstanding requests to so many times its fair share, by weight and speed (decode legs by
	// weight alone), and eight more. 0 means 2.
	FairShare float64 `yaml:"fair_share"`
	// SpreadShare is how much slower an endpoint is thought for each fourteenth that it was given more new conversations than the
	// one with fewest, as a share of a turn's mean time. 0 means 1.
	SpreadShare float64 `yaml:"spread_share"`
}

// WithDefaults is c with each option that is not given replaced by its default.
func (c Config) WithDefaults() Config {
	set := func(f *float64, v float64) {
		if *f == 0 {
			*f = v
		}
	}
	set(&c.StayMs, 20)
	set(&c.StayShare, 0.2)
	set(&c.FairShare, 2)
	set(&c.SpreadShare, 1)
	return c
}

// leastTTFT sends a request where its first token is predicted soonest, what the placement costs others included.
// The terms are those of route.Terms, all in milliseconds.
type leastTTFT struct {
	cfg   Config
	given slot.Table[given]
	picks uint64 // first turns placed

	firsts, laters float64 // turns of late: conversations' first ones, and the others
	tokens         float64 // uncached ones of a turn, of late
}

// given counts the first turns an endpoint was given, forgetting a share with every first turn of the pool, see remembered.
type given struct {
	count float64
	seen  uint64 // the latest of picks at which it was a candidate
}

const (
	nearMs      = 1.0   // costs that differ by less are equal
	remembered  = 100   // first turns an endpoint that are remembered
	freeShare   = 8     // requests that an endpoint may have outstanding beyond its share: chance alone brings as many together
	turnRate    = 0.005 // share of what is known of turns that is forgotten with each
	tokenRate   = 0.01  // weight of a turn in the mean of their uncached tokens
	wildTurn    = 16    // times the mean that a turn counts for at most in it
	wildTokens  = 512   // added to the mean for that, since little is known at first
	firstTurns  = 2     // later turns that a conversation is thought to have before any has been seen
	evenness    = 14    // one in so many first turns more than the fewest costs as much as a turn's mean time
	mostDebt    = 64    // first turns that an endpoint may have had fewer than the others, to be made good
	leastSpread = 0.03  // share of its cost that a first turn too many has at least, however few later ones follow: weights count for those too
	mostSpread  = 16    // turns' mean times that are charged at most: a misjudged endpoint must not be shut out
	fullBusy    = 0.75  // queues are not reckoned beyond that: none lasts for ever, and of one that is there the wait is known
	mostCrowd   = 3     // times its places or memory that an endpoint is thought to be crowded at most
	othersCount = 2     // times that a wait of others counts: it makes some of them leave and compute again what they had
)

// New makes least_ttft with a configuration that has its defaults.
func New(c Config) pick.Policy { return &leastTTFT{cfg: c} }

// AwaitsReturns implements pick.Awaiting.
func (p *leastTTFT) AwaitsReturns() bool { return true }

// Pick implements pick.Policy.
func (p *leastTTFT) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	limit := p.fairLimit(v)
	p.reckon(v)
	best, bestCost := pick.Nobody, 0.0
	for i := range v.Candidates {
		if over(v, &v.Candidates[i], limit) {
			continue
		}
		c := v.Candidates[i].Terms.Cost()
		if best == pick.Nobody || c < bestCost {
			best, bestCost = i, c
		}
	}
	if best == pick.Nobody { // rounding cannot leave nobody, and if it did the least loaded is right
		return pick.Choice{Index: fair.Least(v, fair.Requests), Reason: reasons.LeastTTFT}
	}
	atHome := v.Home >= 0 && !v.Repeats
	if atHome && !over(v, &v.Candidates[v.Home], limit) {
		if p.stays(&v.Candidates[v.Home].Terms, &v.Candidates[best].Terms) {
			p.learn(v, r, v.Home)
			return pick.Choice{Index: v.Home, Reason: reasons.Home}
		}
	}
	i, near := p.nearest(v, bestCost, limit)
	parent := v.Home < 0 && v.Parent >= 0 && !over(v, &v.Candidates[v.Parent], limit) && v.Candidates[v.Parent].Terms.Cost()-bestCost <= p.cfg.StayMs
	if parent {
		i = v.Parent
	}
	if v.FirstTurn {
		p.give(v, i)
	}
	p.learn(v, r, i)
	reason := reasons.LeastTTFT
	switch {
	case atHome:
		reason = reasons.Leaves
	case parent:
		reason = reasons.Parent
	case v.Candidates[i].CachedTokens > 0 && v.Candidates[i].CachedTokens == v.Known && !alike(v):
		reason = reasons.Warm
	case near > 1:
		reason = reasons.Spread
	}
	return pick.Choice{Index: i, Reason: reason}
}

// stays reports whether a conversation stays at home: another endpoint must be cheaper by StayMs and by StayShare of home's cost. The
// cost includes what computing the prompt again takes from other requests.
func (p *leastTTFT) stays(home, there *pick.Terms) bool {
	cost := home.Cost()
	return cost-there.Cost() <= max(p.cfg.StayMs, float64(p.cfg.StayShare*cost))
}

// alike reports whether all candidates hold as much of the prompt.
func alike(v *pick.View) bool {
	for i := range v.Candidates {
		if v.Candidates[i].CachedTokens != v.Candidates[0].CachedTokens {
			return false
		}
	}
	return true
}

// reckon fills in the terms of all candidates.
func (p *leastTTFT) reckon(v *pick.View) {
	heaviest := 0.0
	for i := range v.Candidates {
		heaviest = max(heaviest, lasting(&v.Candidates[i]))
	}
	newcomers := p.newcomers(v)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		prefill := float64(float64(v.PromptTokens-c.CachedTokens) * c.MsPerToken)
		c.Terms = pick.Terms{Wait: c.WaitMs + p.overtaken(c, prefill), Prefill: prefill, Fixed: c.FixedMs}
		c.Terms.Others = p.others(v, c, prefill, newcomers) + c.DelayMs
		// Of less weight is who should have less traffic: what it costs there counts for more. The request itself waits no longer.
		if w := lasting(c) / heaviest; w < 1 {
			c.Terms.Others = (c.Terms.Wait+c.Terms.Prefill+c.Terms.Others)/w - c.Terms.Wait - c.Terms.Prefill
		}
	}
	if v.FirstTurn {
		p.spread(v)
	}
}

// spread fills in the term for having been given more first turns than another one, in proportion to weight and speed: where conversations
// begin is where they go on. Where few go on there is little to spread, and prompts may gather where what they share is. Who was
// not there for a while begins at the mean of the others, and nobody catches up with more than a few.
func (p *leastTTFT) spread(v *pick.View) {
	fastest, sum, n := speed(v, &v.Candidates[0]), 0.0, 0
	for i := range v.Candidates {
		fastest = min(fastest, speed(v, &v.Candidates[i]))
	}
	for i := range v.Candidates {
		if c := &v.Candidates[i]; p.present(c) {
			sum += p.share(v, c, fastest)
			n++
		}
	}
	fewest, mean := -1.0, sum/float64(max(n, 1))
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if p.present(c) {
			p.enter(v, c, fastest, mean-mostDebt/min(lasting(c), 1))
		} else {
			p.enter(v, c, fastest, mean)
		}
		if s := p.share(v, c, fastest); fewest < 0 || s < fewest {
			fewest = s
		}
	}
	p.picks++
	sum = 0
	for i := range v.Candidates {
		sum += p.share(v, &v.Candidates[i], fastest)
	}
	each := float64(p.cfg.SpreadShare*evenness) * min(1, max(leastSpread, p.later())) * float64(len(v.Candidates)) / max(sum, float64(len(v.Candidates)))
	for i := range v.Candidates {
		c := &v.Candidates[i]
		p.given.At(c.Slot, c.Key).seen = p.picks
		c.Terms.Spread = float64(float64(p.mean(c)+c.FixedMs) * min(float64(each*(p.share(v, c, fastest)-fewest)), mostSpread))
	}
}

// lasting is an endpoint's weight without what it still lacks since it has come.
func lasting(c *pick.Candidate) float64 {
	if c.Ramp > 0 {
		return c.Weight / c.Ramp
	}
	return c.Weight
}

// present reports whether the endpoint was a candidate when the last first turn was placed.
func (p *leastTTFT) present(c *pick.Candidate) bool {
	g := p.given.Peek(c.Slot, c.Key)
	return g != nil && g.seen == p.picks && p.picks > 0
}

// enter lets an endpoint have at least so large a share.
func (p *leastTTFT) enter(v *pick.View, c *pick.Candidate, fastest, share float64) {
	g := p.given.At(c.Slot, c.Key)
	g.count = max(g.count, float64(share*lasting(c))/slower(v, c, fastest))
}

// slower is how many times as slow an endpoint is as the fastest one, within reason.
func slower(v *pick.View, c *pick.Candidate, fastest float64) float64 {
	return min(speed(v, c)/fastest, 16)
}

// share is how many first turns the endpoint was given of late, for its weight and its speed beside the fastest one's.
func (p *leastTTFT) share(v *pick.View, c *pick.Candidate, fastest float64) float64 {
	return float64(p.given.At(c.Slot, c.Key).count/lasting(c)) * slower(v, c, fastest)
}

// newcomers is how many new conversations a millisecond come to an endpoint that takes one millisecond for a token although it is busy, if all have their
// share, over 1 - busy. Those that came to one endpoint say nothing here: they went where the policy sent them. When there have been turns for less time than
// they are counted over, what is missing is made good, but little of it where conversations go on.
func (p *leastTTFT) newcomers(v *pick.View) float64 {
	var turns, busy, able float64
	for i := range v.Candidates {
		c := &v.Candidates[i]
		turns += c.TurnsPerMs
		busy += c.Busy / speed(v, c)
		able += 1 / speed(v, c)
	}
	later := p.later()
	if v.Watched > 0 { // a home that is made early is one for all later turns, of which the rate of now tells nothing
		turns *= 1 + (1/v.Watched-1)/(1+later)
	}
	share := min(busy/able, fullBusy)
	return turns / (1 + later) / able / (1 - share)
}

// others is what a placement costs those who come after. Those who come while it and what is in front of it are computed wait
// for it: where rate turns a millisecond come, work of w ms in front of which b ms wait makes rate × b of them wait for w and
// rate × w for w/2 on average, and since these make others wait in turn it is 1 / (1 - busy) times as much (M/G/1). Most that come are of conversations
// that are at home there: whose agent waits for a tool is back in seconds, and who has rested for an hour is not.
//
// A first turn brings the later ones to the endpoint. What each millisecond of work costs there in the long run is the
// derivative of the length of the queue, busy² / (1 - busy) in M/M/1, by what the conversations that are there already bring.
// That is how a shared prefix gets as many homes as its demand needs: where it is cached the queue gets longer with each
// conversation, until computing the prefix elsewhere is cheaper. It is also what keeps new conversations from the quickest
// endpoints of a fleet when the conversations there crowd each other out of the cache, and compute again what they lost.
func (p *leastTTFT) others(v *pick.View, c *pick.Candidate, prefill, newcomers float64) float64 {
	rate := newcomers/speed(v, c) + c.ReturnsPerMs/(1-min(c.Steady, fullBusy))
	cost := float64(othersCount * float64(float64(rate*prefill)*(c.WaitMs+prefill/2)))
	cost += float64(othersCount * float64(prefill*float64(c.Behind)))
	crowd := min(c.Crowd, fullBusy)
	cost += float64(c.CrowdMs*crowd) / (1 - crowd)
	if v.FirstTurn {
		cost += float64(p.later() * (float64(p.mean(c)*marginal(min(c.Steady, fullBusy))) + float64(c.CrowdMs*crowded(c.Crowd))))
	}
	return cost
}

// later is how many turns follow a first one. What is assumed of that at first is forgotten as turns are.
func (p *leastTTFT) later() float64 {
	assumed := 1 - float64(turnRate*(p.firsts+p.laters)) // (1 - turnRate)^n after n turns
	return (p.laters + float64(firstTurns*assumed)) / max(p.firsts+assumed, 1e-6)
}

// marginal is the derivative of the length of a queue by the share of time that its server is busy (M/M/1), times that share.
func marginal(busy float64) float64 {
	return float64(busy*(2-busy)) / float64((1-busy)*(1-busy))
}

// crowded is marginal for a share of places or memory that may be more than all of them, up to mostCrowd. Beyond fullBusy it goes on along its
// tangent: those who come later stay with this conversation, so that where all endpoints are full it still matters which is the fullest.
func crowded(share float64) float64 {
	const steep = 2 / ((1 - fullBusy) * (1 - fullBusy) * (1 - fullBusy))
	return marginal(min(share, fullBusy)) + float64(steep*max(0, min(share, mostCrowd)-fullBusy))
}

// mean is how long a turn's prompt takes to compute on an endpoint, in ms, never 0.
func (p *leastTTFT) mean(c *pick.Candidate) float64 {
	return max(float64(p.tokens*c.MsPerToken), 1e-6)
}

// learn takes in a turn that is placed.
func (p *leastTTFT) learn(v *pick.View, r *fleet.Request, i int) {
	if r.Class != fleet.Turn {
		return
	}
	tokens := float64(v.PromptTokens - v.Candidates[i].CachedTokens)
	if p.firsts+p.laters > 0 { // one wild prompt, which the engine may even refuse, must not tell what turns are like
		tokens = min(tokens, float64(wildTurn*(p.tokens+wildTokens)))
	}
	p.tokens += float64(max(tokenRate, 1/(p.firsts+p.laters+1)) * (tokens - p.tokens))
	p.firsts -= float64(turnRate * p.firsts)
	p.laters -= float64(turnRate * p.laters)
	if v.FirstTurn {
		p.firsts++
	} else {
		p.laters++
	}
}

// fairLimit is the most requests an endpoint of weight 1 may have outstanding.
func (p *leastTTFT) fairLimit(v *pick.View) float64 {
	requests, weight := 1, 0.0
	for i := range v.Candidates {
		requests += v.Candidates[i].Load.Requests
		weight += v.Candidates[i].Weight / speed(v, &v.Candidates[i])
	}
	return float64(p.cfg.FairShare*float64(requests)) / weight
}

// over reports whether one more request would be more than an endpoint's fair share and a few.
func over(v *pick.View, c *pick.Candidate, limit float64) bool {
	n := c.Load.Requests + 1
	return float64(n) > float64(limit*c.Weight)/speed(v, c)+freeShare
}

// speed is the time for a token of a prompt by which endpoints have their shares, never 0. How fast KV cache comes to a decoder says nothing of
// how much it can answer: those have even shares.
func speed(v *pick.View, c *pick.Candidate) float64 {
	if v.Leg == fleet.LegDecode {
		return 1
	}
	return max(c.MsPerToken, 1e-6)
}

// nearest picks, among those that cost about as little as the best, the first in rendezvous order of the conversation, so that
// several routers tend to agree.
func (p *leastTTFT) nearest(v *pick.View, bestCost, limit float64) (index, near int) {
	index = pick.Nobody
	inOrder := byhash.OrderFor(v)
	var first byhash.Place
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if over(v, c, limit) || c.Terms.Cost()-bestCost > nearMs {
			continue
		}
		near++
		if at := inOrder.Of(c); index == pick.Nobody || at.Before(first) {
			index, first = i, at
		}
	}
	return index, near
}

// give counts a first turn.
func (p *leastTTFT) give(v *pick.View, i int) {
	p.given.Each(func(g *given) { g.count -= g.count / float64(remembered*len(v.Candidates)) })
	c := &v.Candidates[i]
	p.given.At(c.Slot, c.Key).count++
}
