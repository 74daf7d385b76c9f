package health

import (
	"testing"
	"time"
)

// TestRefusalsAreBounded: the callers remembered of an endpoint are as many as fit, the latest; those whose time is over make room.
func TestRefusalsAreBounded(t *testing.T) {
	var s refusals
	now := time.Unix(1000, 0)
	for caller := range uint64(3 * mostRefusals) {
		s.add(now, caller+1, now.Add(time.Minute))
		now = now.Add(time.Millisecond)
	}
	if len(s) != mostRefusals || !s.stops(now, 3*mostRefusals) || s.stops(now, 1) || s.stops(now, 0) {
		t.Errorf("%d remembered, the latest %t, the first %t", len(s), s.stops(now, 3*mostRefusals), s.stops(now, 1))
	}
	now = now.Add(time.Minute)
	if all := s.add(now, 1, now.Add(time.Second)); !all.IsZero() || len(s) != 1 {
		t.Errorf("%d remembered after their time, busy for all until %v", len(s), all)
	}
}
