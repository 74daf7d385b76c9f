package cache

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/session"
)

// grain learns the unit in tokens in which an engine finds prompts again. That of models with attention alone is a
// block. Models that also keep a state for a whole prefix (Mamba, linear attention) find again only prefixes of some
// hundreds or thousands of tokens: vLLM's block for them has as many tokens as fill what the state takes, and its
// metrics tell that or the smaller block of the attention kernels. What is left of the last whole unit is computed
// anew, and a prompt shorter than one unit is never found.
type grain struct {
	unit int // greatest common divisor of all that was found; 0 before anything was
	fits int // answers since unit changed that it explains and the stated block does not, up to fit.Enough
}

// usualBlock is the most tokens of a block of models with attention alone, where none is stated. Less than it teaches
// nothing.
const usualBlock = 64

// learn takes in how many tokens an answer found of those predicted. block is the tokens of one as the engine states
// them, 0 for unknown.
func (g *grain) learn(predicted, found, block int) {
	if found > 0 {
		if unit := divisor(g.unit, found); unit != g.unit {
			g.unit, g.fits = unit, 0
		}
	}
	if g.unit > usualBlock && predicted-found >= usualBlock+2*block && predicted-predicted%g.unit == found {
		g.fits = min(g.fits+1, fit.Enough)
	}
}

// block is the unit to predict by: the stated block, or the learnt unit if that is larger and sure.
func (g *grain) block(stated int) int {
	if g.fits == fit.Enough {
		return max(g.unit, stated)
	}
	return stated
}

// slack is how many tokens at the ends of prompts may be found or not, whatever is there: two units, of 16 tokens at
// least, as most engines have them.
func (g *grain) slack(stated int) int { return 2 * max(g.block(stated), 16) }

// divisor is the greatest common divisor of two numbers, of which not both are 0.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// AnswerReuse estimates, for one model, how much of its previous answer a conversation finds cached. Not all of it:
// clients drop reasoning or rewrite what they got, and some engines cache prompts only. The zero value assumes all.
type AnswerReuse struct {
	Missing fit.Mean // mean share of an answer's tokens that is not found
	Seen    int      // its samples
}

// Kept is the tokens of a conversation's last prompt and answer that are expected in its next prompt.
func (a *AnswerReuse) Kept(e *session.Entry) int {
	if said := e.Tokens - e.Prompt; e.Prompt > 0 && said > 0 {
		return e.Tokens - int(float64(float64(a.Missing)*float64(said)))
	}
	return e.Tokens
}

// learnAnswer learns how much of the previous answer was cached, unless not even the prompt before it was. slack is
// the grain's.
func (l *lease) learnAnswer(a *AnswerReuse, slack int, u *fleet.Usage) {
	if l.answer < max(usualBlock, 2*slack) || u.PromptTokens < l.base+slack || u.CachedTokens+slack < l.base {
		return
	}
	found := float64(min(max(u.CachedTokens-l.base, 0), l.answer))
	a.Missing.Move(max(fit.Usual, 1/float64(a.Seen+fit.Enough+1)), 1-found/float64(l.answer))
	a.Seen++
}

// overprediction estimates the share of the predicted cached tokens that a full cache turns out not to hold. A whole
// request whose long prompt is wrongly expected to be cached delays all requests decoding there; a split one delays
// only itself.
type overprediction struct {
	missing, n fit.Sum // of missing shares and of samples
}

// learnOverprediction compares a prompt's predicted cached tokens with those reported.
func (e *endpoint) learnOverprediction(l *lease, u *fleet.Usage) {
	if l.leg == fleet.LegDecode || !u.CachedKnown || l.cachedTokens < usualBlock || l.epoch != e.epoch {
		return
	}
	g, predicted := &e.overprediction, float64(l.cachedTokens)
	share := max(0, predicted-float64(u.CachedTokens)) / predicted
	g.missing.Add(1-fit.Usual, 1, share)
	g.n.Add(1-fit.Usual, 1, 1)
}

// expectedMiss is the expected number of cached tokens that must be computed all the same.
func (e *endpoint) expectedMiss(h *pick.Cached, cached int) float64 {
	if !h.Full {
		return 0 // nothing has been evicted
	}
	if n := e.facts.CacheTokens; n > 0 && float64(h.Resident) >= float64(float64(n)*max(1, e.capacity.share)) {
		return float64(cached) // requests wait for memory, so every unused block is evicted
	}
	return float64(float64(cached)*float64(e.overprediction.missing)) / (float64(e.overprediction.n) + fit.Enough)
}
