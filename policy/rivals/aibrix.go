package rivals

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// aibrix is AIBrix's prefix-cache (vllm-project/aibrix 0.7, e3e10f9, pkg/plugins/gateway/algorithms/prefix_cache.go),
// with blocks of 128 bytes as in its manifests and otherwise the defaults of its code.
//
// If most - fewest requests is above 8, only the least loaded endpoints are considered. Each endpoint has a match: the
// percentage of the prompt's whole blocks that it was sent, as a whole number. In order of match, then of requests,
// then at random, the first endpoint with at most mean + 1 standard deviation of requests is picked; without one the
// least loaded, ties at random. The prompt is recorded for the endpoint picked.
//
// Differences: its 200,000 blocks are one LRU for the gateway, here each endpoint has an equal share; blocks idle for
// 20 minutes are not dropped.
type aibrix struct {
	pick.Plain
	tree sent.Tree
}

const (
	aibrixBlocks    = 200_000
	aibrixImbalance = 8
	aibrixDeviation = 1
)

// NewAIBrix makes the policy aibrix.prefix_cache.
func NewAIBrix() pick.Policy {
	return &aibrix{
		Plain: pick.Plain{Name: "aibrix.prefix_cache", Exact: true, Content: true},
		tree:  sent.NewTree(aibrixBlocks),
	}
}

// Pick implements pick.Policy.
func (p *aibrix) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs, chain := v.Candidates, content.Blocks(r)
	p.tree.Match(cs, chain)
	fewest, most, total := fair.Spread(cs)
	limit := loadLimit(cs, total)
	at, equals, reason := pick.None, 0, reasons.CacheMatch
	for i := range cs {
		c := &cs[i]
		if most-fewest > aibrixImbalance && c.Load.Requests > fewest || p.tree.Depth(c) == 0 ||
			fair.Outstanding(c) > limit {
			continue
		}
		switch p.compare(c, cs, at, len(chain)) {
		case -1:
			at, equals = i, 1
		case 0:
			if equals++; v.Rand.IntN(equals) == 0 {
				at = i
			}
		}
	}
	if at == pick.None {
		at, reason = fair.Lowest(v, fair.Outstanding), reasons.Load
	}
	return pick.Choice{Index: at, Reason: reason}
}

// Hooks implements pick.Policy.
func (p *aibrix) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *aibrix) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	p.tree.Share(v.Candidates, aibrixBlocks)
	p.tree.Enter(v.Candidates)
	p.tree.Sent(&v.Candidates[c.Index], content.Blocks(r))
}

// compare is -1 when a precedes the candidate at index at, 0 when they are equal.
func (p *aibrix) compare(a *pick.Candidate, cs []pick.Candidate, at, blocks int) int {
	if at == pick.None {
		return -1
	}
	b := &cs[at]
	// Percentages are whole numbers, so that small differences of a long prompt do not count.
	pa, pb := p.tree.Depth(a)*100/blocks, p.tree.Depth(b)*100/blocks
	switch {
	case pa > pb || pa == pb && a.Load.Requests < b.Load.Requests:
		return -1
	case pa == pb && a.Load.Requests == b.Load.Requests:
		return 0
	}
	return 1
}

// loadLimit is the mean of the outstanding requests plus one standard deviation.
func loadLimit(cs []pick.Candidate, total int) float64 {
	mean := float64(total) / float64(len(cs))
	squares := 0.0
	for i := range cs {
		d := fair.Outstanding(&cs[i]) - mean
		squares += float64(d * d)
	}
	return mean + float64(aibrixDeviation*math.Sqrt(squares/float64(len(cs))))
}
