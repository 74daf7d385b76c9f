package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/conversation"
)

// mostKept is how many candidates the story of a decision keeps: the chosen one, then the others that cost least.
const mostKept = 16

// story is what a flight keeps so that its decision can be explained when it has ended.
type story struct {
	candidates []pick.Candidate // the chosen one first, then the best others by cost
	home       string           // the conversation's endpoint before the decision, "" when there was none
}

// reckoned is the predicted time to first token of a candidate in ms, 0 when there is nothing to go by. A policy that does
// not reckon in time leaves the terms empty, and so does a choice that no policy had to make: they are filled in with
// what the request itself would wait, without what the placement costs others.
func reckoned(req *fleet.Request, v *pick.View, index int) float64 {
	if req.Class != fleet.Turn || v.PromptTokens == 0 {
		return 0
	}
	c := &v.Candidates[index]
	if c.Terms == (pick.Terms{}) {
		prefill := float64(max(0, v.PromptTokens-c.CachedTokens))
		c.Terms = pick.Terms{Wait: c.WaitMs, Prefill: float64(prefill * c.MsPerToken), Fixed: c.FixedMs}
		if v.Leg == fleet.LegDecode {
			c.Terms.Transfer, c.Terms.Prefill = c.Terms.Prefill, 0
		}
	}
	return c.Terms.TTFT()
}

// tell keeps what a decision was made of, for its end. It is in the flight's own memory, used again by the next one.
func (r *Router) tell(req *fleet.Request, v *pick.View, l fleet.Lease, t *conversation.Found, chosen int) {
	if !r.cfg.Explain {
		return
	}
	f := r.flight(l)
	f.story.home = ""
	if t.Known {
		f.story.home = t.Entry.Endpoint
	}
	var best [mostKept - 1]int
	n := 0
	for i := range v.Candidates {
		reckoned(req, v, i)
		if i == chosen {
			continue
		}
		cost := v.Candidates[i].Terms.Cost()
		at := n
		for at > 0 && v.Candidates[best[at-1]].Terms.Cost() > cost {
			at--
		}
		if at == len(best) {
			continue
		}
		n = min(n+1, len(best))
		copy(best[at+1:n], best[at:n-1])
		best[at] = i
	}
	kept := append(f.story.candidates[:0], v.Candidates[chosen])
	for _, i := range best[:n] {
		kept = append(kept, v.Candidates[i])
	}
	f.story.candidates = kept
}

// retell moves a flight's story into what its end tells. The flight gets the memory of the one that ended before it.
func (r *Router) retell(e *Ended, f *flight, stream bool, free []pick.Candidate) {
	e.Stream, e.Home, e.Candidates = stream, f.story.home, f.story.candidates
	f.story = story{candidates: free[:0]}
}

// TTFT is the time from the decision to the first data of the answer. ok is false when there was none, and when it says
// nothing about the prompt: an answer that is not streamed begins when all of it is computed.
func (e *Ended) TTFT() (d time.Duration, ok bool) {
	if !e.Stream || e.FirstByte.IsZero() || e.Class != fleet.Turn {
		return 0, false
	}
	return max(0, e.FirstByte.Sub(e.Routed)), true
}

// Regret is how much later the first token came, in ms, than it was predicted at the best of the other candidates; 0 when it
// came sooner. ok is false when that cannot be told: no first token was seen, there was no other candidate, or the
// router keeps no candidates (Config.Explain).
func (e *Ended) Regret() (regret float64, ok bool) {
	took, ok := e.TTFT()
	if !ok || len(e.Candidates) < 2 || e.Decision.TTFTMs == 0 {
		return 0, false
	}
	best := e.Candidates[1].Terms.TTFT()
	for i := 2; i < len(e.Candidates); i++ {
		best = min(best, e.Candidates[i].Terms.TTFT())
	}
	if e.Decision.Leg == fleet.LegDecode { // of which the candidates' terms say what comes after the prompt
		best += max(0, e.Decision.TTFTMs-e.Candidates[0].Terms.TTFT())
	}
	return max(0, ms(took)-best), true
}
