package speed

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/learnt"
)

// fleetPrefill is how long prompts take in the fleet. It is learnt from the prompts of all endpoints, and stands for an
// endpoint until that has shown its own speed.
type fleetPrefill learnt.FleetPrefill

func newFleet() fleetPrefill {
	return fleetPrefill{Prior: priorTokens * priorTokens, PerToken: firstPerToken, Fixed: FirstPace}
}

// known reports whether there is a sample.
func (f *fleetPrefill) known() bool { return f.Line.XX > 0 }

// take adds a sample: x prompt tokens took y ms. A sample is bounded by what was expected, because an endpoint that
// compiles kernels for its first prompts says nothing of others.
func (f *fleetPrefill) take(weight, x, y float64) {
	most := float64(fit.Outlier * (float64(f.Fixed) + float64(x*f.PerToken)))
	f.Prior = float64(f.Prior * (1 - fit.Slow))
	f.Line.Add(1-fit.Slow, weight, x, min(max(0, y), most))
	f.PerToken = max(backlog.LeastMsPerToken,
		(float64(f.Line.XY)+float64(f.Prior*firstPerToken))/(float64(f.Line.XX)+f.Prior))
}
