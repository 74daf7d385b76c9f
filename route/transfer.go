package route

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// transfer is what is learnt of how long it takes until a decoder that is asked for an answer has the KV cache of its prompt from
// where it was computed, and has made the first token of it: fixed, plus perToken for every token that is moved. Transfers to one decoder
// share its link, unless that explains what they take much worse than that each has all the speed it can use. Before the first of them none is
// thought to wait for others.
type transfer struct {
	shared, alone moves
	samples       int
	at            time.Time // of the latest sample
}

// moves is a line through samples: of tokens, or of tokens times the transfers among which one was under way.
type moves struct {
	perToken float64      // ms; 0 before the first sample
	fixed    fit.Quantile // ms
	prior    float64      // perToken before the first sample
	off      fit.Mean     // ms by which it was wrong, over the latest samples
	line     fit.Line     // ms over tokens
}

// movePace is how fast KV cache comes to a decoder.
type movePace struct {
	perToken, fixed float64
	shares          bool // transfers that are under way at a time take their part of the speed each
}

const (
	// What is assumed before the first transfer: 128 kB of KV cache a token, an 8B model with grouped-query attention in 16
	// bits, over 50 Gbit/s, and a handful of round trips and a decode step.
	firstMovePerToken = 0.02
	firstMoveFixed    = 20.0
	leastMovePerToken = 1e-5 // ms
	leastMoveFixed    = 0.1  // ms
	forgetMoves       = time.Minute
	aloneShown        = 2 // times as wrong as the other line that of a shared link must be not to be believed
)

// best is the line that is believed. Where few transfers meet both are as good, and the first ones say little.
func (t *transfer) best() movePace {
	if t.shared.off > fit.Mean(aloneShown*t.alone.off) {
		return movePace{t.alone.perToken, float64(t.alone.fixed), false}
	}
	return movePace{t.shared.perToken, float64(t.shared.fixed), true}
}

// transferOf is how fast KV cache comes to an endpoint, or what is assumed of it: the mean of the others.
func (r *Router) transferOf(now time.Time, ep *endpoint) movePace {
	if ep.transfer.samples > 0 {
		return ep.transfer.best().recent(ep.transfer.at, now)
	}
	if r.moved.perToken > 0 {
		return r.moved.recent(r.movedAt, now)
	}
	return movePace{firstMovePerToken, firstMoveFixed, false}
}

// recent is what is thought now. Transfers that were slow are not tried again while they are thought to be, so that nothing would show
// that they have become quick: what is above the first assumption halves with each minute without a transfer.
func (t movePace) recent(at, now time.Time) movePace {
	for age := now.Sub(at); age >= forgetMoves && (t.perToken > firstMovePerToken || t.fixed > firstMoveFixed) && age < 64*forgetMoves; age -= forgetMoves {
		t.perToken = min(t.perToken, (t.perToken+firstMovePerToken)/2)
		t.fixed = min(t.fixed, (t.fixed+firstMoveFixed)/2)
	}
	return t
}

// transferring notes that a decoder has been asked, and that what it needs has been computed.
func (r *Router) transferring(now time.Time, l fleet.Lease) {
	f := r.flight(l)
	if f == nil || f.leg != fleet.LegDecode || f.prefilled {
		return
	}
	r.passes(now, f.ep)
	n := f.ep.places()
	f.held = n > 0 && f.ep.sent()-len(f.ep.coming) >= n
	f.handed, f.left, f.area = now, float64(f.transfer), f.ep.link.area
}

// learnTransfer takes in that a decode leg's first byte came. What was expected to be in front of it is taken off. One that found all places taken
// waited for a place, and says nothing.
func (r *Router) learnTransfer(now time.Time, f *flight) {
	if f.handed.IsZero() || f.held || f.incarnation != f.ep.incarnation || !f.stream {
		return // an answer that comes as a whole says when all of it was made
	}
	t := &f.ep.transfer
	pace := r.transferOf(now, f.ep)
	took, tokens := ms(now.Sub(f.handed)), float64(max(f.transfer, 1))
	among := 1.0 // transfers that were under way at a time, this one with them, on average
	if took > 0 {
		among = max(1, (f.ep.link.area-f.area)/took)
	}
	took = max(0, took-f.waitMs)
	t.at = now
	t.samples++
	t.alone.learn(tokens, took, 1, pace, t.samples)
	t.shared.learn(float64(tokens*among), took, 1/float64(among*among), pace, t.samples)
	r.meanTransfer(now)
}

// learn takes in that x tokens took y ms, the n-th sample, of such a weight, where so much was assumed. One sample moves the estimates by little, and a wild one
// counts as at most four times what was expected, and twice when much has been seen: an engine that compiles, or makes a first connection to another one, is not slow.
func (t *moves) learn(x, y, w float64, assumed movePace, n int) {
	if n == 1 {
		t.perToken, t.fixed = assumed.perToken, fit.Quantile(assumed.fixed)
		t.prior = t.perToken
	}
	expected := float64(t.fixed) + float64(x*t.perToken)
	most := float64(outlier * expected)
	if n > 33 {
		most = float64(outlier / 2 * expected)
	}
	y = min(y, most)
	t.off.Move(1-keepSample, max(y-expected, expected-y))
	rate := fixedStep
	if n <= 32 { // what is assumed at first may be far off
		rate = fixedStep + 0.5/float64(n)
	}
	t.fixed.Add(fixedQuantile, rate, leastMoveFixed, y-float64(x*t.perToken))
	// What prompts of one length take says nothing about longer ones: only by what longer ones take more is a token's share told from
	// what is fixed. As long as their lengths hardly differ, what was assumed stays.
	t.line.Add(keepSample, w, x, y)
	t.perToken = max(t.line.Slope(t.prior, priorTokens*priorTokens), leastMovePerToken)
}

// meanTransfer is what is assumed of endpoints without a sample.
func (r *Router) meanTransfer(now time.Time) {
	m, n, shares := movePace{}, 0.0, 0
	for _, ep := range r.endpoints {
		if ep.transfer.samples == 0 {
			continue
		}
		t := ep.transfer.best()
		m.perToken, m.fixed, n = m.perToken+t.perToken, m.fixed+t.fixed, n+1
		if t.shares {
			shares++
		}
	}
	if n > 0 {
		r.moved, r.movedAt = movePace{m.perToken / n, m.fixed / n, float64(2*shares) > n}, now
	}
}
