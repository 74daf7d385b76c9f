package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// preble is the E2 rule of Preble (V. Srivatsa and others, ICLR 2025, arXiv 2407.00023, section 3.2; WukLab/preble).
//
// If more of the prompt is cached somewhere than remains to be computed, it exploits: of the endpoints with the longest
// match it picks the least loaded; but if that is the most loaded of all, with more than 1.5 times the load of the
// least loaded one, it picks the latter. Otherwise it explores: the smallest of
//
//	load + eviction + prefill
//
// load is the work sent to the endpoint in the last three minutes: the time to compute each request's uncached prompt
// and to generate its answer. prefill is the time to compute this one's. eviction is the time to recompute what it
// evicts, times the probability that it is requested again. Ties are drawn.
//
// The original fits both times offline for one GPU and model; here the router's learnt speeds replace them. Its local
// schedulers report evictions; here Candidate.CachedTokens replaces its tree, and the probability of a request for what
// a full cache evicts is View.Missed.
//
// Differences: a prefix whose queue doubles is not replicated at once, requests that only decode are not treated
// separately, and engines queue by their own rules.
type preble struct {
	pick.Plain
	load sent.Window
	// least learnt time per answer token of any endpoint, since profiles are taken of idle ones; 0 unknown
	msAnswer float64
}

const (
	prebleWindowSeconds = 180
	prebleImbalance     = 1.5
)

// NewPreble makes the policy preble.e2.
func NewPreble() pick.Policy {
	return &preble{
		Plain: pick.Plain{Name: "preble.e2", Exact: true, Content: true},
		load:  sent.Window{Seconds: prebleWindowSeconds},
	}
}

// Pick implements pick.Policy.
func (p *preble) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	known := 0
	for i := range v.Candidates {
		known = max(known, v.Candidates[i].CachedTokens)
	}
	if known > v.PromptTokens-known {
		return pick.Choice{Index: p.exploit(v, known), Reason: reasons.CacheMatch}
	}
	return pick.Choice{
		Index:  fair.Lowest(v, func(c *pick.Candidate) float64 { return p.cost(v, c) }),
		Reason: reasons.Load,
	}
}

// Hooks implements pick.Policy.
func (p *preble) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *preble) placed(v *pick.View, _ *fleet.Request, choice pick.Choice) {
	for i := range v.Candidates {
		if ms := v.Candidates[i].MsPerAnswer; ms > 0 && (p.msAnswer == 0 || ms < p.msAnswer) {
			p.msAnswer = ms
		}
	}
	p.load.Advance(v.Candidates, v.Now)
	c := &v.Candidates[choice.Index]
	p.load.Add(c, v.Now, prefillMs(v, c)+float64(float64(v.OutputTokens)*p.msAnswer))
}

// exploit is the least loaded of the endpoints that have this many tokens of the prompt cached.
func (p *preble) exploit(v *pick.View, known int) int {
	cs := v.Candidates
	at, lightest, heaviest := pick.None, 0, 0
	for i := range cs {
		load := p.load.Of(&cs[i], v.Now)
		if cs[i].CachedTokens == known && (at == pick.None || load < p.load.Of(&cs[at], v.Now)) {
			at = i
		}
		if load < p.load.Of(&cs[lightest], v.Now) {
			lightest = i
		}
		if load > p.load.Of(&cs[heaviest], v.Now) {
			heaviest = i
		}
	}
	most := p.load.Of(&cs[heaviest], v.Now)
	if p.load.Of(&cs[at], v.Now) == most && most > float64(prebleImbalance*p.load.Of(&cs[lightest], v.Now)) {
		return lightest
	}
	return at
}

func (p *preble) cost(v *pick.View, c *pick.Candidate) float64 {
	cost := p.load.Of(c, v.Now) + prefillMs(v, c)
	if c.Full {
		cost += float64(prefillMs(v, c) * v.Missed)
	}
	return cost
}

// prefillMs is the time to compute the part of the prompt that a candidate has not cached.
func prefillMs(v *pick.View, c *pick.Candidate) float64 {
	return float64(uncached(v, c) * v.PerToken(c))
}
