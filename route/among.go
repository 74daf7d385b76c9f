package route

import (
	"time"

	"github.com/warmpath/warmpath/fit"
)

// How long an answer takes that comes as a whole says how quick its endpoint is only together with what else was computed there: the
// prompts in front of its own, and those that came while it was being answered. How many tokens of these there were is known about; how
// much of their time is part of the answer's differs between engines. One that computes prompts in order of arrival has all of those in
// front in it, and as much of those behind as the steps of its answers contain of prompts; one that only pretends to compute has neither. So
// both shares are learnt, of all endpoints together. Reckoned without them an endpoint is thought slow as soon as it is busy; reckoned with
// too much of them it is thought quick because it is busy, is sent still more, and never found out.

// among is what is learnt of these shares, older answers weighing less. What is left
// of an answer's time without its own prompt and tokens is front, times a share, and behind, times another one.
type among struct {
	left fit.Plane // over front and behind, in ms
	own  fit.Sum   // squares of the prompts' own ms
}

const (
	keepAmong  = 0.995 // share of the sums that is kept with each answer
	speedRange = 0.5   // standard deviation of speeds among endpoints, as a share of their mean
	priorAmong = 0.02  // all of both, as assumed at first, weighs as much as this share of the own prompts
)

// shares are those of the prompts in front and behind, 0 to 1.
func (a *among) shares() (front, behind float64) {
	prior, left := fit.Sum(priorAmong*a.own)+1, a.left
	left.AA += prior
	left.BB += prior
	left.AY += prior
	left.BY += prior
	front, behind = left.Slopes()
	return min(max(front, 0), 1), min(max(behind, 0), 1)
}

// take takes in an answer: all in ms. A wild one counts as so many times what was to be expected at most.
func (a *among) take(front, behind, own, left float64) {
	left = min(max(left, -front-behind), outlier*(front+behind+own))
	a.left.Add(keepAmong, 1, front, behind, left)
	a.own.Add(keepAmong, 1, float64(own*own))
}

// learnWhole takes in how long an answer took that came as a whole, of so many uncached tokens, and so many of an answer after its first.
func (r *Router) learnWhole(f *flight, own, rest, perToken, fixed float64) {
	if f.held { // nobody knows how long it waited for its place
		return
	}
	s := &f.ep.speed
	w, took := &s.wholes, ms(f.first.Sub(f.sent))
	switch {
	case f.alone && f.behind == 0:
		s.take(own, rest, took, 1, true, perToken, fixed)
	case f.end > w.passed && f.sent.Before(w.at):
		// It was in the queue when the last one was done that is known to be computed: since then it is one prompt after the other. This is
		// what shows that an endpoint is slow which was thought so quick that nothing waits there.
		s.take(float64(f.end-f.prefill-w.passed)+own, rest, ms(f.first.Sub(w.at)), amongOthers, false, perToken, fixed)
	default:
		front, behind := r.among.shares()
		s.take(own+float64(front*f.front)+float64(behind*f.behind), rest, took-fixed, amongOthers, false, perToken, fixed)
		left := took - fixed - float64(own*perToken) - float64(rest*s.perStep)
		r.among.take(float64(f.front*perToken), float64(f.behind*perToken), float64(own*perToken), left)
	}
	// Who is thought quicker than he is gets more than he can bear, who is thought slower loses little. So to be quicker than all are on average
	// takes as many answers as the noise in them asks for.
	if mean := r.speeds.perToken; mean > 0 && s.perToken < mean {
		doubt := float64(amongOthers*float64(s.noise)) / float64(speedRange*speedRange*mean*mean)
		s.perToken += float64((mean - s.perToken) * doubt / (float64(s.line.AA) + doubt))
	}
	if f.end > w.passed {
		w.passed, w.at = f.end, f.first.Add(-time.Duration(float64(rest*s.perStep)*1e6))
	}
	if rest > 0 {
		answer := max(0, took-float64(s.fixed)-float64((own+f.front)*s.perToken))
		s.perAnswer.Add(slowRate, answer/rest)
		s.hold.Add(slowRate, answer)
	}
}
