package speed

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// FleetPrefill is how long prompts take in the fleet. It is learnt from the prompts of all endpoints, and stands for an
// endpoint until that has shown its own speed.
type FleetPrefill struct {
	Line      fit.Ratio    // ms over prompt tokens
	Prior     float64      // weight of firstPerToken beside it, in tokens²
	PerToken  float64      // ms, from Line and firstPerToken
	Fixed     fit.Quantile // ms
	PerAnswer fit.Mean     // ms per output token after the first; 0 unknown
}

func newFleet() FleetPrefill {
	return FleetPrefill{Prior: priorTokens * priorTokens, PerToken: firstPerToken, Fixed: FirstPace}
}

// known reports whether there is a sample.
func (f *FleetPrefill) known() bool { return f.Line.XX > 0 }

// take adds a sample: x prompt tokens took y ms. A sample is bounded by what was expected, because an endpoint that
// compiles kernels for its first prompts says nothing of others.
func (f *FleetPrefill) take(weight, x, y float64) {
	most := float64(fit.Outlier * (float64(f.Fixed) + float64(x*f.PerToken)))
	f.Prior = float64(f.Prior * (1 - fit.Slow))
	f.Line.Add(1-fit.Slow, weight, x, min(max(0, y), most))
	f.PerToken = max(backlog.LeastMsPerToken,
		(float64(f.Line.XY)+float64(f.Prior*firstPerToken))/(float64(f.Line.XX)+f.Prior))
}
