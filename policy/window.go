package policy

import (
	"time"

	"github.com/warmpath/warmpath/pick"
)

// window is a sum for each endpoint over the last seconds, by Candidate.Slot.
type window struct {
	seconds int
	slots   []windowed
}

type windowed struct {
	key    uint64 // of the endpoint that has the slot now
	second int64  // the last one that buckets holds
	sum    float64
	bucket []float64 // by second, around
}

// of is the sum of a candidate.
func (w *window) of(c *pick.Candidate, now time.Time) float64 { return w.at(c, now).sum }

// add adds to the present second.
func (w *window) add(c *pick.Candidate, now time.Time, amount float64) {
	e := w.at(c, now)
	e.bucket[bucketOf(e.second, w.seconds)] += amount
	e.sum += amount
}

// at is the state of a candidate, moved on to the present second.
func (w *window) at(c *pick.Candidate, now time.Time) *windowed {
	for len(w.slots) <= c.Slot {
		w.slots = append(w.slots, windowed{})
	}
	e, second := &w.slots[c.Slot], now.Unix()
	switch {
	case e.bucket == nil:
		*e = windowed{key: c.Key, second: second, bucket: make([]float64, w.seconds)}
	case e.key != c.Key:
		clear(e.bucket)
		*e = windowed{key: c.Key, second: second, bucket: e.bucket}
	}
	if second <= e.second {
		return e
	}
	for s := max(e.second+1, second-int64(w.seconds)+1); s <= second; s++ {
		e.bucket[bucketOf(s, w.seconds)] = 0
	}
	e.second, e.sum = second, 0
	for _, amount := range e.bucket { // added up anew, so that rounding does not add up
		e.sum += amount
	}
	return e
}

// bucketOf is where a second has its bucket; seconds before 1970 are negative.
func bucketOf(second int64, buckets int) int {
	return int(((second % int64(buckets)) + int64(buckets)) % int64(buckets))
}
