package quota

import "time"

// bucket is a token bucket with the capacity of one minute, filled evenly. Debt is below zero.
type bucket struct {
	perMinute float64 // 0 for no limit
	left      float64
	at        time.Time
}

// set changes the limit and keeps the amount used.
func (b *bucket) set(now time.Time, perMinute int64) {
	b.fill(now)
	was := b.perMinute
	b.perMinute, b.at = float64(perMinute), now
	b.left = min(b.perMinute, b.left+b.perMinute-was)
}

func (b *bucket) fill(now time.Time) {
	if b.perMinute <= 0 {
		return
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.left = min(b.perMinute, b.left+b.perMinute*passed.Minutes())
		b.at = now
	}
}

// wait is the time until n are available, or until the bucket is full if n exceeds it.
func (b *bucket) wait(n float64) time.Duration {
	if b.perMinute <= 0 {
		return 0
	}
	return b.until(min(n, b.perMinute))
}

// until is the time until the bucket has this much.
func (b *bucket) until(n float64) time.Duration {
	if b.left >= n || b.perMinute <= 0 {
		return 0
	}
	return time.Duration((n - b.left) / b.perMinute * float64(time.Minute))
}

// take removes n; a negative n gives back.
func (b *bucket) take(n float64) {
	if b.perMinute > 0 {
		b.left = min(b.perMinute, b.left-n)
	}
}

// remaining is the amount left; nil without a limit.
func (b *bucket) remaining() *int64 {
	if b.perMinute <= 0 {
		return nil
	}
	n := int64(b.left)
	return &n
}

// full reports whether nothing is used.
func (b *bucket) full() bool { return b.perMinute <= 0 || b.left >= b.perMinute }
