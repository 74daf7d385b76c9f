package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/shadow"
)

// estimator prices placements by the terms of least_ttft, whichever policy decides. It is the policy's own reckoning, told of
// the decisions of others. The term spread is left out: it is what least_ttft pays for evenness, not what a placement takes.
type estimator struct{ reckoner leastTTFT }

// NewEstimator makes the estimator of one pool.
func NewEstimator(c Config) shadow.Estimator {
	return &estimator{reckoner: leastTTFT{cfg: c.WithDefaults().LeastTTFT}}
}

// Reckon implements route.Estimator.
func (e *estimator) Reckon(v *pick.View) {
	e.reckoner.reckon(v)
	for i := range v.Candidates {
		v.Candidates[i].Terms.Spread = 0
	}
}

// Placed implements route.Estimator.
func (e *estimator) Placed(v *pick.View, r *fleet.Request, index int) { e.reckoner.learn(v, r, index) }
