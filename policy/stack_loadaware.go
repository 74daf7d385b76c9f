package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// stackLoadAware is production-stack's routing logic loadaware (vllm-project/production-stack, PR 1035, 2026):
//
//	score = min(matched, prompt)/prompt - 1.0 * (load - mean load)/max(1, mean load)
//
// in tokens and outstanding requests; the largest score is picked, the first by name among equals. Where nobody holds
// anything of the prompt it falls back to kvaware's way: by the session on a hash ring, and without a session the endpoint that
// was sent fewest requests in the last minute. It asks LMCache's controller what engines hold, so Candidate.CachedTokens takes
// the place of that.
type stackLoadAware struct {
	ring ring
	sent window
}

const (
	stackRingPlaces    = 160 // uhashring's default, 40 groups of 4
	stackWindowSeconds = 60  // --request-stats-window
	stackBeta          = 1.0 // --loadaware-beta
)

func newStackLoadAware() pick.Policy {
	return &stackLoadAware{ring: ring{places: stackRingPlaces}, sent: window{seconds: stackWindowSeconds}}
}

// Pick implements route.Policy.
func (p *stackLoadAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	c := p.pick(v, r)
	p.sent.add(&v.Candidates[c.Index], v.Now, 1)
	return c
}

func (p *stackLoadAware) pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, known := v.Candidates, false
	for i := range cs {
		known = known || cs[i].CachedTokens > 0
	}
	switch {
	case !known && r.Session != "":
		p.ring.fit(cs)
		return pick.Choice{Index: p.ring.at(v.Hash, pick.Nobody), Reason: ReasonHash}
	case !known:
		at := 0
		for i := range cs {
			if p.sent.of(&cs[i], v.Now) < p.sent.of(&cs[at], v.Now) {
				at = i
			}
		}
		return pick.Choice{Index: at, Reason: ReasonLoad}
	}
	_, _, total := spread(cs)
	mean := float64(total) / float64(len(cs))
	at, best := pick.Nobody, 0.0
	for i := range cs {
		c := &cs[i]
		benefit := float64(min(c.CachedTokens, v.PromptTokens)) / float64(max(v.PromptTokens, 1))
		score := benefit - float64(stackBeta*((outstanding(c)-mean)/max(1, mean)))
		if at == pick.Nobody || score > best || score == best && c.Name < cs[at].Name {
			at, best = i, score
		}
	}
	return pick.Choice{Index: at, Reason: ReasonScore}
}
