package speed

import (
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
)

// An endpoint that seems slow gets few requests, so nothing shows when it has recovered: it may have compiled for its first
// prompts, or shared its machine for a while. Engines that serve one model rarely differ by more than a few times. So the part
// of an estimate above four times the fastest halves with each minute without a sample, from two minutes on. The stored estimate
// stays: one answer corrects it. Fading smaller differences was tried and raised p90 by a quarter on a trace of agents.

const (
	fadeEvery = time.Minute
	fadeAfter = 2 * time.Minute
	fadeTo    = 4 // times the fastest
)

// fade lowers MsPerToken of idle rows without a recent sample towards fadeTo times the fastest.
func (r Reader) fade(v *pick.View, quickest float64) {
	if r.t.without.Has(ablation.StaleSpeed) {
		return
	}
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
