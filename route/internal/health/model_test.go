package health

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
)

// event is what happens to one endpoint.
type event struct {
	at      time.Time
	probe   string        // good or bad; "" for the end of a request
	outcome fleet.Outcome // of a request
	retry   time.Duration // with Busy
	trial   bool          // the request was a trial
}

// replay says what an endpoint is after events, by looking at all of them again: nothing is kept from one to the next.
type replay struct {
	probed, healthy bool
	failures        int // in a row
	ejections       int // in a row
	ejected         time.Time
	connect         bool // the ejection is for a connection that failed
	trial           bool // an ejection is over, or under way, and nothing has succeeded since
	busy            time.Time
	failed          uint64
}

func after(c Config, events []event) (r replay) {
	for _, e := range events {
		failure := func(ejects bool, connect bool) {
			r.failed++
			r.failures++
			if (ejects || r.failures >= c.EjectAfter || e.trial) && !e.at.Before(r.ejected) {
				d := c.EjectFor
				for range r.ejections {
					d = min(2*d, c.EjectMax)
				}
				r.ejected, r.trial = e.at.Add(d), true
				r.ejections++
			}
			if ejects || r.failures >= c.EjectAfter || e.trial {
				r.connect = connect
			}
		}
		switch {
		case e.probe != "":
			r.probed, r.healthy = true, e.probe == "good"
			if r.healthy && r.connect {
				r.ejected, r.connect = time.Time{}, false
			}
		case e.outcome == fleet.OK:
			r.failures, r.ejections, r.trial = 0, 0, false
		case e.outcome == fleet.Busy:
			d := e.retry
			if d == 0 {
				d = c.BusyFor
			}
			if until := e.at.Add(min(d, c.BusyMax)); until.After(r.busy) {
				r.busy = until
			}
		case e.outcome == fleet.ConnectFailed:
			failure(true, true)
		case e.outcome == fleet.EngineError || e.outcome == fleet.TimedOut:
			failure(false, false)
		}
	}
	return r
}

func (r *replay) state(now time.Time) fleet.State {
	switch {
	case r.probed && !r.healthy:
		return fleet.StateDown
	case now.Before(r.ejected):
		return fleet.StateEjected
	case !r.probed:
		return fleet.StateUnknown
	case now.Before(r.busy):
		return fleet.StateBusy
	}
	return fleet.StateUp
}

// TestAgainstReplay: after whatever an endpoint answers to probes and requests, its state, its rank, whether the next
// request is a trial, and what was counted are what a look at all that has happened says.
func TestAgainstReplay(t *testing.T) {
	c := Config{
		EjectAfter: 3, EjectFor: time.Second, EjectMax: 20 * time.Second, EjectShare: 1, PanicShare: 0.5,
		BusyFor: time.Second, BusyMax: 30 * time.Second, Ramp: time.Minute,
	}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		tab := New(c)
		tab.AddEndpoint(0)
		var events []event
		told := fleet.StateUnknown
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(rapid.SampledFrom([]time.Duration{
				0, 100 * time.Millisecond, time.Second, 7 * time.Second,
				time.Minute,
			}).Draw(t, "later"))
			e := event{at: now}
			switch rapid.SampledFrom([]string{"good", "bad", "request", "request", "request"}).Draw(t, "what") {
			case "good":
				e.probe = "good"
				tab.Probe(now, 0, true, "")
			case "bad":
				e.probe = "bad"
				tab.Probe(now, 0, false, "it is broken")
			case "request":
				before := after(c, events)
				if e.trial = tab.Admit(0); e.trial != before.trial {
					t.Fatalf("a request is a trial: %t, want %t", e.trial, before.trial)
				}
				e.outcome = fleet.Outcome(rapid.IntRange(int(fleet.OK), int(fleet.TransferFailed)).Draw(t, "outcome"))
				if e.outcome == fleet.Busy {
					e.retry = rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Hour}).Draw(t, "retry after")
				}
				if e.trial {
					if got := tab.Rank(now, 0, 0, ObeyEjections); got == Fit {
						t.Fatal("an endpoint that is under trial takes other requests")
					}
					tab.Withdraw(0)
				}
				tab.Conclude(now, 0, &Verdict{
					Outcome: e.outcome, Computes: true, Trial: e.trial, Sent: now,
					RetryAfter: e.retry,
				}, func() Census { return Census{All: 10} })
			}
			events = append(events, e)
			want := after(c, events)
			r := tab.Reader
			for _, later := range []time.Duration{0, time.Millisecond, 2 * time.Second, 30 * time.Second, time.Hour} {
				at := now.Add(later)
				if got := r.State(at, 0); got != want.state(at) {
					t.Fatalf("%v after %+v it is %s, want %s", later, events, got, want.state(at))
				}
				rank := map[fleet.State]Rank{
					fleet.StateUp: Fit, fleet.StateUnknown: Unproved,
					fleet.StateBusy: Strained, fleet.StateEjected: Ejected, fleet.StateDown: Unfit,
				}[want.state(at)]
				if got := r.Rank(at, 0, 0, ObeyEjections); got != rank {
					t.Fatalf("%v after %+v its rank is %d, want %d", later, events, got, rank)
				}
				if rank == Ejected && !want.connect {
					rank = Fit
				}
				if got := r.Rank(at, 0, 0, IgnoreEjections); got != rank {
					t.Fatalf("%v after %+v its rank is %d if failed requests count for nothing, want %d", later,
						events, got, rank)
				}
			}
			if r.Failures(0) != want.failed || r.Trials(0) != 0 || r.Tests(0) != want.trial {
				t.Fatalf("%d failures, %d trials, tests %t; want %+v", r.Failures(0), r.Trials(0), r.Tests(0), want)
			}
			tab.Changes(now, 0, func(from, to fleet.State, _ string) {
				if from != told {
					t.Fatalf("a change from %s was told, after one to %s", from, told)
				}
				told = to
			})
			if told != want.state(now) {
				t.Fatalf("it is %s, and %s was told", want.state(now), told)
			}
		}
	})
}

// TestShareOfEjections: however requests fail, they eject no more of a pool than its share, and never all of it;
// connections that fail and silence do not count as the requests' fault where the panic threshold asks.
func TestShareOfEjections(t *testing.T) {
	for _, row := range []struct {
		share     float64
		all, most int
	}{{0.5, 1, 0}, {0.5, 2, 1}, {0.5, 3, 1}, {0.5, 4, 2}, {0.1, 4, 1}, {1, 4, 3}, {-1, 4, 0}, {0.25, 40, 10}} {
		t.Run(fmt.Sprintf("%v of %d", row.share, row.all), func(t *testing.T) {
			tab, now := New(Config{
				EjectAfter: 1, EjectFor: time.Minute, EjectMax: time.Minute, EjectShare: row.share,
				PanicShare: 0.5,
			}), time.Unix(1000, 0)
			ejected := 0
			for i := range row.all {
				tab.AddEndpoint(i)
				tab.Probe(now, i, true, "")
			}
			for range 3 {
				for i := range row.all {
					tab.Conclude(now, i, &Verdict{Outcome: fleet.EngineError, Sent: now},
						func() Census { return Census{All: row.all, Ejected: ejected} })
					ejected = 0
					for j := range row.all {
						if tab.IsEjected(now, j) {
							ejected++
						}
					}
				}
			}
			if ejected != row.most {
				t.Errorf("%d of %d are ejected, want %d", ejected, row.all, row.most)
			}
			if spared := tab.Spared(); (spared == 0) == (row.most < row.all) {
				t.Errorf("%d were spared", spared)
			}
			census := Census{All: row.all, Ejected: ejected, EjectedByFailures: ejected}
			if panics, want := tab.Panics(census), row.most*2 > row.all; panics != want {
				t.Errorf("it panics: %t, want %t", panics, want)
			}
			if tab.Panics(Census{All: row.all, Ejected: row.all}) {
				t.Error("it panics though no request is at fault")
			}
		})
	}
}

// TestRamp: who joins gently, comes back, or has passed a trial gets its share little by little, and everybody else
// at once.
func TestRamp(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, row := range map[string]struct {
		gently bool
		then   func(tab *Table)
		want   float64 // after 15 of 60 seconds
	}{
		"joins with the fleet": {false, func(*Table) {}, 1},
		"joins a fleet":        {true, func(*Table) {}, 0.25},
		"comes back": {false, func(tab *Table) {
			tab.Probe(now, 0, false, "")
			tab.Probe(now, 0, true, "")
		}, 0.25},
		"is probed again": {false, func(tab *Table) { tab.Probe(now, 0, true, "") }, 1},
		"passes a trial": {false, func(tab *Table) {
			tab.Conclude(now.Add(-time.Minute), 0, &Verdict{Outcome: fleet.EngineError},
				func() Census { return Census{All: 2} })
			trial := tab.Admit(0)
			tab.Withdraw(0)
			tab.Conclude(now, 0, &Verdict{Outcome: fleet.OK, Computes: true, Trial: trial}, nil)
		}, 0.25},
		"answers a question that needs no computing": {false, func(tab *Table) {
			tab.Conclude(now.Add(-time.Minute), 0, &Verdict{Outcome: fleet.EngineError},
				func() Census { return Census{All: 2} })
			tab.Conclude(now, 0, &Verdict{Outcome: fleet.OK}, nil)
		}, 1},
	} {
		tab := New(Config{
			EjectAfter: 1, EjectFor: time.Second, EjectMax: time.Second, EjectShare: 1,
			Ramp: time.Minute,
		})
		tab.AddEndpoint(0)
		if row.gently {
			tab.RampUp(now, 0)
		}
		tab.Probe(now, 0, true, "")
		row.then(tab)
		if got := tab.Ramp(now.Add(15*time.Second), 0); got != row.want {
			t.Errorf("one that %s has %v of its share, want %v", name, got, row.want)
		}
		if got := tab.Ramp(now.Add(time.Minute), 0); got != 1 {
			t.Errorf("one that %s has %v of its share in the end", name, got)
		}
		if least := tab.Ramp(now, 0); row.want < 1 && least != 0.1 {
			t.Errorf("one that %s begins with %v", name, least)
		}
	}
}

// TestSilence: an endpoint that is ejected for silence stays out until its time is over, or a byte comes; probes
// change nothing, and neither do bytes from before.
func TestSilence(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, row := range map[string]struct {
		then func(tab *Table)
		out  bool
	}{
		"nothing":            {func(*Table) {}, true},
		"a good probe":       {func(tab *Table) { tab.Probe(now, 0, true, "") }, true},
		"a byte from before": {func(tab *Table) { tab.Alive(0, now.Add(-time.Millisecond)) }, true},
		"a byte":             {func(tab *Table) { tab.Alive(0, now) }, false},
		"another failure": {func(tab *Table) {
			tab.Conclude(now, 0, &Verdict{Outcome: fleet.TimedOut, Sent: now.Add(-time.Second)}, nil)
		}, true},
	} {
		tab := New(Config{EjectAfter: 3, EjectFor: time.Second, EjectMax: time.Minute, EjectShare: 1})
		tab.AddEndpoint(0)
		tab.Probe(now, 0, true, "")
		tab.ejectSilent(now, 0, 2, 10*time.Second, 10*time.Second)
		row.then(tab)
		r := tab.Reader
		if r.IsEjected(now, 0) != row.out || r.IsSilent(now, 0) != row.out || r.EjectedByFailures(now, 0) {
			t.Errorf("after %s: ejected %t, silent %t, judged %t", name, r.IsEjected(now, 0), r.IsSilent(now, 0),
				r.EjectedByFailures(now, 0))
		}
		if r.IsEjected(now.Add(10*time.Second), 0) || !r.Tests(0) {
			t.Errorf("after %s: it is out for longer than 10 s, or not tried then", name)
		}
	}
}
