// Package stack has the routing rules of vLLM's production-stack, and its estimate of a prompt's tokens.
//
// Each file names its source and the published defaults, and states differences from the original. The rules ignore
// weights, as the originals do.
package stack

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/reasons"
)

// Conditional disaggregation of production-stack (vllm-project/production-stack, PR 890, by its description and
// thread): a prompt with at least a threshold of estimated tokens goes through a prefill endpoint, a shorter one
// straight to a decode endpoint. Both are chosen among those of the role by round robin, or by the load that engines
// report.

// RequestTokens estimates the tokens of a prompt as production-stack does: the length of a list of token ids, or a
// quarter of a text's characters (code points), rounded down. If characters are not counted it uses the prompt's bytes,
// which include role names and tools.
func RequestTokens(r *fleet.Request) int {
	if r.Characters > 0 {
		return max(0, r.PromptTokens) + r.Characters/content.BytesPerToken
	}
	return max(0, r.PromptTokens) + max(0, content.Characters(r.PromptBytes, r.Content))/content.BytesPerToken
}

// turns is round_robin of PR 890: the candidates in order of declaration. The first turn is drawn, so that routers
// started together do not run in step.
type turns struct {
	pick.Plain
	began bool
	next  uint32
}

// NewRoundRobin makes the policy stack.round_robin.
func NewRoundRobin() pick.Policy {
	return &turns{Plain: pick.Plain{Name: "stack.round_robin", Exact: true}}
}

// Pick implements pick.Policy.
func (p *turns) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: int(p.turn(v, len(v.Candidates)) % uint32(len(v.Candidates))), Reason: reasons.RoundRobin}
}

// Hooks implements pick.Policy.
func (p *turns) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *turns) placed(v *pick.View, _ *fleet.Request, _ pick.Choice) {
	p.advance(v, len(v.Candidates))
}

// turn is the counter, which begins below among.
func (p *turns) turn(v *pick.View, among int) uint32 {
	if !p.began {
		return uint32(v.Rand.IntN(among))
	}
	return p.next
}

func (p *turns) advance(v *pick.View, among int) { p.began, p.next = true, p.turn(v, among)+1 }

// leastLoaded is least_loaded of PR 890: the candidate whose engine reports the fewest requests, running and queued. If
// one of them reports nothing, it uses round robin. Ties use round robin too: reports are seconds old, and the original
// sends everything to one endpoint until the next report.
type leastLoaded struct {
	pick.Plain
	turns turns
}

// NewLeastLoaded makes the policy stack.least_loaded.
func NewLeastLoaded() pick.Policy {
	return &leastLoaded{Plain: pick.Plain{Name: "stack.least_loaded", Exact: true}}
}

// Pick implements pick.Policy.
func (p *leastLoaded) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs := v.Candidates
	fewest, equals := fewestReported(cs)
	if equals == 0 {
		return p.turns.Pick(v, r)
	}
	for i, turn := 0, p.turns.turn(v, equals)%uint32(equals); i < len(cs); i++ {
		if cs[i].EngineRequests != fewest {
			continue
		}
		if turn == 0 {
			return pick.Choice{Index: i, Reason: reasons.Load}
		}
		turn--
	}
	return p.turns.Pick(v, r) // not reached: one has the fewest
}

// Hooks implements pick.Policy.
func (p *leastLoaded) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *leastLoaded) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	if _, equals := fewestReported(v.Candidates); equals > 0 {
		p.turns.advance(v, equals)
		return
	}
	p.turns.placed(v, r, c)
}

// fewestReported is the fewest requests reported by a candidate's engine, running and queued, and the number of
// candidates that report it; 0 of them if one reports nothing, since loads cannot be compared then.
func fewestReported(cs []pick.Candidate) (fewest, equals int) {
	for i := range cs {
		switch n := cs[i].EngineRequests; {
		case n < 0:
			return 0, 0
		case equals == 0 || n < fewest:
			fewest, equals = n, 1
		case n == fewest:
			equals++
		}
	}
	return fewest, equals
}
