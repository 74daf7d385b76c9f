package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/backlog"
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
func (t *transfer) best() backlog.Transfer {
	if t.shared.off > fit.Mean(aloneShown*t.alone.off) {
		return backlog.Transfer{MsPerToken: t.alone.perToken, FixedMs: float64(t.alone.fixed), Shares: false}
	}
	return backlog.Transfer{MsPerToken: t.shared.perToken, FixedMs: float64(t.shared.fixed), Shares: true}
}

// transferOf is how fast KV cache comes to an endpoint, or what is assumed of it: the mean of the others.
func (t *Table) transferOf(now time.Time, tr *transfer) backlog.Transfer {
	if tr.samples > 0 {
		return recent(tr.best(), tr.at, now)
	}
	if t.moved.MsPerToken > 0 {
		return recent(t.moved, t.movedAt, now)
	}
	return backlog.Transfer{MsPerToken: firstMovePerToken, FixedMs: firstMoveFixed}
}

// recent is what is thought now. Transfers that were slow are not tried again while they are thought to be, so that nothing would show
// that they have become quick: what is above the first assumption halves with each minute without a transfer.
func recent(t backlog.Transfer, at, now time.Time) backlog.Transfer {
	for age := now.Sub(at); age >= forgetMoves && (t.MsPerToken > firstMovePerToken || t.FixedMs > firstMoveFixed) && age < 64*forgetMoves; age -= forgetMoves {
		t.MsPerToken = min(t.MsPerToken, (t.MsPerToken+firstMovePerToken)/2)
		t.FixedMs = min(t.FixedMs, (t.FixedMs+firstMoveFixed)/2)
	}
	return t
}

// learnTransfer takes in that a decode leg's first byte came. What was expected to be in front of it is taken off. One that found all places taken
// waited for a place, and says nothing.
func (t *Table) learnTransfer(now time.Time, j *backlog.Job) {
	if j.Handed.IsZero() || j.Held || j.Stale || !j.Stream {
		return // an answer that comes as a whole says when all of it was made
	}
	tr := &t.endpoints.Get(j.Slot).transfer
	pace := t.transferOf(now, tr)
	took, tokens := ms(now.Sub(j.Handed)), float64(max(j.Transfer, 1))
	among := 1.0 // transfers that were under way at a time, this one with them, on average
	if took > 0 {
		among = max(1, j.TransferArea/took)
	}
	took = max(0, took-j.WaitMs)
	tr.at = now
	tr.samples++
	tr.alone.learn(tokens, took, 1, pace, tr.samples)
	tr.shared.learn(float64(tokens*among), took, 1/float64(among*among), pace, tr.samples)
	t.meanTransfer(now)
}

// learn takes in that x tokens took y ms, the n-th sample, of such a weight, where so much was assumed. One sample moves the estimates by little, and a wild one
// counts as at most four times what was expected, and twice when much has been seen: an engine that compiles, or makes a first connection to another one, is not slow.
func (t *moves) learn(x, y, w float64, assumed backlog.Transfer, n int) {
	if n == 1 {
		t.perToken, t.fixed = assumed.MsPerToken, fit.Quantile(assumed.FixedMs)
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
func (t *Table) meanTransfer(now time.Time) {
	m, n, shares := backlog.Transfer{}, 0.0, 0
	for _, slot := range t.order {
		tr := &t.endpoints.Get(slot).transfer
		if tr.samples == 0 {
			continue
		}
		best := tr.best()
		m.MsPerToken, m.FixedMs, n = m.MsPerToken+best.MsPerToken, m.FixedMs+best.FixedMs, n+1
		if best.Shares {
			shares++
		}
	}
	if n > 0 {
		t.moved, t.movedAt = backlog.Transfer{MsPerToken: m.MsPerToken / n, FixedMs: m.FixedMs / n, Shares: float64(2*shares) > n}, now
	}
}
