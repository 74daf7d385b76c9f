package quota

import "time"

// bucket is a token bucket with the capacity of one minute, filled evenly. Debt is below zero.
type bucket struct {
	perMinute float64 // 0 for no limit
	used      float64 // here, since it was full
	surcharge float64 // of these: what was charged more since other routers are not heard, see Table.SetRouters
	elsewhere float64 // used at other routers
}

// left is what there is.
func (b *bucket) left() float64 { return b.perMinute - b.used - b.elsewhere }

// fill fills it up for a time, and returns the part of what was used that is used still. Each router's use shrinks in
// proportion, so that all of them together are filled up as fast as one bucket.
func (b *bucket) fill(passed time.Duration) (keep float64) {
	if used := b.used + b.elsewhere; used > 0 && b.perMinute > 0 {
		keep = max(0, 1-b.perMinute*passed.Minutes()/used)
	}
	b.used, b.surcharge, b.elsewhere = b.used*keep, b.surcharge*keep, b.elsewhere*keep
	return keep
}

// wait is the time until n are available, or until the bucket is full if n exceeds it.
func (b *bucket) wait(n float64) time.Duration {
	return b.until(min(n, b.perMinute))
}

// until is the time until the bucket has this much.
func (b *bucket) until(n float64) time.Duration {
	left := b.left()
	if left >= n || b.perMinute <= 0 {
		return 0
	}
	return time.Duration((n - left) / b.perMinute * float64(time.Minute))
}

// take removes n at a cost each; a negative n gives back.
func (b *bucket) take(n, cost float64) {
	if b.perMinute > 0 {
		b.used = max(0, b.used+n*cost)
		b.surcharge = min(b.used, max(0, b.surcharge+n*(cost-1)))
	}
}

// forgive takes back what was charged more.
func (b *bucket) forgive() { b.used, b.surcharge = b.used-b.surcharge, 0 }

// remaining is the amount left, at a cost each; nil without a limit.
func (b *bucket) remaining(cost float64) *int64 {
	if b.perMinute <= 0 {
		return nil
	}
	n := int64(b.left() / cost)
	return &n
}

// full reports whether nothing is used.
func (b *bucket) full() bool { return b.perMinute <= 0 || b.used+b.elsewhere <= 0 }
