package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// decodePace fits the decode time per token: base + perOther × other requests decoding, since all share one engine
// step. Prefill in between is not part of it.
type decodePace struct{ fit.Line } // ms per token over the number of others

// FirstPace is the ms of an engine's step that are assumed before any is known: for a token of an answer, and for a
// prompt besides its tokens.
const FirstPace = 10.0

const (
	// default perOther as a share of base; published: 1.7 % (32B model on an H100) to 6 %, see sim.Presets
	firstPerOther = 0.02
	mostPrompts   = 0.1 // a sample in which prefill took a larger share of the time is dropped
)

// at is the ms per token with this many others, and the extra ms for one more. prior is the default of that extra.
// It has the weight of fit.Enough answers whose others differ from the mean by fit.Outlier.
func (p *decodePace) at(others, prior float64) (token, perOther float64) {
	perOther = max(0, p.Slope(prior, fit.Enough*fit.Bound))
	base := max(leastMs, p.Intercept(perOther))
	return base + float64(perOther*others), perOther
}

// decodePaceOf is the ms per token at an endpoint: from its own fit, else the fleet's, else the default.
func (t *Table) decodePaceOf(e *endpoint, others int) (token, perOther float64) {
	prior := float64(FirstPace * firstPerOther)
	if t.without.Has(ablation.DecodeSpeed) || e.decodePace.N == 0 && t.decodePace.N == 0 {
		return FirstPace + float64(prior*float64(others)), prior
	}
	if t.decodePace.N > 0 {
		_, prior = t.decodePace.at(0, float64(firstPerOther*float64(t.decodePace.Y/t.decodePace.N)))
	}
	if e.decodePace.N > 0 {
		return e.decodePace.at(float64(others), prior)
	}
	return t.decodePace.at(float64(others), prior)
}

// learnDecodePace learns from a finished answer, without the time of the prompts computed meanwhile.
func (t *Table) learnDecodePace(now time.Time, j *backlog.Job, u *fleet.Usage) {
	took := fleet.Ms(now.Sub(j.First))
	if !j.DecodeTimed || j.PromptMs > float64(mostPrompts*took) {
		return
	}
	e := t.endpoints.Get(j.Slot)
	y := max(leastMs, (took-j.PromptMs)/float64(u.OutputTokens-1))
	if e.decodePace.N > 0 {
		expected, _ := t.decodePaceOf(e, j.Concurrent)
		y = min(y, float64(fit.Outlier*expected))
	}
	x := float64(j.Concurrent+j.StillDecoding) / 2
	e.decodePace.Add(1-fit.Usual, 1, x, y)
	t.decodePace.Add(1-fit.Slow, 1, x, y)
}
