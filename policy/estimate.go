package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// estimator estimates the terms of least_ttft for placements that another policy decides. It leaves out the term Spread, which is a
// price for an uneven placement and no time that a placement takes.
type estimator struct{ policy leastTTFT }

// newEstimator makes the estimator of one pool with a configuration that has its defaults.
func newEstimator(c LeastTTFTConfig) *estimator { return &estimator{policy: leastTTFT{cfg: c}} }

// Reckon fills in the terms of all candidates.
func (e *estimator) Reckon(v *pick.View) {
	e.policy.reckon(v)
	for i := range v.Candidates {
		v.Candidates[i].Terms.Spread = 0
	}
}

// Placed learns from a request that was placed at a candidate.
func (e *estimator) Placed(v *pick.View, r *fleet.Request, index int) { e.policy.learn(v, r, index) }
