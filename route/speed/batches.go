package speed

import (
	"sort"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/backlog"
)

// batch is prompts of streams whose first bytes came together: engines compute several in one step.
type batch struct {
	begin, end time.Time
	tokens     int64     // uncached, as predicted
	fresh      bool      // nothing was being computed when it came
	held       bool      // it may have waited for a place, which says nothing about speed
	open       int64     // of tokens, those of turns that have not ended
	counts     fit.Whole // what they count for before their turns have ended: µs over tokens
}

// How much of a prompt was cached an engine says at the end of the answer. One that computes a part of some other prompt in each step may
// take minutes to it, and all that time prompts would be sent there, and the queue be reckoned, at a speed that was only assumed. So a
// prompt counts from its first byte on, as what was predicted of it, until usage takes the place of that.

const mostEarly = 1e16 // maxBatches of them do not overflow

// computed notes that a stream's first byte came, and returns its batch.
func (s *prefill) computed(now time.Time, j *backlog.Job) *batch {
	b := batch{begin: j.Sent, end: now, tokens: j.Prefill + j.Between, fresh: true, held: j.Blurred, open: teaches(j)}
	if n := len(s.batches); n > 0 {
		last := &s.batches[n-1]
		if now.Sub(last.end) < sameStep {
			last.end, last.tokens, last.held, last.open = now, last.tokens+b.tokens, last.held || j.Blurred, last.open+b.open
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
	b.held = b.held || b.fresh && j.Between > 0 // of what was in front nobody knows how much was done when it came
	s.batches = append(s.batches, b)
	return &s.batches[len(s.batches)-1]
}

// teaches is how many uncached tokens, as predicted, a stream's first byte tells the time of.
func teaches(j *backlog.Job) int64 {
	if j.Class != fleet.Turn || j.Leg == fleet.LegDecode {
		return 0
	}
	return j.Prefill
}

// batchOf is the batch that a first byte belongs to; nil when it is too long ago.
func (s *prefill) batchOf(first time.Time) *batch {
	i := sort.Search(len(s.batches), func(i int) bool { return !s.batches[i].end.Before(first) })
	if i == len(s.batches) || !s.batches[i].begin.Before(first) {
		return nil
	}
	return &s.batches[i]
}

// guess lets a batch count as what was predicted of it. Wild ones count for at most so much as in prefill.take.
func (s *prefill) guess(b *batch, perToken, fixed float64) {
	s.takeOff(b)
	x, y, start := float64(b.tokens), ms(b.end.Sub(b.begin)), 0.0
	if b.held || b.open <= 0 || y < float64(x*backlog.LeastMsPerToken) { // as quick as that was not computed
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

// takeOff lets a batch count for nothing.
func (s *prefill) takeOff(b *batch) {
	s.early.TakeOff(b.counts)
	b.counts = fit.Whole{}
}

// ended takes off what a turn counted for since its first byte.
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

// withEarly is a settled time for a token, or one that is assumed, together with what has not been settled.
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
