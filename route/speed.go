package route

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// speed is what is learnt of how long an endpoint takes. Engines compute prompts in order of arrival, so what they do between
// the first bytes of two answers is the second one's prompt: fixed, plus perToken for every uncached token. Waiting is not
// part of that and cannot be mistaken for slowness, however long it is.
type speed struct {
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
	known   float64   // ms a token with what they count for, see alike.go; 0 unknown
	like    float64   // the same of all endpoints that are about as quick

	serial  serial
	came    came
	until   time.Time // when what is reserved is expected to be computed
	ahead   int64     // uncached tokens of streams whose first byte has not come
	prompts int       // such streams
	head    int64     // uncached tokens of the first of them, as far as known
	wholes  wholes
}

// speeds are what is assumed of endpoints that nothing has been learnt of: the mean of the others.
type speeds struct{ perToken, fixed, perAnswer float64 }

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
	leastPerToken = 1e-3             // ms: a million tokens a second
	sameStep      = time.Millisecond // first bytes that come closer together than that are of one step
	maxBatches    = 512              // streams that see more first bytes than that before they end teach nothing
	stepTokens    = 8192             // of prompts that an engine computes in one step: vLLM's default max_num_batched_tokens when it serves on an H100
	alike         = 1.1              // times as slow as another one is an endpoint whose speed is told apart from the other's
	moved         = 0.01             // share by which a speed must change before it is compared with others again
)

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// expect fills in what is known of the speed of the rows' endpoints and what they have to do.
func (r *Router) expect(now time.Time, v *pick.View) {
	everywhere := v.Everywhere()
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.MsPerToken, c.FixedMs = r.speedOf(r.bySlot[c.Slot])
	}
	r.fade(now, v)
	r.arrivals.Expect(v)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		ep := r.bySlot[c.Slot]
		shared := everywhere
		if v.FirstTurn { // all that a new conversation finds is of others too
			shared = c.CachedTokens
		}
		before, first, behind := r.before(now, ep, float64(float64(v.PromptTokens-c.CachedTokens)*c.MsPerToken), c.MsPerToken)
		c.WaitMs, c.LineMs, c.Behind = first+r.wait(ep, now, c.MsPerToken, c.Load.Waiting, r.taken(now, ep)+before), first, behind
		c.Crowd, c.CrowdMs = ep.crowd(c.Resident, v.PromptTokens-shared+v.OutputTokens)
	}
}

// speedOf is an endpoint's speed, or what is assumed of it.
func (r *Router) speedOf(ep *endpoint) (perToken, fixed float64) {
	perToken, fixed = r.settledSpeed(ep)
	if ep.speed.like > 0 {
		perToken = ep.speed.like
	}
	return perToken, fixed
}

// settledSpeed is an endpoint's speed by answers that have ended, or what is assumed of it.
func (r *Router) settledSpeed(ep *endpoint) (perToken, fixed float64) {
	perToken, fixed = ep.speed.perToken, float64(ep.speed.fixed)
	if ep.speed.samples == 0 {
		perToken, fixed = r.speeds.perToken, r.speeds.fixed
		if perToken == 0 {
			perToken, fixed = firstPerToken, firstFixed
		}
	}
	return perToken, fixed
}

// wait is how long a new prompt waits for those in front of it, in ms, and for a place if so many requests take or want one.
func (r *Router) wait(e *endpoint, now time.Time, perToken float64, waiting, taken int) float64 {
	s, left := &e.speed, 0.0
	hold := float64(s.hold)
	if tokens := e.load.PrefillTokens - e.line.tokens; tokens > 0 {
		switch due := ms(s.until.Sub(now)); {
		case due >= 0:
			left = min(due, float64(float64(tokens)*perToken))
		case s.ahead > 0: // it is late: what is as late as that may take as long again
			left = min(-due, float64(float64(outlier*s.ahead)*perToken))
		}
		left = max(left, r.lateWhole(e, now, perToken))
	}
	if slots := e.places(); slots > 0 && taken >= slots {
		prompts, first := r.prompts(s, left, perToken)
		left = max(left, s.place(left, first, prompts, taken, slots))
	} else if l := e.report.Load; waiting > 0 && l != nil && l.Running > 0 {
		left = max(left, float64(hold*float64(waiting))/float64(l.Running))
	}
	return left
}

// places is how many requests the endpoint computes at once; 0 unknown.
func (e *endpoint) places() int {
	if e.spec.Part.Kind == fleet.Slot {
		return 1
	}
	return e.report.Slots
}

// place is how long it takes until a place is free at an endpoint that has as many requests as places or more, when all their
// prompts are computed in left ms and the first of them in first ms. Answers end one by one within hold, and the prompts that have a
// place a hold after they are computed, the first of them not before it is computed as a whole.
func (s *speed) place(left, first float64, prompts, requests, slots int) float64 {
	before, hold := float64(requests-slots+1), float64(s.hold)
	answers, each := float64(min(max(requests-prompts, 0), slots)), float64(max(prompts, 1))
	switch {
	case before <= answers:
		return float64(hold*before) / answers
	case before <= float64(slots):
		return hold + first + float64((left-first)*(before-answers))/each
	default:
		return float64((hold + first + float64((left-first)*(float64(slots)-answers))/each) * before / float64(slots))
	}
}

// crowd is how much of the endpoint's places and of its memory, of which outstanding requests keep resident tokens, is taken, and what one
// more request of so many tokens takes of it.
func (e *endpoint) crowd(resident int64, tokens int) (share, takes float64) {
	var each float64
	if n := e.places(); n > 0 {
		share, each = float64(e.load.Requests)/float64(n), 1/float64(n)
	}
	if n := e.report.CacheTokens; n > 0 {
		share, each = max(share, float64(resident)/float64(n)), max(each, float64(tokens)/float64(n))
	}
	return share, float64(each * float64(e.speed.hold))
}

// queue puts a flight's prefill behind what is there, and returns how many ms it takes.
func (e *endpoint) queue(now time.Time, f *flight) (took float64) {
	s := &e.speed
	if f.prefill <= 0 {
		return 0
	}
	e.prompting(now)
	took = float64(float64(f.prefill) * max(f.msPerToken, 0))
	if s.until.Before(now) {
		s.until = now
	}
	s.enter(now, f, ms(s.until.Sub(now)))
	s.until = s.until.Add(time.Duration(took * 1e6))
	if f.stream {
		if s.prompts == 0 {
			s.head = f.prefill
		}
		s.ahead += f.prefill
		s.prompts++
	}
	return took
}

// unqueue takes it off again, done or not. What is left starts about now: engines compute prompts in order of arrival.
func (r *Router) unqueue(now time.Time, f *flight) {
	if f.prefill <= 0 {
		return
	}
	if !f.stream {
		r.leaves(now, f)
		return
	}
	e := f.ep
	e.prompting(now)
	s := &e.speed
	until := s.until
	if f.prefilled {
		between, blurred := s.wholes.between+r.pass(s, f.end), s.wholes.blurred
		s.wholes.between, s.wholes.blurred = 0, len(s.wholes.open) > 0
		if f.end > s.wholes.passed {
			s.wholes.passed, s.wholes.at = f.end, now
		}
		b := s.computed(now, f, between, blurred || s.wholes.blurred || e.places() > 0 && e.sent()-len(e.coming) > e.places())
		perToken, fixed := r.settledSpeed(e)
		s.guess(b, perToken, fixed)
		if f.decision.CachedTokens == 0 { // else what had to be computed is known when the answer ends, which may take minutes
			s.learnSerial(f, float64(f.prefill), fixed)
		}
		r.compare(e)
	}
	perToken, _ := r.speedOf(e)
	s.ahead -= f.prefill
	s.prompts--
	s.head = s.ahead / int64(max(s.prompts, 1))
	s.until = now.Add(time.Duration(float64(float64(s.ahead+s.wholes.tokens)*perToken) * 1e6))
	if !f.prefilled && s.wholes.tokens > 0 && s.until.After(until) { // nothing tells how far the engine has got
		s.until = until
	}
	r.delay(s, perToken)
}

// learnSpeed takes in how long a request took.
func (r *Router) learnSpeed(now time.Time, f *flight, u *fleet.Usage) {
	if f.incarnation != f.ep.incarnation || f.class != fleet.Turn || f.first.IsZero() || u.PromptTokens <= 0 {
		return
	}
	s := &f.ep.speed
	if f.leg != fleet.LegDecode { // which computes no prompt
		s.learntAt = now
	}
	perToken, fixed := r.settledSpeed(f.ep)
	cached := f.decision.CachedTokens
	if u.CachedKnown {
		cached = u.CachedTokens
	}
	own := float64(max(u.PromptTokens-cached, 1))
	rest := float64(max(u.OutputTokens-1, 0))
	if f.stream {
		if rest > 0 {
			s.perAnswer.Add(slowRate, max(0, ms(now.Sub(f.first)))/rest)
			s.hold.Add(slowRate, max(0, ms(now.Sub(f.first))))
		}
		if f.decision.CachedTokens > 0 {
			s.learnSerial(f, own, fixed)
		}
		if b := s.batchOf(f.first); b != nil && !b.held && f.leg != fleet.LegDecode {
			x := max(own, float64(b.tokens-f.prefill)+own)
			s.take(x, 0, ms(b.end.Sub(b.begin)), float64(own/x), b.fresh, perToken, fixed)
		}
	} else if f.leg != fleet.LegDecode {
		r.learnWhole(f, own, rest, perToken, fixed)
	}
	r.meanSpeed()
}

// take takes in that x tokens of prompts and rest tokens of an answer took y ms. fresh says that the fixed time is part of it.
func (s *speed) take(x, rest, y, weight float64, fresh bool, perToken, fixed float64) {
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
func (s *speed) solve() {
	l := &s.line
	if l.Det() <= float64(l.AA*l.BB)/1000 { // there are none, or nothing tells one from the other
		s.perToken = max(l.SlopeA(s.perStep), leastPerToken)
		return
	}
	switch perToken, perStep := l.Slopes(); {
	case perToken <= leastPerToken: // nobody computes prompts in no time: what was thought is better
		s.perStep = max(0, l.SlopeB(s.perToken))
	case perStep > 0:
		s.perToken, s.perStep = perToken, perStep
	default:
		s.perToken, s.perStep = max(l.SlopeA(0), leastPerToken), 0
	}
}

// meanSpeed is what is assumed of endpoints without a sample.
func (r *Router) meanSpeed() {
	var perToken, fixed, perAnswer float64
	n, answers := 0, 0
	for _, ep := range r.endpoints {
		s := &ep.speed
		if s.samples > 0 {
			perToken, fixed, n = perToken+s.perToken, fixed+float64(s.fixed), n+1
		}
		if s.perAnswer > 0 {
			perAnswer, answers = perAnswer+float64(s.perAnswer), answers+1
		}
	}
	if n > 0 {
		r.speeds = speeds{perToken / float64(n), fixed / float64(n), perAnswer / float64(max(answers, 1))}
	}
}
