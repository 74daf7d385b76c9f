package quota

import "time"

// bucket is what is left of so many a minute: it fills evenly up to a whole minute's worth. What it owes is below zero.
type bucket struct {
	perMinute float64 // 0 for no limit
	left      float64
	at        time.Time
}

// set gives it another limit, of which it has used what it has used of the one before.
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

// wait is for how long there will not be n; of more than a minute's worth it is until the bucket is full.
func (b *bucket) wait(n float64) time.Duration {
	if b.perMinute <= 0 {
		return 0
	}
	return b.until(min(n, b.perMinute))
}

// until is when there will be so many.
func (b *bucket) until(n float64) time.Duration {
	if b.left >= n || b.perMinute <= 0 {
		return 0
	}
	return time.Duration((n - b.left) / b.perMinute * float64(time.Minute))
}

// take takes n, or gives it back where it is negative.
func (b *bucket) take(n float64) {
	if b.perMinute > 0 {
		b.left = min(b.perMinute, b.left-n)
	}
}

// remaining is what is left; nil without a limit.
func (b *bucket) remaining() *int64 {
	if b.perMinute <= 0 {
		return nil
	}
	n := int64(b.left)
	return &n
}

// full reports whether nothing of it is used.
func (b *bucket) full() bool { return b.perMinute <= 0 || b.left >= b.perMinute }
