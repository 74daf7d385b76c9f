package cache

import "github.com/warmpath/warmpath/fit"

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
