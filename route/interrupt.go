package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
)

// interruptions is what is learnt of how often the answers of a fleet without roles are interrupted by prompts that are computed beside
// them, and what an answer's wait for such prompts is to count for. Answers that gather at few endpoints are hardly interrupted, but each
// of them takes longer there, and those endpoints are missed for prompts. That is worth it as far as interruptions are seen: to whom one
// token in a thousand comes late, none does. So waits count for more as long as more tokens come late than may, and for less while fewer do.
type interruptions struct {
	late, tokens float64 // tokens that came late, and all, of the latest answers, older ones weighing less
	weight       float64 // what an answer's wait for prompts counts for; 0 before the first answer has ended
}

const (
	lateShare   = 0.008        // tokens that may come late: fewer than one in a hundred, so that the p99 between tokens is that of none
	keepLate    = 1 - 1.0/3000 // share of both sums that is kept with each answer: what matters is that few come late in all
	lateStep    = 0.02         // share by which an answer moves the weight at most
	leastWeight = 0.25         // interruptions that nobody sees take time all the same
	mostWeight  = 2.5          // beyond that roles do not become any clearer, and first tokens are late
	firstWeight = mostWeight   // roles that are not needed are given up sooner than they come about
	promptShare = 0.25         // what those who are answered wait for a prompt counts for; most of it they were charged for when they came
	stepLeast   = 2048         // tokens of prompts that an engine computes in one step at least: vLLM's default max_num_batched_tokens when it serves, on other GPUs than those of stepTokens
)

// of is what an answer's wait for prompts counts for.
func (s *interruptions) of() float64 {
	if s.weight == 0 {
		return firstWeight
	}
	return s.weight
}

// learnInterruptions takes in that a request has ended. Each step that had a part of its prompt made everybody wait who was answered there;
// a prompt that took no longer than a token does was not noticed.
func (r *Router) learnInterruptions(j *backlog.Job, u *fleet.Usage) {
	s := &r.late
	if r.cfg.Disaggregation.When != WhenFree || j.Class != fleet.Turn {
		return
	}
	computed := j.Prefill
	if u.CachedKnown && j.Leg != fleet.LegDecode {
		computed = int64(max(0, u.PromptTokens-u.CachedTokens))
	}
	if token, _ := r.speed.Reader().Pace(j.Slot, j.Beside); float64(float64(computed)*j.MsPerToken) > token && j.Leg != fleet.LegDecode {
		s.late += float64(j.Beside) * float64((computed+stepLeast-1)/stepLeast)
	}
	if j.Leg == fleet.LegPrefill || u.OutputTokens < 2 {
		return
	}
	s.late, s.tokens = float64(s.late*keepLate), float64(s.tokens*keepLate)+float64(u.OutputTokens)
	over := min(s.late/float64(lateShare*s.tokens)-1, 1)
	s.weight = min(max(s.of()*(1+float64(lateStep*over)), leastWeight), mostWeight)
}
