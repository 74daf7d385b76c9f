package route

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// pace is what is learnt of how long an engine takes for a token of an answer: base, plus perOther for each other request that is being
// answered there, since all of them are in one step. What prompts take in between is not part of it.
type pace struct{ fit.Line } // over the others there, ms for a token

const (
	firstPace     = 10.0 // ms a token before the first answer
	firstPerOther = 0.02 // of that, for each other: from 1.7 % (an H100 with a model of 32B) to 6 % were published, see rig.Presets
	leastPace     = 0.1  // ms
	leastAnswer   = 16   // tokens that an answer must have to say something
	mostPrompts   = 0.1  // share of its time that may have gone into prompts: how long those took is known by about
	keepPooled    = 0.99 // weight that a sample keeps in the mean of all endpoints
	priorOthers   = 64.0 // what is assumed of perOther weighs as much as samples with so much variance
)

// at is the time for a token where so many others are answered, and how much longer each of them takes with one more; prior is
// what an endpoint is assumed to add for each while its own answers do not tell.
func (p *pace) at(others, prior float64) (token, perOther float64) {
	perOther = max(0, p.Slope(prior, priorOthers))
	base := max(leastPace, p.Intercept(perOther))
	return base + float64(perOther*others), perOther
}

// paceOf is the time for a token at an endpoint with so many others, or what is assumed of it.
func (r *Router) paceOf(ep *endpoint, others int) (token, perOther float64) {
	prior := float64(firstPace * firstPerOther)
	if r.pace.N > 0 {
		_, prior = r.pace.at(0, float64(firstPerOther*float64(r.pace.Y/r.pace.N)))
	}
	switch {
	case ep.pace.N > 0:
		return ep.pace.at(float64(others), prior)
	case r.pace.N > 0:
		return r.pace.at(float64(others), prior)
	}
	return firstPace + float64(prior*float64(others)), prior
}

// prompting is for how many ms in all the endpoint has computed prompts; only differences count. It is to be asked before one is added
// or taken off.
func (e *endpoint) prompting(now time.Time) float64 {
	if e.speed.prompts > 0 {
		e.spent += ms(now.Sub(e.spentAt))
	}
	e.spentAt = now
	return e.spent
}

// answering notes how an answer begins: among how many others, and after how much of prompts.
func (f *flight) answering(now time.Time) {
	f.others, f.spent = max(0, f.ep.decoding()-1), f.ep.prompting(now)
}

// learnPace takes in how long an answer took that has ended and is off the books. What was computed of prompts meanwhile is taken off.
func (r *Router) learnPace(now time.Time, f *flight, u *fleet.Usage) {
	if !f.stream || f.leg == fleet.LegPrefill || f.first.IsZero() || f.incarnation != f.ep.incarnation || f.class != fleet.Turn || u.OutputTokens < leastAnswer {
		return
	}
	took, prompts := ms(now.Sub(f.first)), f.ep.prompting(now)-f.spent
	if prompts > float64(mostPrompts*took) {
		return
	}
	y := max(leastPace, (took-prompts)/float64(u.OutputTokens-1))
	if f.ep.pace.N > 0 {
		expected, _ := r.paceOf(f.ep, f.others)
		y = min(y, float64(outlier*expected))
	}
	x := float64(f.others+f.ep.decoding()) / 2
	f.ep.pace.Add(keepSample, 1, x, y)
	r.pace.Add(keepPooled, 1, x, y)
}
