package drive

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets of a microsecond up to 2 ms, and above that of at most a thousandth of the
// duration, so that all gaps between the tokens of a long run fit in little memory.
type Histogram struct {
	counts []int64
	n      int64
	sum    int64 // us
}

// exactBits is the number of significant bits of a bucket.
const exactBits = 11

func (h *Histogram) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 0))
	shift := max(bits.Len64(us)-exactBits, 0)
	at := shift<<(exactBits-1) + int(us>>shift)
	for at >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, max(at+1-len(h.counts), 1<<exactBits))...)
	}
	h.counts[at]++
	h.n++
	h.sum += int64(us)
}

// Rank is a percentile by nearest rank in ms: the lower bound of its bucket; 0 when empty.
func (h *Histogram) Rank(percent int64) float64 {
	rank := max((h.n*percent+99)/100, 1)
	for at, n := range h.counts {
		if rank -= n; rank <= 0 {
			shift := max(at>>(exactBits-1)-1, 0)
			return float64((at-shift<<(exactBits-1))<<shift) / 1000
		}
	}
	return 0
}

// Mean is the mean in ms, 0 when empty.
func (h *Histogram) Mean() float64 {
	if h.n == 0 {
		return 0
	}
	return float64(h.sum/h.n) / 1000
}
