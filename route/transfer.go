package route

import "time"

// transfer is what is learnt of how long it takes until a decoder that is asked for an answer has the KV cache of its prompt from
// where it was computed, and has made the first token of it: fixed, plus perToken for every token that is moved.
type transfer struct {
	perToken float64 // ms; 0 before the first sample
	fixed    float64 // ms
	samples  int
	at       time.Time // of the latest sample
	prior    float64   // perToken before the first sample

	n, x, y, xx, xy float64 // sums over the samples, older ones weighing less
}

const (
	// What is assumed before the first transfer: 128 kB of KV cache a token, an 8B model with grouped-query attention in 16
	// bits, over 50 Gbit/s, and a handful of round trips and a decode step.
	firstMovePerToken = 0.02
	firstMoveFixed    = 20.0
	leastMovePerToken = 1e-5 // ms
	leastMoveFixed    = 0.1  // ms
	forgetMoves       = time.Minute
)

// transferOf is how fast KV cache comes to an endpoint, or what is assumed of it: the mean of the others.
func (r *Router) transferOf(ep *endpoint) (perToken, fixed float64) {
	if ep.transfer.samples > 0 {
		return ep.transfer.recent(r.view.Now)
	}
	if r.moved.samples > 0 {
		return r.moved.recent(r.view.Now)
	}
	return firstMovePerToken, firstMoveFixed
}

// recent is what is thought now. Transfers that were slow are not tried again while they are thought to be, so that nothing would show
// that they have become quick: what is above the first assumption halves with each minute without a transfer.
func (t *transfer) recent(now time.Time) (perToken, fixed float64) {
	perToken, fixed = t.perToken, t.fixed
	for age := now.Sub(t.at); age >= forgetMoves && (perToken > firstMovePerToken || fixed > firstMoveFixed) && age < 64*forgetMoves; age -= forgetMoves {
		perToken = min(perToken, (perToken+firstMovePerToken)/2)
		fixed = min(fixed, (fixed+firstMoveFixed)/2)
	}
	return perToken, fixed
}

// transferring notes that a decoder has been asked, and that what it needs has been computed.
func (r *Router) transferring(now time.Time, l Lease) {
	if f := r.flight(l); f != nil && f.leg == LegDecode && !f.prefilled {
		f.handed = now
	}
}

// learnTransfer takes in that a decode leg's first byte came. What was expected to be in front of it is taken off.
func (r *Router) learnTransfer(now time.Time, f *flight) {
	if f.handed.IsZero() || f.incarnation != f.ep.incarnation || !f.stream {
		return // an answer that comes as a whole says when all of it was made
	}
	perToken, fixed := r.transferOf(f.ep)
	f.ep.transfer.at = now
	f.ep.transfer.learn(float64(max(f.transfer, 1)), max(0, ms(now.Sub(f.handed))-f.waitMs), perToken, fixed)
	r.meanTransfer(now)
}

// learn takes in that x tokens took y ms, where so much was assumed. One sample moves the estimates by little, and a wild one
// counts as at most four times what was expected, and twice when much has been seen: an engine that compiles, or makes a first connection to another one, is not slow.
func (t *transfer) learn(x, y, perToken, fixed float64) {
	if t.samples == 0 {
		t.perToken, t.fixed = perToken, fixed
		t.prior = perToken
	}
	expected := t.fixed + float64(x*t.perToken)
	most := float64(outlier * expected)
	if t.samples > 32 {
		most = float64(outlier / 2 * expected)
	}
	y = min(y, most)
	t.samples++
	step := float64(t.fixed * fixedStep)
	if t.samples <= 32 { // what is assumed at first may be far off
		step = float64(t.fixed * (fixedStep + 0.5/float64(t.samples)))
	}
	if y-float64(x*t.perToken) > t.fixed {
		t.fixed += float64(step * (1 - fixedQuantile))
	} else {
		t.fixed = max(leastMoveFixed, t.fixed-float64(step*fixedQuantile))
	}
	// What prompts of one length take says nothing about longer ones: only by what longer ones take more is a token's share told from
	// what is fixed. As long as their lengths hardly differ, what was assumed stays.
	t.n, t.x, t.y = float64(t.n*keepSample)+1, float64(t.x*keepSample)+x, float64(t.y*keepSample)+y
	t.xx, t.xy = float64(t.xx*keepSample)+float64(x*x), float64(t.xy*keepSample)+float64(x*y)
	spread := max(0, t.xx-float64(t.x*t.x)/t.n)
	slope := t.xy - float64(t.x*t.y)/t.n
	const weight = priorTokens * priorTokens
	t.perToken = max((slope+float64(weight*t.prior))/(spread+weight), leastMovePerToken)
}

// meanTransfer is what is assumed of endpoints without a sample.
func (r *Router) meanTransfer(now time.Time) {
	m := transfer{}
	for _, ep := range r.endpoints {
		if t := &ep.transfer; t.samples > 0 {
			m.perToken, m.fixed, m.samples = m.perToken+t.perToken, m.fixed+t.fixed, m.samples+1
		}
	}
	if n := float64(m.samples); n > 0 {
		m.perToken, m.fixed, m.at = m.perToken/n, m.fixed/n, now
		r.moved = m
	}
}
