package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// llmd is llm-d's endpoint picker without any configuration (llm-d-inference-scheduler, 2026; weights of Gateway API
// Inference Extension 1827):
//
//	score = 2 queue + 2 KV cache + 3 prefix
//
// queue is (most waiting - waiting)/(most - fewest), 1 for all when they are equal; KV cache is 1 - usage; prefix is
// the share of the prompt's blocks that the endpoint was sent, in blocks of 64 tokens at 4 bytes each including the
// incomplete last one, of at most 2,048 blocks. The largest score is picked, ties at random. The prompt is recorded for
// the endpoint picked, in an LRU of the capacity that the engine reports, else of 31,250 blocks.
//
// Waiting and usage come from the engine's latest report. Without one they come from the router's own accounts:
// requests beyond the endpoint's slots, and the share of its cache taken by outstanding requests.
//
// Differences: the original's reports are 50 ms old; ours are as old as the probe's period. The original counts an
// endpoint that has a later block without an earlier one.
type llmd struct {
	pick.Plain
	tree sent.Tree
}

const (
	llmdQueue       = 2.0
	llmdKVCache     = 2.0
	llmdPrefix      = 3.0
	llmdBlockTokens = 64
	llmdBlockBytes  = llmdBlockTokens * content.BytesPerToken
	llmdMostBlocks  = 2048
	llmdCapacity    = 31_250 * llmdBlockBytes / fleet.BlockBytes
)

// NewLLMD makes the policy llmd.default.
func NewLLMD() pick.Policy {
	return &llmd{Plain: pick.Plain{Name: "llmd.default", Exact: true, Content: true}, tree: sent.NewTree(llmdCapacity)}
}

// Pick implements pick.Policy.
func (p *llmd) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	const per = llmdBlockBytes / fleet.BlockBytes
	cs := v.Candidates
	p.tree.Match(cs, blocksOf(r))
	fewest, most := waiting(&cs[0]), waiting(&cs[0])
	for i := range cs {
		fewest, most = min(fewest, waiting(&cs[i])), max(most, waiting(&cs[i]))
	}
	blocks := min((content.Bytes(r)+llmdBlockBytes-1)/llmdBlockBytes, llmdMostBlocks)
	at := fair.Lowest(v, func(c *pick.Candidate) float64 {
		queue, prefix := 1.0, 0.0
		if most > fewest {
			queue = float64(most-waiting(c)) / float64(most-fewest)
		}
		if blocks > 0 {
			prefix = float64(p.tree.Depth(c)/per) / float64(blocks)
		}
		score := float64(llmdQueue*queue) + float64(llmdKVCache*(1-cacheUsage(c)))
		return -(score + float64(llmdPrefix*prefix))
	})
	return pick.Choice{Index: at, Reason: reasons.Score}
}

// Hooks implements pick.Policy.
func (p *llmd) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *llmd) placed(v *pick.View, r *fleet.Request, choice pick.Choice) {
	p.tree.Enter(v.Candidates)
	c := &v.Candidates[choice.Index]
	if n := int(c.CacheTokens * content.BytesPerToken / fleet.BlockBytes); n > 0 {
		p.tree.Bound(c, n)
	}
	p.tree.Sent(c, blocksOf(r))
}

// blocksOf is the part of a request's prompt that counts.
func blocksOf(r *fleet.Request) []uint64 {
	chain := content.Blocks(r)
	return chain[:min(len(chain), llmdMostBlocks*llmdBlockBytes/fleet.BlockBytes)]
}

// waiting is the number of requests waiting in the engine.
func waiting(c *pick.Candidate) int {
	if c.Load.EngineWaiting == 0 && c.KVUsage < 0 && c.Places > 0 {
		return max(0, c.Load.Working()-c.Places)
	}
	return c.Load.EngineWaiting
}

// cacheUsage is the share of an engine's cache used by running requests, 0 to 1.
func cacheUsage(c *pick.Candidate) float64 {
	switch {
	case c.KVUsage >= 0:
		return min(c.KVUsage, 1)
	case c.CacheTokens > 0:
		return min(float64(c.Load.ContextTokens)/float64(c.CacheTokens), 1)
	}
	return 0
}
