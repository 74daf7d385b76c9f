package sent

import (
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/slot"
)

// Window is a sum per endpoint over recent seconds.
type Window struct {
	Seconds int
	began   time.Time // of second 0; zero before the first sum
	sums    slot.Table[windowed]
}

type windowed struct {
	second int64 // the latest second in bucket
	sum    float64
	bucket []float64 // by second, circular
}

// Of is the sum of a candidate.
func (w *Window) Of(c *pick.Candidate, now time.Time) float64 {
	e, second := w.sums.Peek(c.Slot, c.Key), w.second(now)
	switch {
	case e == nil:
		return 0
	case second <= e.second:
		return e.sum
	case second-e.second >= int64(w.Seconds):
		return 0
	}
	sum := 0.0
	for i, amount := range e.bucket {
		if age := bucketOf(e.second-int64(i), w.Seconds); second-(e.second-int64(age)) < int64(w.Seconds) {
			sum += amount
		}
	}
	return sum
}

// Advance forgets what lies too far back, so that Of has less to add up.
func (w *Window) Advance(cs []pick.Candidate, now time.Time) {
	for i := range cs {
		w.at(&cs[i], now)
	}
}

// Add adds to the current second.
func (w *Window) Add(c *pick.Candidate, now time.Time, amount float64) {
	e := w.at(c, now)
	e.bucket[bucketOf(e.second, w.Seconds)] += amount
	e.sum += amount
}

// at is the state of a candidate, advanced to the current second.
func (w *Window) at(c *pick.Candidate, now time.Time) *windowed {
	if w.began.IsZero() {
		w.began = now.Add(-time.Duration(now.Nanosecond())) // Truncate would have it go by the wall
	}
	e, second := w.sums.At(c.Slot, c.Key), w.second(now)
	if e.bucket == nil {
		*e = windowed{second: second, bucket: make([]float64, w.Seconds)}
	}
	if second <= e.second {
		return e
	}
	for s := max(e.second+1, second-int64(w.Seconds)+1); s <= second; s++ {
		e.bucket[bucketOf(s, w.Seconds)] = 0
	}
	e.second, e.sum = second, 0
	for _, amount := range e.bucket { // summed anew, so that rounding errors do not accumulate
		e.sum += amount
	}
	return e
}

// second is the second of a moment. It does not go by the clock of the wall, which may be set.
func (w *Window) second(now time.Time) int64 { return int64(now.Sub(w.began) / time.Second) }

// bucketOf is the bucket of a second; those before the first are negative.
func bucketOf(second int64, buckets int) int {
	return int(((second % int64(buckets)) + int64(buckets)) % int64(buckets))
}
