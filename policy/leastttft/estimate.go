package leastttft

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Estimator estimates the terms of least_ttft for placements that another policy decides. It leaves out the term Spread, which is a
// price for an uneven placement and no time that a placement takes.
type Estimator struct{ policy leastTTFT }

// NewEstimator makes the Estimator of one pool with a configuration that has its defaults.
func NewEstimator(c Config) *Estimator { return &Estimator{policy: leastTTFT{cfg: c}} }

// Reckon fills in the terms of all candidates.
func (e *Estimator) Reckon(v *pick.View) {
	e.policy.reckon(v)
	for i := range v.Candidates {
		v.Candidates[i].Terms.Spread = 0
	}
}

// Placed learns from a request that was placed at a candidate.
func (e *Estimator) Placed(v *pick.View, r *fleet.Request, index int) { e.policy.learn(v, r, index) }
