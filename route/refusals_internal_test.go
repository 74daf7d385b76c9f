package route

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
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

// TestRetriesForgetByTheSlot: counts leave slot by slot after a minute, whatever the clock does, and none goes below zero.
func TestRetriesForgetByTheSlot(t *testing.T) {
	c := Config{}.WithDefaults()
	b := newRetries(&c)
	now := time.Unix(1_000_000, 0)
	for range retrySlots {
		for range 100 {
			b.enter(now, &fleet.Request{})
			b.enter(now, &fleet.Request{Again: true})
		}
		now = now.Add(retrySlot)
	}
	for i := range retrySlots {
		b.advance(now)
		if want := (retryCount{100 * (retrySlots - 1 - i), 100 * (retrySlots - 1 - i)}); b.sum != want {
			t.Fatalf("after %d slots: %+v, want %+v", retrySlots+i, b.sum, want)
		}
		b.advance(now.Add(-time.Hour))
		now = now.Add(retrySlot)
	}
	if !b.allow(now, &fleet.Request{Again: true}) {
		t.Error("nothing is allowed a minute later")
	}
}
