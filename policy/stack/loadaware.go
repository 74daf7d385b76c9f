package stack

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// loadAware is production-stack's routing logic loadaware (vllm-project/production-stack, PR 1035, 2026):
//
//	score = min(matched, prompt)/prompt - 1.0 * (load - mean load)/max(1, mean load)
//
// in tokens and outstanding requests; the largest score is picked, the first by name of ties. If no endpoint has any of
// the prompt it falls back to kvaware's rule: by the session on a hash ring, and without a session the endpoint that
// was sent fewest requests in the last minute. It asks LMCache's controller for cache contents; here these are
// Candidate.CachedTokens.
type loadAware struct {
	pick.Plain
	ring byhash.Ring
	sent sent.Window
}

const (
	ringPlaces    = 160 // uhashring's default, 40 groups of 4
	windowSeconds = 60  // --request-stats-window
	beta          = 1.0 // --loadaware-beta
)

// NewLoadAware makes the policy stack.loadaware.
func NewLoadAware() pick.Policy {
	return &loadAware{
		Plain: pick.Plain{Name: "stack.loadaware", Exact: true, Content: true},
		ring:  byhash.Ring{Places: ringPlaces},
		sent:  sent.Window{Seconds: windowSeconds},
	}
}

// Hooks implements pick.Policy.
func (p *loadAware) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *loadAware) placed(v *pick.View, _ *fleet.Request, c pick.Choice) {
	p.sent.Advance(v.Candidates, v.Now)
	p.sent.Add(&v.Candidates[c.Index], v.Now, 1)
}

// Pick implements pick.Policy.
func (p *loadAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, known := v.Candidates, false
	for i := range cs {
		known = known || cs[i].CachedTokens > 0
	}
	switch {
	case !known && r.Session != "":
		p.ring.Fit(cs)
		return pick.Choice{Index: p.ring.At(v.Hash, pick.None), Reason: reasons.Hash}
	case !known:
		at := 0
		for i := range cs {
			if p.sent.Of(&cs[i], v.Now) < p.sent.Of(&cs[at], v.Now) {
				at = i
			}
		}
		return pick.Choice{Index: at, Reason: reasons.Load}
	}
	_, _, total := fair.Spread(cs)
	mean := float64(total) / float64(len(cs))
	at, best := pick.None, 0.0
	for i := range cs {
		c := &cs[i]
		benefit := float64(min(c.CachedTokens, v.PromptTokens)) / float64(max(v.PromptTokens, 1))
		score := benefit - float64(beta*((fair.Outstanding(c)-mean)/max(1, mean)))
		if at == pick.None || score > best || score == best && c.Name < cs[at].Name {
			at, best = i, score
		}
	}
	return pick.Choice{Index: at, Reason: reasons.Score}
}
