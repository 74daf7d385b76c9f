package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
)

// pace is what is learnt of how long an engine takes for a token of an answer: base, plus perOther for each other request that is being
// answered there, since all of them are in one step. What prompts take in between is not part of it.
type pace struct{ fit.Line } // over the others there, ms for a token

const (
	firstPace     = 10.0 // ms a token before the first answer
	firstPerOther = 0.02 // of that, for each other: from 1.7 % (an H100 with a model of 32B) to 6 % were published, see sim.Presets
	leastPace     = 0.1  // ms
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
func (t *Table) paceOf(e *endpoint, others int) (token, perOther float64) {
	prior := float64(firstPace * firstPerOther)
	if t.pace.N > 0 {
		_, prior = t.pace.at(0, float64(firstPerOther*float64(t.pace.Y/t.pace.N)))
	}
	switch {
	case e.pace.N > 0:
		return e.pace.at(float64(others), prior)
	case t.pace.N > 0:
		return t.pace.at(float64(others), prior)
	}
	return firstPace + float64(prior*float64(others)), prior
}

// learnPace takes in how long an answer took that has ended. What was computed of prompts meanwhile is taken off.
func (t *Table) learnPace(now time.Time, j *backlog.Job, u *fleet.Usage) {
	took := ms(now.Sub(j.First))
	if !j.Paced || j.PromptMs > float64(mostPrompts*took) {
		return
	}
	e := t.endpoints.Get(j.Slot)
	y := max(leastPace, (took-j.PromptMs)/float64(u.OutputTokens-1))
	if e.pace.N > 0 {
		expected, _ := t.paceOf(e, j.Others)
		y = min(y, float64(outlier*expected))
	}
	x := float64(j.Others+j.Left) / 2
	e.pace.Add(keepSample, 1, x, y)
	t.pace.Add(keepPooled, 1, x, y)
}
