package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/learnt"
)

// transfer fits the time until a decoder has received a prompt's KV cache and made the first token: fixed + perToken ×
// tokens moved × concurrent transfers, since these share the decoder's link.
type transfer struct {
	learnt.Moves
	samples int
	at      time.Time // latest sample
}

const (
	// Defaults: 128 kB of KV cache per token (8B model, grouped-query attention, 16 bits) over 50 Gbit/s, and besides a
	// few round trips and a decode step, together as long as two of these
	firstMovePerToken = 0.02
	firstMoveFixed    = 2 * FirstPace
	forgetMoves       = time.Minute
)

// learnt is the speed that has been fitted.
func (t *transfer) learnt() backlog.Transfer {
	return backlog.Transfer{MsPerToken: t.PerToken, FixedMs: float64(t.Fixed)}
}

// transferOf is the transfer speed to an endpoint: its own, else the fleet's mean, else the default.
func (t *Table) transferOf(now time.Time, tr *transfer) backlog.Transfer {
	switch known := !t.without.Has(ablation.TransferSpeed); {
	case known && tr.samples > 0:
		return recent(tr.learnt(), tr.at, now)
	case known && t.moved.MsPerToken > 0:
		return recent(t.moved, t.movedAt, now)
	}
	return backlog.Transfer{MsPerToken: firstMovePerToken, FixedMs: firstMoveFixed}
}

// recent ages an estimate. A slow link gets no transfers, so nothing shows when it recovers: the part above the default
// halves with each minute without a transfer.
func recent(t backlog.Transfer, at, now time.Time) backlog.Transfer {
	slow := func() bool { return t.MsPerToken > firstMovePerToken || t.FixedMs > firstMoveFixed }
	for age := min(now.Sub(at), 64*forgetMoves); age >= forgetMoves && slow(); age -= forgetMoves {
		t.MsPerToken = min(t.MsPerToken, (t.MsPerToken+firstMovePerToken)/2)
		t.FixedMs = min(t.FixedMs, (t.FixedMs+firstMoveFixed)/2)
	}
	return t
}

// learnTransfer learns from a decode leg's first byte, without the predicted wait. A leg that waited for a place is no
// sample.
func (t *Table) learnTransfer(now time.Time, j *backlog.Job) {
	if j.Handed.IsZero() || j.WaitedForPlace || !j.Stream {
		return // a non-streamed answer has no first byte of its own
	}
	tr := &t.endpoints.Get(j.Slot).transfer
	pace := t.transferOf(now, tr)
	took, tokens := fleet.Ms(now.Sub(j.Handed)), float64(max(j.Transfer, 1))
	among := 1.0 // mean number of concurrent transfers, this one included
	if took > 0 && !t.without.Has(ablation.Links) {
		among = max(1, j.TransferArea/took)
	}
	took = max(0, took-j.WaitMs)
	tr.at = now
	tr.samples++
	tr.learn(float64(tokens*among), took, 1/float64(among*among), pace)
	t.meanTransfer(now)
}

// learn adds a sample that is counted already: x tokens took y ms, with weight w. y is clamped to four times the
// prediction, twice after 33 samples: an engine that compiles, or connects to a peer for the first time, is not slow.
func (t *transfer) learn(x, y, w float64, assumed backlog.Transfer) {
	n := t.samples
	if n == 1 {
		t.PerToken, t.Fixed = assumed.MsPerToken, fit.Quantile(assumed.FixedMs)
		t.Prior = t.PerToken
	}
	expected := float64(t.Fixed) + float64(x*t.PerToken)
	most := float64(fit.Outlier * expected)
	if n > 33 {
		most = float64(fit.Outlier / 2 * expected)
	}
	y = min(y, most)
	rate := 2 * fit.Usual
	if n <= 32 { // the default may be far off
		rate += 0.5 / float64(n)
	}
	t.Fixed.Add(fixedQuantile, rate, leastMs, y-float64(x*t.PerToken))
	// Prompts of one length cannot separate perToken from fixed, so the prior holds until lengths differ.
	t.Line.Add(1-fit.Usual, w, x, y)
	t.PerToken = max(t.Line.Slope(t.Prior, priorTokens*priorTokens), fit.Least)
}

// meanTransfer updates the default for endpoints without a transfer.
func (t *Table) meanTransfer(now time.Time) {
	m, n := backlog.Transfer{}, 0.0
	for _, slot := range t.order {
		tr := &t.endpoints.Get(slot).transfer
		if tr.samples == 0 {
			continue
		}
		m.MsPerToken, m.FixedMs, n = m.MsPerToken+tr.PerToken, m.FixedMs+float64(tr.Fixed), n+1
	}
	if n > 0 {
		t.moved, t.movedAt = backlog.Transfer{MsPerToken: m.MsPerToken / n, FixedMs: m.FixedMs / n}, now
	}
}
