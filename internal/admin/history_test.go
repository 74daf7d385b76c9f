package admin

import (
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

func TestHistory(t *testing.T) {
	tally, t0 := NewTally(), time.Unix(1_800_000_000, 0)
	turns := uint64(10)
	tally.Compare(func() []Beside {
		return []Beside{
			{Policy: "ours", Turns: turns, TTFTMs: 10 * float64(turns), PromptTokens: 100 * turns, CachedTokens: 90 *
				turns}, {Policy: "other", Turns: turns, TTFTMs: 40 * float64(turns)},
		}
	})
	serve := func(after time.Duration, endpoint string, cached int, outcome fleet.Outcome) {
		at := t0.Add(after)
		tally.Listener().Served(&live.Served{
			Status: 200, Outcome: outcome, Started: at.Add(-time.Second), FirstByte: at.Add(-900 * time.Millisecond),
			Ended: at, Stream: true,
			Usage:    fleet.Usage{PromptTokens: 100, CachedTokens: cached, CachedKnown: true, OutputTokens: 10},
			Decision: route.Decision{Endpoint: fleet.Endpoint{Name: endpoint}},
		})
	}
	serve(0, "a", 50, fleet.OK)              // 60 tokens computed
	serve(time.Second, "a", 100, fleet.OK)   // 10
	serve(2*time.Second, "b", 100, fleet.OK) // 10
	serve(3*time.Second, "b", 0, fleet.EngineError)
	turns += 5
	serve(25*time.Second, "b", 0, fleet.OK)
	got := tally.since(t0.Add(30*time.Second), 0)
	if len(got) != 3 {
		t.Fatalf("got %d points, want 3: %+v", len(got), got)
	}
	p := got[0]
	if p.At != t0.Unix()+10 || p.Requests != 4 || p.Failed != 1 || *p.HitRate != 250./400 {
		t.Errorf("first point: %+v, hit rate %v", p, *p.HitRate)
	}
	if b := *p.Balance; b != 70./40 {
		t.Errorf("balance %v, want 70 of a mean of 40", b)
	}
	if ms := 1000 * *p.TTFTP50; math.Abs(ms-100) > 10 {
		t.Errorf("TTFT p50 %v ms, want 100 to a tenth", ms)
	}
	if m := p.Policies; len(m) != 2 || m[1].Policy != "other" || math.Abs(*m[1].TTFT-.040) > 1e-9 ||
		*m[0].HitRate != .9 || m[1].HitRate != nil {
		t.Errorf("policies: %+v", m)
	}
	if e := got[1]; e.Requests != 0 || e.TTFTP50 != nil || e.HitRate != nil || e.Balance != nil ||
		e.Policies[0].TTFT != nil {
		t.Errorf("a point without traffic: %+v", e)
	}
	if more := tally.since(t0.Add(30*time.Second), got[1].At); len(more) != 1 || more[0].Requests != 1 {
		t.Errorf("after the second: %+v", more)
	}
	turns = 1 // the shadows began anew
	serve(31*time.Second, "b", 0, fleet.OK)
	if got = tally.since(t0.Add(40*time.Second), 0); got[3].Policies != nil {
		t.Errorf("counts that began anew: %+v", got[3].Policies)
	}
}

// TestHistoryWhereTheClockIsSetBack: it begins anew, and does not wait for the clock, nor does who has seen the former.
func TestHistoryWhereTheClockIsSetBack(t *testing.T) {
	tally, t0 := NewTally(), time.Unix(1_800_000_000, 0)
	for _, at := range []time.Time{t0, t0.Add(30 * time.Second), t0.Add(-time.Hour)} {
		tally.Listener().Served(&live.Served{Status: 200, Started: at, FirstByte: at, Ended: at})
	}
	for _, seen := range []int64{0, t0.Unix() + 30} {
		if got := tally.since(t0.Add(20*time.Second-time.Hour), seen); len(got) != 2 {
			t.Errorf("got %d points after %d, want 2: %+v", len(got), seen, got)
		}
	}
}

// TestHistoryOutOfOrder: a request that ended just before the latest ends no point.
func TestHistoryOutOfOrder(t *testing.T) {
	tally, t0 := NewTally(), time.Unix(1_800_000_000, 0)
	for _, at := range []time.Time{t0, t0.Add(30 * time.Second), t0.Add(29 * time.Second)} {
		tally.Listener().Served(&live.Served{Status: 200, Started: at, FirstByte: at, Ended: at})
	}
	if got := tally.since(t0.Add(40*time.Second), 0); len(got) != 4 {
		t.Errorf("got %d points, want 4: %+v", len(got), got)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	tally, t0 := NewTally(), time.Unix(1_800_000_000, 0)
	for i := range 2 * points {
		tally.Listener().Served(&live.Served{Status: 200, Ended: t0.Add(time.Duration(i) * pointSeconds * time.Second)})
	}
	now := t0.Add(2 * points * pointSeconds * time.Second)
	if got := tally.since(now, 0); len(got) != points || got[points-1].At != now.Unix() {
		t.Errorf("%d points to %d, want %d to %d", len(got), got[len(got)-1].At, points, now.Unix())
	}
	if got := tally.since(now.Add(24*time.Hour), 0); len(got) != 0 {
		t.Errorf("a day later %d points of the hour before", len(got))
	}
}

func TestSpread(t *testing.T) {
	for _, d := range []time.Duration{
		0, 100 * time.Microsecond, time.Millisecond, 37 * time.Millisecond, 4 * time.Second,
		time.Hour, 1000 * time.Hour,
	} {
		var s spread
		s.add(d)
		got, want := s.quantile(.5), max(d, 100*time.Microsecond)
		if want > 20*time.Minute {
			want = got // the last size holds all that is longer
		}
		if ratio := float64(got) / float64(want); ratio < .94 || ratio > 1.07 {
			t.Errorf("%v is told as %v", d, got)
		}
	}
}
