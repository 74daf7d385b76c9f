package drive

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// othersWait is the weight of the prefill time as a cost to others. Without it the oracle moves conversations so
// readily that their copies crowd the caches: for coding agents at load 0.7 the mean time to first token was 4.7 s;
// with weights 1, 3 and 7 it was 2.5, 1.9 and 2.1 s. For Mooncake's conversations it was 1.39, 1.31, 1.30 and 1.34 s.
const othersWait = 3

// OracleName is the name of the policy of Replay.Oracle.
const OracleName = "oracle"

// reasonOracle means that no endpoint would have given the first token sooner.
const reasonOracle pick.Reason = "oracle"

// oracle is a policy that only a simulation can have: it sees the engines' real caches and work, and places each turn
// where its first token comes soonest, with prefill time weighted by othersWait because others wait for it and it
// evicts their prefixes. It is greedy and does not know the future, so it is a reference, not a bound. Ties go to the
// engine with fewest jobs, then to the first.
type oracle struct {
	pick.Plain
	player *player
	now    int64
	turn   int // the one to be placed
	left   []int
}

// policy is the common oracle of all routers, which decide one after another.
func (o *oracle) policy() pick.Policy { return o }

// Pick implements pick.Policy.
func (o *oracle) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	p, t := o.player, &o.player.Trace.Turns[o.turn]
	best, block := -1, 0
	var soonest time.Duration
	var fewest int
	for i := range v.Candidates {
		at := p.index[v.Candidates[i].Name]
		e := p.engines[at]
		if b := p.Fleet.Endpoints[at].Engine.BlockTokens; b != block {
			block = b
			p.other = p.Trace.Blocks(p.other, o.turn, block)
		}
		remains := e.Remains(p.other[:min((t.Prompt-1)/block, len(p.other))], t.Prompt)
		running, waiting := e.Load()
		soon, jobs := o.cost(at, remains), running+waiting
		if p.down[at] {
			soon += noticed
		}
		if best < 0 || soon < soonest || soon == soonest && jobs < fewest {
			best, soonest, fewest = i, soon, jobs
		}
	}
	return pick.Choice{Index: best, Reason: reasonOracle}
}

// cost is the time an engine needs for this many new prompt tokens after its present work (the current step, the
// prompts in front, a free slot), and the cost of that to others.
func (o *oracle) cost(at, tokens int) time.Duration {
	p := o.player
	e := p.engines[at]
	var wait time.Duration
	front := p.owed[at]
	if end, busy := e.Next(); busy {
		wait = max(0, end.Sub(p.at(o.now)))
	}
	left, computed := e.Progress(o.left[:0])
	o.left = left
	front = max(0, front-computed)
	c := &p.Fleet.Endpoints[at].Engine
	running, waiting := e.Load()
	step := c.StepBase + time.Duration(running+1)*c.StepPerSeq
	compute := func(tokens int64) time.Duration {
		steps := (tokens + int64(c.ChunkTokens) - 1) / int64(c.ChunkTokens)
		return time.Duration(steps)*step + time.Duration(float64(tokens)/c.PrefillTokensPerSecond*1e9)
	}
	slot := time.Duration(0)
	if ahead := running + waiting - c.Slots; ahead >= 0 && len(o.left) > 0 {
		slices.Sort(o.left) // the shortest answers end first
		last := o.left[min(ahead, len(o.left)-1)]
		slot = time.Duration(last*(1+ahead/len(o.left))) * step
	}
	return max(wait+compute(front), slot) + (1+othersWait)*compute(int64(tokens))
}
