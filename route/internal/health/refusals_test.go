package health

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// TestRefusalsAreBounded: the callers remembered of an endpoint are as many as fit, the latest; those whose time is
// over make room.
func TestRefusalsAreBounded(t *testing.T) {
	var s refusals
	now := time.Unix(1000, 0)
	for caller := range uint64(3 * bound.Few) {
		s.add(now, caller+1, now.Add(time.Minute))
		now = now.Add(time.Millisecond)
	}
	if len(s) != bound.Few || !s.stops(now, 3*bound.Few) || s.stops(now, 1) || s.stops(now, 0) {
		t.Errorf("%d remembered, the latest %t, the first %t", len(s), s.stops(now, 3*bound.Few), s.stops(now, 1))
	}
	now = now.Add(time.Minute)
	if all := s.add(now, 1, now.Add(time.Second)); !all.IsZero() || len(s) != 1 {
		t.Errorf("%d remembered after their time, busy for all until %v", len(s), all)
	}
}

// TestBusyIsNotShortened: an endpoint that has asked for a pause keeps it, whatever it answers to requests that were
// under way: to all callers, and to each.
func TestBusyIsNotShortened(t *testing.T) {
	now := time.Unix(1000, 0)
	long, short := 30*time.Second, time.Duration(0)
	for name, v := range map[string]Verdict{
		"503": {Outcome: fleet.Busy}, "429 without a key": {Outcome: fleet.Busy, Limited: true}, "429 of a key": {
			Outcome: fleet.Busy, Limited: true, Caller: 7,
		},
	} {
		tab := New(Config{
			EjectAfter: 3, EjectFor: time.Second, EjectMax: time.Minute, EjectShare: 1, BusyFor: time.Second,
			BusyMax: time.Minute,
		})
		tab.AddEndpoint(0)
		tab.Probe(now, 0, true, "")
		refuse := func(after, retry time.Duration) {
			v.RetryAfter = retry
			tab.Conclude(now.Add(after), 0, &v, func() Census { return Census{All: 2} })
		}
		strained := func(after time.Duration) bool {
			return tab.Rank(now.Add(after), 0, 7, ObeyEjections) == Strained
		}
		refuse(0, long)
		refuse(100*time.Millisecond, short)
		refuse(200*time.Millisecond, 2*time.Second)
		if !strained(29*time.Second) || strained(30*time.Second) {
			t.Errorf("%s: avoided after 29 s: %t, after 30 s: %t",
				name, strained(29*time.Second), strained(30*time.Second))
		}
		refuse(31*time.Second, short)
		if !strained(31*time.Second+time.Millisecond) || strained(33*time.Second) {
			t.Errorf("%s: a new pause does not count, or for too long", name)
		}
		refuse(40*time.Second, short)
		refuse(40*time.Second, long)
		if !strained(69 * time.Second) {
			t.Errorf("%s: a longer pause does not count", name)
		}
	}
}

// TestRefusalsEnd: after any refusal an endpoint is judged by its probes alone again once its time is over, whether a
// probe came since or not, and after a probe at no more cost than one that never refused.
func TestRefusalsEnd(t *testing.T) {
	for _, v := range []Verdict{
		{Outcome: fleet.Busy},
		{Outcome: fleet.Busy, RetryAfter: time.Minute},
		{Outcome: fleet.Busy, Limited: true},
		{Outcome: fleet.Busy, Limited: true, Caller: 1},
		{Outcome: fleet.Busy, Limited: true, Caller: 1, RetryAfter: time.Minute},
	} {
		h := New(Config{BusyFor: time.Second, BusyMax: time.Minute})
		now := time.Unix(1000, 0)
		h.AddEndpoint(0)
		h.Probe(now, 0, true, "")
		h.Conclude(now, 0, &v, nil)
		if h.ProbesDecide(now, 0) {
			t.Errorf("%+v changes nothing", v)
		}
		now = now.Add(time.Hour)
		if !h.ProbesDecide(now, 0) {
			t.Errorf("an hour after %+v the endpoint is not judged by probes alone", v)
		}
		h.Probe(now, 0, true, "")
		if n := len(h.endpoints.Get(0).refusals); n > 0 {
			t.Errorf("an hour after %+v and a probe, %d refusals are remembered", v, n)
		}
	}
}
