package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
)

// prefill is what is learnt of how long an endpoint takes for prompts, and for answers that come as a whole. Engines compute prompts in
// order of arrival, so what they do between the first bytes of two answers is the second one's prompt: fixed, plus perToken for every
// uncached token. Waiting is not part of that and cannot be mistaken for slowness, however long it is.
type prefill struct {
	perToken  float64      // ms; 0 before the first sample
	fixed     fit.Quantile // ms, of a prompt that found no other being computed
	samples   int
	learntAt  time.Time // when an answer last said how long its prompt took
	line      fit.Plane // ms over tokens of prompts, and over tokens of the answers that come as a whole, older samples weighing less
	prior     float64   // of line.AA, what is left of what was assumed at first
	noise     fit.Mean  // square of what such answers were off by, ms²
	perStep   float64   // ms for each token of such an answer after the first, without the prompts that were computed meanwhile
	perAnswer fit.Mean  // ms for each token of an answer after the first; 0 unknown
	hold      fit.Mean  // ms that a request stays once it is computed; 0 unknown

	batches []batch   // the latest, in order of time; at most maxBatches
	early   fit.Whole // what those of them count for whose answers have not ended
	known   float64   // ms a token with what they count for, see pooled.go; 0 unknown
	like    float64   // the same of all endpoints that are about as quick

	passed   int64     // where the last prompt ends in the endpoint's queue that is known to be computed,
	passedAt time.Time // and when about it was
}

const (
	firstPerToken = 0.1              // ms a token, 10,000 tokens a second, when nobody in the fleet has been measured
	firstFixed    = 10.0             // ms
	keepSample    = 0.97             // weight that a sample keeps with each later one
	priorTokens   = 512              // what is assumed at first weighs as much as a sample of so many tokens
	priorAnswer   = 4                // and the time for a token of an answer as much as a sample of so many
	outlier       = 4                // a sample counts as at most so many times what was expected, or so many times less
	fixedStep     = 0.08             // share of the estimate by which one sample moves fixed
	fixedQuantile = 0.35             // share of samples above it: those that waited and nobody foresaw it
	leastFixed    = 0.1              // ms
	amongOthers   = 0.2              // weight of an answer that came as a whole while the endpoint had others
	noiseRate     = 0.05             // weight of a new sample for noise
	slowRate      = 0.1              // weight of a new sample for perAnswer and hold
	sameStep      = time.Millisecond // first bytes that come closer together than that are of one step
	maxBatches    = 512              // streams that see more first bytes than that before they end teach nothing
	stepTokens    = 8192             // of prompts that an engine computes in one step: vLLM's default max_num_batched_tokens when it serves on an H100
	alike         = 1.1              // times as slow as another one is an endpoint whose speed is told apart from the other's
	moved         = 0.01             // share by which a speed must change before it is compared with others again
)

func ms(d time.Duration) float64 { return backlog.Ms(d) }

// speedOf is an endpoint's speed, or what is assumed of it.
func (t *Table) speedOf(s *prefill) (perToken, fixed float64) {
	perToken, fixed = t.settled(s)
	if s.like > 0 {
		perToken = s.like
	}
	return perToken, fixed
}

// settled is an endpoint's speed by answers that have ended, or what is assumed of it.
func (t *Table) settled(s *prefill) (perToken, fixed float64) {
	perToken, fixed = s.perToken, float64(s.fixed)
	if s.samples == 0 {
		perToken, fixed = t.mean.perToken, t.mean.fixed
		if perToken == 0 {
			perToken, fixed = firstPerToken, firstFixed
		}
	}
	return perToken, fixed
}

// learnPrompt takes in that the prompt of a stream is computed.
func (t *Table) learnPrompt(now time.Time, j *backlog.Job) {
	e := t.endpoints.Get(j.Slot)
	s := &e.prefill
	if j.End > s.passed {
		s.passed, s.passedAt = j.End, now
	}
	b := s.computed(now, j)
	perToken, fixed := t.settled(s)
	s.guess(b, perToken, fixed)
	if j.CachedTokens == 0 { // else what had to be computed is known when the answer ends, which may take minutes
		e.order.learn(j, float64(j.Prefill), fixed)
	}
	t.compare(j.Slot)
}

// learnUsage takes in how long a request took that has ended.
func (t *Table) learnUsage(now time.Time, j *backlog.Job, u *fleet.Usage) {
	e := t.endpoints.Get(j.Slot)
	s := &e.prefill
	if j.Leg != fleet.LegDecode { // which computes no prompt
		s.learntAt = now
	}
	perToken, fixed := t.settled(s)
	cached := j.CachedTokens
	if u.CachedKnown {
		cached = u.CachedTokens
	}
	own := float64(max(u.PromptTokens-cached, 1))
	rest := float64(max(u.OutputTokens-1, 0))
	if j.Stream {
		if rest > 0 {
			s.perAnswer.Add(slowRate, max(0, ms(now.Sub(j.First)))/rest)
			s.hold.Add(slowRate, max(0, ms(now.Sub(j.First))))
		}
		if j.CachedTokens > 0 {
			e.order.learn(j, own, fixed)
		}
		if b := s.batchOf(j.First); b != nil && !b.held && j.Leg != fleet.LegDecode {
			x := max(own, float64(b.tokens-j.Prefill)+own)
			s.take(x, 0, ms(b.end.Sub(b.begin)), float64(own/x), b.fresh, perToken, fixed)
		}
	} else if j.Leg != fleet.LegDecode {
		t.learnWhole(s, j, own, rest, perToken, fixed)
	}
	t.takeMeans()
}

// take takes in that x tokens of prompts and rest tokens of an answer took y ms. fresh says that the fixed time is part of it.
func (s *prefill) take(x, rest, y, weight float64, fresh bool, perToken, fixed float64) {
	if s.samples == 0 {
		s.perToken, s.fixed = perToken, fit.Quantile(fixed)
		s.line.AA, s.line.AY = priorTokens*priorTokens, fit.Sum(perToken*priorTokens*priorTokens)
		s.prior = float64(s.line.AA)
	}
	if rest > 0 && s.line.BB == 0 {
		s.line.BB, s.line.BY = priorAnswer*priorAnswer, firstPace*priorAnswer*priorAnswer
	}
	start := 0.0
	if fresh {
		start = float64(s.fixed)
	}
	expected := start + float64(x*perToken) + float64(rest*s.perStep)
	y = max(y, expected/outlier)
	if s.samples >= 3 {
		y = min(y, float64(expected*outlier))
	}
	s.samples++
	keep := 1 - float64((1-keepSample)*weight)
	s.prior = float64(s.prior * keep)
	s.line.Add(keep, float64(weight*bounded(x)), x, rest, max(y-start, y/16))
	s.solve()
	if rest > 0 {
		off := y - expected
		s.noise.Move(max(noiseRate, 1/float64(s.samples)), float64(off*off))
	}
	if fresh {
		s.fixed.Add(fixedQuantile, float64(fixedStep*weight), leastFixed, y-float64(x*s.perToken)-float64(rest*s.perStep))
	}
}

// bounded is by how much less a sample of x tokens weighs than by the square of its length, which is its weight in a line through
// the origin. That is right as long as it is off by as much as others, which is up to a step: first bytes come when a step ends, and what
// it had room for besides was another prompt's. Prompts of many steps are rather off in proportion, and must not outweigh all others.
func bounded(x float64) float64 { return 1 / (1 + float64(x*x)/(stepTokens*stepTokens)) }

// solve finds the least squares: time for a token of a prompt alone, or, where answers are part of the samples, that and the
// time for a token of an answer.
func (s *prefill) solve() {
	l := &s.line
	if l.Det() <= float64(l.AA*l.BB)/1000 { // there are none, or nothing tells one from the other
		s.perToken = max(l.SlopeA(s.perStep), backlog.LeastMsPerToken)
		return
	}
	switch perToken, perStep := l.Slopes(); {
	case perToken <= backlog.LeastMsPerToken: // nobody computes prompts in no time: what was thought is better
		s.perStep = max(0, l.SlopeB(s.perToken))
	case perStep > 0:
		s.perToken, s.perStep = perToken, perStep
	default:
		s.perToken, s.perStep = max(l.SlopeA(0), backlog.LeastMsPerToken), 0
	}
}

// takeMeans finds what is assumed of endpoints without a sample.
func (t *Table) takeMeans() {
	var perToken, fixed, perAnswer float64
	n, answers := 0, 0
	for _, slot := range t.order {
		s := &t.endpoints.Get(slot).prefill
		if s.samples > 0 {
			perToken, fixed, n = perToken+s.perToken, fixed+float64(s.fixed), n+1
		}
		if s.perAnswer > 0 {
			perAnswer, answers = perAnswer+float64(s.perAnswer), answers+1
		}
	}
	if n > 0 {
		t.mean = means{perToken / float64(n), fixed / float64(n), perAnswer / float64(max(answers, 1))}
	}
}
