package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// The routers of TensorRT-LLM's orchestrator (NVIDIA/TensorRT-LLM, tensorrt_llm/serve/router.py; PR 12526 and what followed in 2026), under
// the names, parameters and defaults published there. Like other rivals they know no weights. Common to them:
//
//   - A server is a candidate: one that is excluded, down or draining is not in the list that is counted through.
//   - Loads are the router's books, reserved inside the decision; where the original reads them before it takes its lock,
//     two decisions at once can see the same load.
//   - A request is weighed, hashed and reserved whatever its API; the original refuses chat in places.

// trtTies is how these routers choose among equals: a counter that moves on with every decision, tied or not, names one of them in
// order of declaration.
type trtTies struct{ counter uint64 }

// least picks the candidate with the smallest figure.
func (t *trtTies) least(cs []pick.Candidate, of func(c *pick.Candidate) float64) int {
	best, tied := 0.0, uint64(0)
	for i := range cs {
		switch f := of(&cs[i]); {
		case tied == 0 || f < best:
			best, tied = f, 1
		case f == best:
			tied++
		}
	}
	nth := t.counter % max(tied, 1)
	t.counter++
	for i := range cs {
		if of(&cs[i]) != best {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	return 0 // not reached: one of them has the smallest
}

// trtRoundRobin is round_robin: servers[counter mod n], then the counter moves on. It is not reset when servers come and go.
type trtRoundRobin struct{ counter uint64 }

func newTRTRoundRobin() pick.Policy { return &trtRoundRobin{} }

// Pick implements route.Policy.
func (p *trtRoundRobin) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := int(p.counter % uint64(len(v.Candidates)))
	p.counter++
	return pick.Choice{Index: at, Reason: ReasonRoundRobin}
}

// trtLoadBalancing is load_balancing: the least loaded, by active requests or, with use_tokens, by the tokens of their prompts.
//
// Differences: tokens are the router's estimate for any request. The original counts a text's characters as its tokens, and
// answers an error to chat requests and on the generation side.
type trtLoadBalancing struct {
	tokens bool
	ties   trtTies
}

func newTRTLoadBalancing(c TRTLoadBalancingConfig) pick.Policy {
	return &trtLoadBalancing{tokens: c.UseTokens}
}

// Pick implements route.Policy.
func (p *trtLoadBalancing) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := p.ties.least(v.Candidates, func(c *pick.Candidate) float64 {
		if p.tokens {
			return float64(c.Load.ContextTokens - c.Load.DecodeTokens)
		}
		return outstanding(c)
	})
	return pick.Choice{Index: at, Reason: ReasonLoad}
}

// hashText is FNV-1a, 0 for no text.
func hashText(s string) uint64 {
	if s == "" {
		return 0
	}
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
