package route

import "time"

// speed is what is learnt of how long an endpoint takes: the time to first token is what it waits, plus fixed, plus perToken for
// every uncached token.
type speed struct {
	perToken  float64 // ms; 0 before the first sample
	fixed     float64 // ms
	samples   int
	xx, xy    float64 // sums of a least-squares line through the origin, older samples weighing less
	perAnswer float64 // ms for each token of an answer after the first; 0 unknown
	hold      float64 // ms that a request stays; 0 unknown

	until  time.Time // when what is reserved is expected to be computed
	ahead  int64     // uncached tokens of streams whose first byte has not come
	busy   float64   // ms of prefill of late, see busyWindow
	busyAt time.Time
}

// speeds are what is assumed of endpoints that nothing has been learnt of: the mean of the others.
type speeds struct{ perToken, fixed float64 }

const (
	firstPerToken = 0.1  // ms a token, 10,000 tokens a second, when nobody in the fleet has been measured
	firstFixed    = 10.0 // ms
	keepSample    = 0.97 // weight that a sample keeps with each later one
	priorTokens   = 512  // what is assumed at first weighs as much as a sample of so many tokens
	outlier       = 4    // a sample counts as at most so many times what was expected, or so many times less
	fixedStep     = 0.08 // share of the estimate by which one sample moves fixed
	fixedQuantile = 0.35 // share of samples below it: waiting that was not foreseen is above
	slowRate      = 0.1  // weight of a new sample for perAnswer and hold
	busyWindow    = 10 * time.Second
)

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// expect fills in what is known of the candidates' speed and what they have to do.
func (r *Router) expect(now time.Time) {
	v := &r.view
	for i, m := range r.members {
		c := &v.Candidates[i]
		c.MsPerToken, c.FixedMs = r.speedOf(m.ep)
		c.WaitMs = m.ep.wait(now, c.MsPerToken, c.Load.Waiting)
		c.Busy = m.ep.speed.busyShare(now)
		c.Full = m.ep.cache.bound > 0 && r.belief.index.Len(m.ep.slot) >= m.ep.cache.bound-m.ep.cache.bound/64
	}
}

// speedOf is an endpoint's speed, or what is assumed of it.
func (r *Router) speedOf(ep *endpoint) (perToken, fixed float64) {
	perToken, fixed = ep.speed.perToken, ep.speed.fixed
	if ep.speed.samples == 0 {
		perToken, fixed = r.speeds.perToken, r.speeds.fixed
		if perToken == 0 {
			perToken, fixed = firstPerToken, firstFixed
		}
	}
	return perToken, fixed
}

// wait is how long a new prompt waits for those in front of it, in ms, and for a place if all are taken.
func (e *endpoint) wait(now time.Time, perToken float64, waiting int) float64 {
	s := &e.speed
	left := ms(s.until.Sub(now))
	switch {
	case e.load.PrefillTokens == 0:
		left = 0
	case left >= 0:
		left = min(left, float64(float64(e.load.PrefillTokens)*perToken))
	case s.ahead > 0: // it is late: what is as late as that may take as long again
		left = min(-left, float64(float64(outlier*s.ahead)*perToken))
	default:
		left = 0
	}
	if slots := e.report.Slots; slots > 0 && e.load.Requests >= slots {
		left = max(left, float64(s.hold*float64(e.load.Requests-slots+1))/float64(slots))
	} else if l := e.report.Load; waiting > 0 && l != nil && l.Running > 0 {
		left = max(left, float64(s.hold*float64(waiting))/float64(l.Running))
	}
	return left
}

// queue puts a flight's prefill behind what is there.
func (e *endpoint) queue(now time.Time, f *flight) {
	s := &e.speed
	if f.prefill <= 0 {
		return
	}
	took := float64(float64(f.prefill) * max(f.msPerToken, 0))
	if s.until.Before(now) {
		s.until = now
	}
	s.until = s.until.Add(time.Duration(took * 1e6))
	if f.stream {
		s.ahead += f.prefill
	}
	s.busy = float64(s.busyNow(now) + took)
	s.busyAt = now
}

// unqueue takes it off again, done or not. What is left starts about now: engines compute prompts in order of arrival.
func (e *endpoint) unqueue(now time.Time, f *flight) {
	if !f.stream || f.prefill <= 0 {
		return
	}
	s := &e.speed
	s.ahead -= f.prefill
	s.until = now.Add(time.Duration(float64(float64(s.ahead)*f.msPerToken) * 1e6))
}

func (s *speed) busyNow(now time.Time) float64 {
	age := now.Sub(s.busyAt)
	if s.busy == 0 || age >= 2*busyWindow {
		return 0
	}
	// A line instead of an exponential: the same on every machine.
	return float64(s.busy * (1 - float64(age)/float64(2*busyWindow)))
}

// busyShare is the share of its time that the endpoint spends on prompts.
func (s *speed) busyShare(now time.Time) float64 {
	return min(1, s.busyNow(now)/ms(busyWindow))
}

// learnSpeed takes in how long a request took.
func (r *Router) learnSpeed(now time.Time, f *flight, u *Usage) {
	if f.incarnation != f.ep.incarnation || f.class != Turn || f.first.IsZero() || u.PromptTokens <= 0 {
		return
	}
	s := &f.ep.speed
	perToken, fixed := r.speedOf(f.ep)
	cached := f.decision.CachedTokens
	if u.CachedKnown {
		cached = u.CachedTokens
	}
	own := float64(max(u.PromptTokens-cached, 1))
	first, rest := ms(f.first.Sub(f.routed)), float64(max(u.OutputTokens-1, 0))
	expected := f.waitMs + fixed + float64(own*perToken)
	if f.stream {
		if rest > 0 {
			s.perAnswer = toward(s.perAnswer, ms(now.Sub(f.first))/rest)
		}
	} else if rest > 0 {
		if s.perAnswer == 0 {
			s.perAnswer = max(0, first-expected) / rest
		}
		first -= float64(rest * s.perAnswer)
		s.perAnswer = toward(s.perAnswer, max(0, s.perAnswer+float64((first-expected)/rest)))
	}
	s.hold = toward(s.hold, ms(now.Sub(f.routed)))
	first = max(first, float64(expected/outlier))
	if s.samples >= 3 {
		first = min(first, float64(expected*outlier))
	}
	s.line(own+f.waitMs/perToken, first, perToken, fixed)
	r.meanSpeed()
}

// line takes in that so many tokens took so long.
func (s *speed) line(x, y, perToken, fixed float64) {
	if s.samples == 0 {
		s.fixed = fixed
		s.xx, s.xy = priorTokens*priorTokens, float64(perToken*priorTokens*priorTokens)
	}
	s.samples++
	s.xx = float64(s.xx*keepSample) + float64(x*x)
	s.xy = float64(s.xy*keepSample) + float64(x*max(y-s.fixed, float64(y/16)))
	s.perToken = max(s.xy/s.xx, 1e-5)
	step := float64(s.fixed * fixedStep)
	if y-float64(x*s.perToken) > s.fixed {
		s.fixed += float64(step * (1 - fixedQuantile))
	} else {
		s.fixed = max(0.1, s.fixed-float64(step*fixedQuantile))
	}
}

// toward moves an estimate by a sample; the first one is taken as it is.
func toward(have, sample float64) float64 {
	if have == 0 {
		return sample
	}
	return have + float64(slowRate*(sample-have))
}

// meanSpeed is what is assumed of endpoints without a sample.
func (r *Router) meanSpeed() {
	var perToken, fixed float64
	n := 0
	for _, ep := range r.endpoints {
		if ep.speed.samples > 0 {
			perToken, fixed, n = perToken+ep.speed.perToken, fixed+ep.speed.fixed, n+1
		}
	}
	if n > 0 {
		r.speeds = speeds{perToken / float64(n), fixed / float64(n)}
	}
}
