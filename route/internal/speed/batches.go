package speed

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// batch is the prompts of streams whose first bytes came together: engines compute several in one step.
type batch struct {
	begin, end time.Time
	from       time.Time   // its earliest first byte; end is the latest
	tokens     int64       // predicted uncached tokens
	cached     int64       // predicted cached tokens
	fresh      bool        // the engine was idle when it arrived
	waited     bool        // it may have waited for a place at the engine, so its time is no measure of speed
	open       int64       // of tokens, those of requests that have not ended
	counts     fit.IntSums // the provisional sample: µs over tokens
}

// Engines report cached tokens at the end of an answer, which may take minutes. Until then a prompt counts as a
// provisional sample from its first byte on, with the predicted uncached tokens; the usage replaces it.

// computed adds a stream whose first byte came, and returns the batches that it changed. The first bytes of other
// routers' streams are heard of late, so it may come before others that are known; one from before all that are kept
// changes nothing.
func (s *prefill) computed(now time.Time, j *backlog.Job) (changed []batch) {
	i := sort.Search(len(s.batches), func(i int) bool { return s.batches[i].end.After(now) })
	switch {
	case i < len(s.batches) && s.batches[i].from.Sub(now) < sameStep:
	case i > 0 && now.Sub(s.batches[i-1].end) < sameStep:
		i--
	default:
		if i = s.makeRoom(i); i < 0 {
			return nil
		}
		s.batches = slices.Insert(s.batches, i, batch{end: now})
	}
	b := &s.batches[i]
	if b.from.IsZero() || now.Before(b.from) {
		b.from, b.begin, b.fresh = now, j.Sent, true
		if i > 0 && s.batches[i-1].end.After(b.begin) {
			b.begin, b.fresh = s.batches[i-1].end, false
		}
		// how much of the work in front was done when it arrived is unknown
		b.waited = b.waited || b.fresh && j.Between > 0
	}
	if now.After(b.end) {
		b.end = now
	}
	b.tokens, b.open, b.waited = b.tokens+j.Prefill+j.Between, b.open+teaches(j), b.waited || j.Ambiguous
	b.cached += int64(j.CachedTokens)
	if i > 0 && b.from.Sub(s.batches[i-1].end) < sameStep {
		i--
		s.join(i)
	}
	if i+1 == len(s.batches) {
		return s.batches[i:]
	}
	if next := &s.batches[i+1]; s.batches[i].end.After(next.begin) {
		next.begin, next.fresh = s.batches[i].end, false
	}
	return s.batches[i : i+2]
}

// makeRoom forgets the older half of the batches if there are as many as are kept. It returns where the place i is
// then; negative if what came before that place is forgotten.
func (s *prefill) makeRoom(i int) int {
	if n := len(s.batches); n >= maxBatches {
		for k := range s.batches[:n/2] {
			s.takeOff(&s.batches[k])
		}
		s.batches = append(s.batches[:0], s.batches[n/2:]...)
		i -= n / 2
	}
	if i == 0 && len(s.batches) >= maxBatches/2 {
		return -1
	}
	return i
}

// join makes a batch and the one after it one.
func (s *prefill) join(i int) {
	b, next := &s.batches[i], &s.batches[i+1]
	s.takeOff(next)
	b.end, b.tokens, b.open, b.waited = next.end, b.tokens+next.tokens, b.open+next.open, b.waited || next.waited
	b.cached += next.cached
	s.batches = slices.Delete(s.batches, i+1, i+2)
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
func (s *prefill) guess(b *batch, settled pace) {
	s.takeOff(b)
	x, y, start := float64(b.tokens), fleet.Ms(b.end.Sub(b.begin)), 0.0
	if b.waited || b.open <= 0 || y < float64(x*backlog.LeastMsPerToken) || s.mayFetch(int(b.cached), x) {
		return
	}
	if b.fresh {
		start = settled.fixed
	}
	expected := start + float64(x*settled.perToken)
	y = max(y, expected/fit.Outlier)
	if s.knows() {
		y = min(y, float64(expected*fit.Outlier))
	}
	y = beyond(y, start)
	weight := float64(float64(float64(b.open)/x) * bounded(x))
	most := float64(math.MaxInt64 / maxBatches) // those of maxBatches batches are added up in 64 bits
	b.counts = fit.IntSums{
		XX: int64(min(float64(weight*float64(x*x)), most)), XY: int64(min(float64(weight*float64(x*y))*1000, most)),
	}
	s.early.Add(b.counts)
}

// takeOff removes a batch's provisional sample.
func (s *prefill) takeOff(b *batch) {
	s.early.TakeOff(b.counts)
	b.counts = fit.IntSums{}
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
	xx := float64(s.Line.AA)
	if s.Samples == 0 {
		xx = priorTokens * priorTokens
	}
	return max((float64(perToken*xx)+float64(s.early.XY)/1000)/(xx+float64(s.early.XX)), backlog.LeastMsPerToken)
}
