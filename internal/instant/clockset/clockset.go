// Package clockset is a clock that somebody sets, for tests.
package clockset

import (
	"time"
	"unsafe"
)

// By is the time that time.Now would return in place of t, which it returned, if the clock had been set by d in whole
// seconds before. Of the first word of a time.Time with a monotonic reading the bits from the 30th on count the seconds
// since 1885.
func By(d time.Duration, t time.Time) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(d/time.Second) << 30
	return t
}
