// Package instant is a moment as one number, which goroutines can share without a lock. It promises that the difference
// of two is the time between them also where the clock was set meanwhile; that of two Unix times is not.
package instant

import (
	"sync/atomic"
	"time"
)

// origin lies a century back. So the zero value of a field is an instant long ago. Origin also lies before the year
// 2000, in which the clocks of some tests begin.
var origin = time.Now().Add(-100 * 365 * 24 * time.Hour)

// Now is the present instant, in nanoseconds.
func Now() int64 { return Of(time.Now()) }

// Of is the instant of a time that time.Now returned, or one before or after it.
func Of(t time.Time) int64 { return int64(t.Sub(origin)) }

// Time is the time of an instant, as the clock is set now.
func Time(n int64) time.Time {
	now := time.Now()
	return now.Add(time.Duration(n - Of(now)))
}

// Steady returns t by a clock that is never set: the wall clock's time when the process began, plus the monotonic time
// since then. t needs a monotonic reading, as times of time.Now have. Processes can tell each other steady times.
func Steady(t time.Time) time.Time { return origin.Add(t.Sub(origin)) }

// Skip moves an instant on by a time that has just passed and is not to count. A 0, or what another goroutine stores at
// the same moment, stays.
func Skip(at *atomic.Int64, passed time.Duration) {
	if was := at.Load(); was != 0 {
		at.CompareAndSwap(was, was+int64(passed))
	}
}
