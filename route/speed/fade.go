package speed

import (
	"time"

	"github.com/warmpath/warmpath/pick"
)

// An endpoint that is thought slow is sent little, so that nothing shows that it has become quick: an engine that has just started compiles for its
// first prompts, a neighbour on the same machine goes away. With twenty times the time of the others it is tried only when twenty prompts wait
// elsewhere. Engines that serve one model together differ by a few times. So what an endpoint is thought to take above four times the quickest of its
// pool halves with each minute without an answer, from two minutes on. Nothing that was learnt is changed: one answer says how it is. That less
// than that fades too is no good: on a trace of agents whose engines have little to do, those three times as slow were tried again
// every few minutes, and p90 rose by a quarter.

const (
	fadeEvery = time.Minute
	fadeAfter = 2 * time.Minute
	fadeTo    = 4 // times as slow as the quickest
)

// fade brings the rows' times for a token nearer to the quickest one's, where nothing was computed of late.
func (r Reader) fade(v *pick.View, quickest float64) {
	believed := float64(fadeTo * quickest)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if c.MsPerToken <= believed || c.Load.Requests != 0 || c.Load.TransferRequests != 0 {
			continue
		}
		at := r.t.endpoints.Get(c.Slot).prefill.learntAt
		if at.IsZero() {
			continue
		}
		more := c.MsPerToken - believed
		for age := v.Now.Sub(at) - fadeAfter; age >= fadeEvery && more > quickest/64; age -= fadeEvery {
			more /= 2
		}
		c.MsPerToken = believed + more
	}
}
