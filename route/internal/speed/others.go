package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// The time of a non-streamed answer measures an endpoint's speed only together with the other prompts computed meanwhile: those in
// front of it and those that arrived behind it. Their tokens are known, but the fraction of their time that delays the answer
// differs between engines: a serial engine includes all in front, a simulated one none. So both fractions are learnt, over all
// endpoints. Ignored, a busy endpoint looks slow; overestimated, it looks fast because it is busy and gets even more.

// others fits both fractions: the answer's time beyond its own prompt and tokens = share × front + share × behind. Older
// answers weigh less.
type others struct {
	left fit.Plane // over front and behind, in ms
	own  fit.Sum   // squares of the prompts' own ms
}

const (
	keepAmong  = 0.995 // decay of the sums with each answer
	speedRange = 0.5   // assumed standard deviation of speeds in a fleet, as a share of their mean
	priorAmong = 0.02  // weight of the initial assumption (both shares 1), as a share of own
)

// shares are the fractions of the work in front and behind that an answer's time includes, 0 to 1.
func (a *others) shares() (front, behind float64) {
	prior, left := fit.Sum(priorAmong*a.own)+1, a.left
	left.AA += prior
	left.BB += prior
	left.AY += prior
	left.BY += prior
	front, behind = left.Slopes()
	return min(max(front, 0), 1), min(max(behind, 0), 1)
}

// take adds an answer; all arguments are in ms. An outlier is clamped.
func (a *others) take(front, behind, own, left float64) {
	left = min(max(left, -front-behind), outlier*(front+behind+own))
	a.left.Add(keepAmong, 1, front, behind, left)
	a.own.Add(keepAmong, 1, float64(own*own))
}

// learnWhole learns from a non-streamed answer: own uncached prompt tokens, rest output tokens after the first.
func (t *Table) learnWhole(s *prefill, j *backlog.Job, own, rest, perToken, fixed float64) {
	if j.Held { // how long it waited for a place is unknown
		return
	}
	took := ms(j.First.Sub(j.Sent))
	switch {
	case j.Alone && j.Behind == 0:
		s.take(own, rest, took, 1, true, perToken, fixed)
	case j.End > s.passed && j.Sent.Before(s.passedAt):
		// It was queued when the last known prompt was done, so the engine has been busy since. This sample corrects an endpoint
		// whose estimate is so fast that nothing seems to wait there.
		s.take(float64(j.End-j.Prefill-s.passed)+own, rest, ms(j.First.Sub(s.passedAt)), amongOthers, false, perToken, fixed)
	default:
		front, behind := t.others.shares()
		if t.without.Has(ablation.Interference) {
			front, behind = 1, 0
		}
		s.take(own+float64(front*j.Front)+float64(behind*j.Behind), rest, took-fixed, amongOthers, false, perToken, fixed)
		left := took - fixed - float64(own*perToken) - float64(rest*s.perStep)
		t.others.take(float64(j.Front*perToken), float64(j.Behind*perToken), float64(own*perToken), left)
	}
	// An overestimated endpoint gets more than it can bear; an underestimated one loses little. So an estimate faster than the
	// mean is shrunk towards it, by as much as the noise of the samples demands.
	if mean := t.mean.perToken; !t.without.Has(ablation.WholeDoubt) && mean > 0 && s.perToken < mean {
		doubt := float64(amongOthers*float64(s.noise)) / float64(speedRange*speedRange*mean*mean)
		s.perToken += float64((mean - s.perToken) * doubt / (float64(s.line.AA) + doubt))
	}
	if j.End > s.passed {
		s.passed, s.passedAt = j.End, j.First.Add(-time.Duration(float64(rest*s.perStep)*1e6))
	}
	if rest > 0 {
		answer := max(0, took-float64(s.fixed)-float64((own+j.Front)*s.perToken))
		s.perAnswer.Add(slowRate, answer/rest)
		s.hold.Add(slowRate, answer)
	}
}
