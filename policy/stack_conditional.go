package policy

import (
	"unicode/utf8"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Conditional disaggregation of production-stack (vllm-project/production-stack, PR 890, as its description and thread have it): a
// prompt of so many estimated tokens or more goes through a prefill endpoint, a shorter one straight to a decode endpoint. Either is
// chosen among those of its role in turn, or by the load that engines report.

// StackAdvisedThreshold is the threshold that PR 890 advises for models of 70B; its default is 0, which splits always.
const StackAdvisedThreshold = 4096

// StackCharsPerToken is how many characters its estimate takes for a token.
const StackCharsPerToken = 4

// StackTokens estimates the tokens of a prompt: the length of a list of token ids, or a quarter of a text's characters, rounded down. Parts
// of a chat that are not text count for nothing. Characters are code points.
func StackTokens(characters, tokenIDs int) int {
	return max(0, tokenIDs) + max(0, characters)/StackCharsPerToken
}

// StackTextTokens is StackTokens of the texts of one prompt, which count together.
func StackTextTokens(texts ...string) int {
	n := 0
	for _, text := range texts {
		n += utf8.RuneCountInString(text)
	}
	return StackTokens(n, 0)
}

// StackRequestTokens is StackTokens of a request. What is not ASCII is converted from bytes by how many a character usually has: three of
// Chinese, Japanese and Korean, two of others.
func StackRequestTokens(r *fleet.Request) int {
	return StackTokens(characters(r.PromptBytes, r.Content), r.PromptTokens)
}

// StackSplits reports whether a prompt of so many tokens is disaggregated: from the threshold on, and not only beyond it. A threshold
// of 0 splits every request.
func StackSplits(tokens, threshold int) bool { return tokens >= threshold }

// characters is how many code points so many bytes of a prompt are.
func characters(bytes int, c *fleet.Content) int {
	if c == nil {
		return bytes
	}
	return max(0, bytes-c.Text.CJK*2/3-c.Text.Other/2)
}

// stackTurns is round_robin of PR 890: each of the candidates in turn, in order of declaration. The first turn is drawn, so that
// routers that start together do not go round in step.
type stackTurns struct {
	began bool
	next  uint32
}

func newStackRoundRobin(Config) pick.Policy { return &stackTurns{} }

// Pick implements route.Policy.
func (p *stackTurns) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: p.turn(v, len(v.Candidates)), Reason: ReasonRoundRobin}
}

// turn counts among so many.
func (p *stackTurns) turn(v *pick.View, among int) int {
	if !p.began {
		p.began, p.next = true, uint32(v.Rand.IntN(among))
	}
	at := int(p.next % uint32(among))
	p.next++
	return at
}

// stackLeastLoaded is least_loaded of PR 890: the candidate whose engine reports the fewest requests, running and queued together. While
// one of them reports nothing it goes by turns. Equals go by turns too: reports are seconds old, and between two of them the
// original sends everything to one endpoint.
type stackLeastLoaded struct{ turns stackTurns }

func newStackLeastLoaded(Config) pick.Policy { return &stackLeastLoaded{} }

// Pick implements route.Policy.
func (p *stackLeastLoaded) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs := v.Candidates
	fewest, equals := StackLeastLoaded(cs)
	if equals == 0 {
		return p.turns.Pick(v, r)
	}
	for i, turn := 0, p.turns.turn(v, equals); i < len(cs); i++ {
		if cs[i].Queue != fewest {
			continue
		}
		if turn == 0 {
			return pick.Choice{Index: i, Reason: ReasonLoad}
		}
		turn--
	}
	return p.turns.Pick(v, r) // not reached: one of them has the fewest
}

// StackLeastLoaded is the fewest requests that an engine of the candidates reports, running and queued together, and how many report
// that many; 0 of them when one of the candidates reports nothing, so that loads cannot be compared.
func StackLeastLoaded(cs []pick.Candidate) (fewest, equals int) {
	for i := range cs {
		switch n := cs[i].Queue; {
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
