package speed

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// The router should queue prompts itself only where an engine computes one after another. A simulated engine, or an
// address with many engines behind it, computes all at once and would stand idle. The difference shows in times: in a
// serial engine a token of another prompt delays a request as much as a token of its own, in a parallel one not at all.
// The time per own token comes from prompts that had no company; with company alone, 2 s each four at a time looks like
// 0.5 s each in turn.
//
// Company is the prompts in front and those that arrive soon after: llama-server computes the prompts of its lower
// slots first, or several in a batch. "Soon" is measured by the predicted duration, because a prompt that happens to
// take long has more company in any kind of engine.

// order fits whether an endpoint computes prompts one after another: decayed sums of least-squares lines through the
// origin.
type order struct {
	solo  fit.Ratio // prompts without company: ms over own tokens
	first fit.Ratio // prompts with none in front; equal to solo where prompts are computed in order of arrival

	company     fit.Plane // prompts with company: ms over tokens in front and tokens soon after
	front, soon fit.Sum   // own tokens × tokens in front, and × tokens soon after
}

const serialShare = 0.4 // least delay per token of company, in own ms per token, of a serial engine

// learn adds a prompt's time since the engine received it. A prompt that may have waited for a place, or is computed
// elsewhere, is no sample. Company of less than one part in fit.Bound of a prompt counts as none.
func (a *order) learn(j *backlog.Job, own, fixed float64) {
	y := fleet.Ms(j.First.Sub(j.Sent)) - fixed
	if j.WaitedForPlace || j.Leg == fleet.LegDecode || y <= 0 || !j.SoonKnown {
		return
	}
	company := j.TokensBefore + j.Soon
	weight := bounded(own + company)
	if float64(fit.Bound*j.TokensBefore) <= own {
		a.first.Add(1-fit.Usual, weight, own, y)
	}
	if float64(fit.Bound*company) <= own {
		a.solo.Add(1-fit.Usual, weight, own, y)
		return
	}
	a.company.Add(1-fit.Usual, weight, j.TokensBefore, j.Soon, y)
	a.front.Add(1-fit.Usual, weight, float64(own*j.TokensBefore))
	a.soon.Add(1-fit.Usual, weight, float64(own*j.Soon))
}

// serial reports whether the endpoint computes prompts one after another: whether the time beyond a prompt's own grows
// with its company. known says that it was seen, which takes the company of fit.Enough prompts. A ridge of fit.Slow of
// the sums is added, since only one kind of company may occur.
func (a *order) serial() (yes, known bool) {
	if a.first.XX == 0 || a.company.AA+a.company.BB < fit.Enough*priorTokens*priorTokens {
		return true, false
	}
	each := a.first.Slope()
	if a.solo.XX > 0 {
		each = min(each, a.solo.Slope())
	}
	beyond := a.company // time beyond the prompts' own
	beyond.AY -= fit.Sum(each * float64(a.front))
	beyond.BY -= fit.Sum(each * float64(a.soon))
	little := fit.Sum(fit.Slow * (beyond.AA + beyond.BB))
	beyond.AA += little
	beyond.BB += little
	front, soon := beyond.Slopes()
	return front+soon >= float64(serialShare*each), true
}
