package speed

import (
	"sort"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
)

// batch is the prompts of streams whose first bytes came together: engines compute several in one step.
type batch struct {
	begin, end time.Time
	tokens     int64     // predicted uncached tokens
	fresh      bool      // the engine was idle when it arrived
	held       bool      // it may have waited for a place (a slot of the engine), so its time is no measure of speed
	open       int64     // of tokens, those of requests that have not ended
	counts     fit.Whole // the provisional sample: µs over tokens
}

// Engines report cached tokens at the end of an answer, which may take minutes. Until then a prompt counts as a provisional sample
// from its first byte on, with the predicted uncached tokens; the usage replaces it.

const mostEarly = 1e16 // the sum of maxBatches of them does not overflow

// computed adds a stream whose first byte came and returns its batch.
func (s *prefill) computed(now time.Time, j *backlog.Job) *batch {
	b := batch{begin: j.Sent, end: now, tokens: j.Prefill + j.Between, fresh: true, held: j.Ambiguous, open: teaches(j)}
	if n := len(s.batches); n > 0 {
		last := &s.batches[n-1]
		if now.Sub(last.end) < sameStep {
			last.end, last.tokens, last.held, last.open = now, last.tokens+b.tokens, last.held || j.Ambiguous, last.open+b.open
			return last
		}
		if last.end.After(b.begin) {
			b.begin, b.fresh = last.end, false
		}
		if n >= maxBatches {
			for i := range s.batches[:n/2] {
				s.takeOff(&s.batches[i])
			}
			s.batches = append(s.batches[:0], s.batches[n/2:]...)
		}
	}
	b.held = b.held || b.fresh && j.Between > 0 // how much of the work in front was done when it arrived is unknown
	s.batches = append(s.batches, b)
	return &s.batches[len(s.batches)-1]
}

// teaches is the number of predicted uncached tokens that a stream's first byte is a sample for.
func teaches(j *backlog.Job) int64 {
	if j.Class != fleet.Turn || j.Leg == fleet.LegDecode {
		return 0
	}
	return j.Prefill
}

// batchOf finds the batch of a first byte; nil if it is no longer kept.
func (s *prefill) batchOf(first time.Time) *batch {
	i := sort.Search(len(s.batches), func(i int) bool { return !s.batches[i].end.Before(first) })
	if i == len(s.batches) || !s.batches[i].begin.Before(first) {
		return nil
	}
	return &s.batches[i]
}

// guess makes a batch a provisional sample with the predicted tokens, clamped as in prefill.take.
func (s *prefill) guess(b *batch, perToken, fixed float64) {
	s.takeOff(b)
	x, y, start := float64(b.tokens), ms(b.end.Sub(b.begin)), 0.0
	if b.held || b.open <= 0 || y < float64(x*backlog.LeastMsPerToken) { // too fast to have been computed
		return
	}
	if b.fresh {
		start = fixed
	}
	expected := start + float64(x*perToken)
	y = max(y, expected/outlier)
	if s.samples >= 3 {
		y = min(y, float64(expected*outlier))
	}
	y = max(y-start, y/16)
	weight := float64(float64(float64(b.open)/x) * bounded(x))
	b.counts = fit.Whole{XX: int64(min(float64(weight*float64(x*x)), mostEarly)), XY: int64(min(float64(weight*float64(x*y))*1000, mostEarly))}
	s.early.Add(b.counts)
}

// takeOff removes a batch's provisional sample.
func (s *prefill) takeOff(b *batch) {
	s.early.TakeOff(b.counts)
	b.counts = fit.Whole{}
}

// ended removes a finished request's share of its batch's provisional sample.
func (s *prefill) ended(j *backlog.Job) {
	if !j.Stream || j.First.IsZero() || teaches(j) <= 0 {
		return
	}
	b := s.batchOf(j.First)
	if b == nil || b.open <= 0 {
		return
	}
	counts, left := b.counts, max(0, b.open-j.Prefill)
	s.takeOff(b)
	b.open, b.counts = left, counts.Share(float64(left)/float64(b.open))
	s.early.Add(b.counts)
}

// withEarly combines a settled or default ms per token with the provisional samples.
func (s *prefill) withEarly(perToken float64) float64 {
	if s.early.XX <= 0 {
		return perToken
	}
	xx := float64(s.line.AA)
	if s.samples == 0 {
		xx = priorTokens * priorTokens
	}
	return max((float64(perToken*xx)+float64(s.early.XY)/1000)/(xx+float64(s.early.XX)), backlog.LeastMsPerToken)
}
