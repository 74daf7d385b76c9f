package rank

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
)

// fewestTokens is TensorRT-LLM's default router: the longest prompt first, each to the rank with fewest prompt tokens
// (then fewest requests, then the first) among those below a fair share of requests. Tokens are all prompt tokens of
// active requests, cached or not. A request that asks for a rank counts there at once; its tokens count from the next
// batch on.
//
// Difference: a batch that does not fit leaves the rest unplaced; the original fails.
type fewestTokens struct{ dealing }

// NewDefault makes rank.default. The configuration must have its defaults.
func NewDefault(c Config) pick.Policy {
	return &adapter{
		Plain: pick.Plain{Name: "rank.default", Exact: true},
		most:  c.MaxActive, router: &fewestTokens{}, tokens: promptTokens, transfers: c.InTransfer,
	}
}

// keep implements router: there is nothing to remember.
func (p *fewestTokens) keep() {}

// Place implements router.
func (p *fewestTokens) Place(ranks []dpRank, batch []request) (to []int, expected int) {
	p.begin(ranks, batch, func(at int, _ *request) { ranks[at].Requests++ })
	expected = expectedOf(ranks, len(p.pool), 1)
	slices.SortStableFunc(p.pool, func(a, b int) int { return cmp.Compare(batch[b].Tokens, batch[a].Tokens) })
	for _, i := range p.pool {
		at := pick.None
		for n := range ranks {
			if ranks[n].below(expected) && (at == pick.None || cmp.Or(
				cmp.Compare(ranks[n].Tokens, ranks[at].Tokens),
				cmp.Compare(ranks[n].Requests, ranks[at].Requests)) < 0) {
				at = n
			}
		}
		if at == pick.None {
			break
		}
		p.to[i], p.why = at, reasons.Load
		ranks[at].Requests++
		ranks[at].Tokens += int64(batch[i].Tokens)
	}
	return p.to, atLeast(ranks, expected)
}
