// Package trtllm has the routers of TensorRT-LLM's orchestrator (NVIDIA/TensorRT-LLM, tensorrt_llm/serve/router.py; PR
// 12526 and its successors in 2026) with their published names, parameters and defaults. They ignore weights. Common to
// all:
//
//   - A server is a candidate: one that is excluded, down or draining is not in the list that the counter indexes.
//   - Loads are the router's own count, reserved in the decision; the original reads them before it takes its lock, so
//     two concurrent decisions can see the same load.
//   - A request is weighed, hashed and reserved whatever its API; the original rejects chat in places.
package trtllm

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// ties is how these routers break ties: a counter, advanced by every decision, indexes the tied servers in order of
// declaration.
type ties struct{ counter uint64 }

// advance counts a decision.
func (t *ties) advance() { t.counter++ }

// least is the index of the candidate with the smallest figure.
func (t *ties) least(cs []pick.Candidate, of func(i int) float64) int {
	best, tied := 0.0, uint64(0)
	for i := range cs {
		switch f := of(i); {
		case tied == 0 || f < best:
			best, tied = f, 1
		case f == best:
			tied++
		}
	}
	nth := t.counter % max(tied, 1)
	for i := range cs {
		if of(i) != best {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	return 0 // not reached: one of them has the smallest
}

// roundRobin is round_robin: servers[counter mod n], then the counter advances. It is not reset when servers join or
// leave.
type roundRobin struct {
	pick.Plain
	counter uint64
}

// NewRoundRobin makes the policy trtllm.round_robin.
func NewRoundRobin() pick.Policy {
	return &roundRobin{Plain: pick.Plain{Name: "trtllm.round_robin", Exact: true, WhenOnly: true}}
}

// Pick implements pick.Policy.
func (p *roundRobin) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: int(p.counter % uint64(len(v.Candidates))), Reason: reasons.RoundRobin}
}

// Hooks implements pick.Policy.
func (p *roundRobin) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *roundRobin) placed(*pick.View, *fleet.Request, pick.Choice) { p.counter++ }

// loadBalancing is load_balancing: the least loaded, by active requests or, with use_tokens, by their prompt tokens.
//
// Differences: tokens are the router's estimate for every request. The original counts a text's characters as tokens,
// and returns an error for chat requests and on the generation side.
type loadBalancing struct {
	pick.Plain
	tokens bool
	ties   ties
}

// NewLoadBalancing makes trtllm.load_balancing. The configuration must have its defaults.
func NewLoadBalancing(c LoadBalancingConfig) pick.Policy {
	return &loadBalancing{
		Plain:  pick.Plain{Name: "trtllm.load_balancing", Exact: true, WhenOnly: true},
		tokens: c.UseTokens,
	}
}

// Pick implements pick.Policy.
func (p *loadBalancing) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	at := p.ties.least(v.Candidates, func(i int) float64 {
		c := &v.Candidates[i]
		if p.tokens {
			return float64(c.Load.ContextTokens - c.Load.DecodeTokens)
		}
		return fair.Outstanding(c)
	})
	return pick.Choice{Index: at, Reason: reasons.Load}
}

// Hooks implements pick.Policy.
func (p *loadBalancing) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *loadBalancing) placed(*pick.View, *fleet.Request, pick.Choice) { p.ties.advance() }
