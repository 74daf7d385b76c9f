package drive

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// othersWait is how many times the time to compute a prompt counts for others. Without it the oracle moves conversations so
// readily that their copies crowd the caches: on coding agents at a load of 0.7 the mean time to first token was 4.7 s, with
// 1, 3 and 7 it was 2.5, 1.9 and 2.1 s; on Mooncake's conversations 1.39, 1.31, 1.30 and 1.34 s.
const othersWait = 3

// OracleName is what the policy of Replay.Oracle is called.
const OracleName = "oracle"

// reasonOracle says that no endpoint would have given the first token sooner.
const reasonOracle pick.Reason = "oracle"

// oracle is a policy that only a simulation can have: it sees what the engines truly hold and have to do, and places each
// turn where its first token comes soonest, counting what it has to compute several times over, since others wait for that
// too and it pushes out what they hold. It is greedy and does not know what will come, so it is a reference and no bound.
// Of equals the one with fewest jobs is picked, then the first.
type oracle struct {
	player *player
	now    int64
	turn   int // that is being placed
	left   []int
}

// policy is the oracle as every router's policy; there is one oracle for all, since they ask one after another.
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

// cost is how long an engine takes for so many tokens of a new prompt after all that it has to do before, the step under way,
// the prompts in front, and until a slot is free; and what that costs others.
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
		slices.Sort(o.left) // who has least to say goes first
		last := o.left[min(ahead, len(o.left)-1)]
		slot = time.Duration(last*(1+ahead/len(o.left))) * step
	}
	return max(wait+compute(front), slot) + (1+othersWait)*compute(int64(tokens))
}
