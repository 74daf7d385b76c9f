package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/backlog"
)

// How long an answer takes that comes as a whole says how quick its endpoint is only together with what else was computed there: the
// prompts in front of its own, and those that came while it was being answered. How many tokens of these there were is known about; how
// much of their time is part of the answer's differs between engines. One that computes prompts in order of arrival has all of those in
// front in it, and as much of those behind as the steps of its answers contain of prompts; one that only pretends to compute has neither. So
// both shares are learnt, of all endpoints together. Reckoned without them an endpoint is thought slow as soon as it is busy; reckoned with
// too much of them it is thought quick because it is busy, is sent still more, and never found out.

// others is what is learnt of these shares, older answers weighing less. What is left
// of an answer's time without its own prompt and tokens is front, times a share, and behind, times another one.
type others struct {
	left fit.Plane // over front and behind, in ms
	own  fit.Sum   // squares of the prompts' own ms
}

const (
	keepAmong  = 0.995 // share of the sums that is kept with each answer
	speedRange = 0.5   // standard deviation of speeds among endpoints, as a share of their mean
	priorAmong = 0.02  // all of both, as assumed at first, weighs as much as this share of the own prompts
)

// shares are those of the prompts in front and behind, 0 to 1.
func (a *others) shares() (front, behind float64) {
	prior, left := fit.Sum(priorAmong*a.own)+1, a.left
	left.AA += prior
	left.BB += prior
	left.AY += prior
	left.BY += prior
	front, behind = left.Slopes()
	return min(max(front, 0), 1), min(max(behind, 0), 1)
}

// take takes in an answer: all in ms. A wild one counts as so many times what was to be expected at most.
func (a *others) take(front, behind, own, left float64) {
	left = min(max(left, -front-behind), outlier*(front+behind+own))
	a.left.Add(keepAmong, 1, front, behind, left)
	a.own.Add(keepAmong, 1, float64(own*own))
}

// learnWhole takes in how long an answer took that came as a whole, of so many uncached tokens, and so many of an answer after its first.
func (t *Table) learnWhole(s *prefill, j *backlog.Job, own, rest, perToken, fixed float64) {
	if j.Held { // nobody knows how long it waited for its place
		return
	}
	took := ms(j.First.Sub(j.Sent))
	switch {
	case j.Alone && j.Behind == 0:
		s.take(own, rest, took, 1, true, perToken, fixed)
	case j.End > s.passed && j.Sent.Before(s.passedAt):
		// It was in the queue when the last one was done that is known to be computed: since then it is one prompt after the other. This is
		// what shows that an endpoint is slow which was thought so quick that nothing waits there.
		s.take(float64(j.End-j.Prefill-s.passed)+own, rest, ms(j.First.Sub(s.passedAt)), amongOthers, false, perToken, fixed)
	default:
		front, behind := t.others.shares()
		s.take(own+float64(front*j.Front)+float64(behind*j.Behind), rest, took-fixed, amongOthers, false, perToken, fixed)
		left := took - fixed - float64(own*perToken) - float64(rest*s.perStep)
		t.others.take(float64(j.Front*perToken), float64(j.Behind*perToken), float64(own*perToken), left)
	}
	// Who is thought quicker than he is gets more than he can bear, who is thought slower loses little. So to be quicker than all are on average
	// takes as many answers as the noise in them asks for.
	if mean := t.mean.perToken; mean > 0 && s.perToken < mean {
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
