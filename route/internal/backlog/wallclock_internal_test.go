package backlog

import (
	"testing"
	"time"
	"unsafe"
)

// set is a time whose wall clock was set by so many seconds: time.Time has these from bit 30 of its first word on while
// it has a monotonic reading, which stays.
func set(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) << 30
	return t
}

// TestWallClockIsSet: what tenants have used halves by the time that has passed, whatever the wall clock says.
func TestWallClockIsSet(t *testing.T) {
	now := time.Now()
	if ahead := set(now, 3600); ahead.Unix()-now.Unix() != 3600 || !ahead.Equal(now) {
		t.Fatal("time.Time has another form than set changes: let set follow it")
	}
	s := &tenants{of: map[string]*tenant{}}
	s.halve(now)
	x := &tenant{used: 1 << 40}
	s.of["a"] = x
	s.halve(set(now, 5*3600))
	if x.used != 1<<40 {
		t.Errorf("the clock goes forward: %d", x.used)
	}
	s.halve(set(now.Add(3*halfLife), -5*3600))
	if x.used != 1<<37 {
		t.Errorf("three half-lives after, and the clock goes back: %d, want %d", x.used, 1<<37)
	}
}
