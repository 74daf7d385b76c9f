package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/shadow"
)

// rig is a fleet with shadows.
type rig struct {
	fleet  *live.Fleet
	shadow *Shadow
}

func newRig(t testing.TB, budget float64, names ...string) *rig {
	t.Helper()
	var policies []shadow.Policy
	for _, name := range names {
		policies = append(policies, shadow.Policy{Name: name, New: factory(t, name)})
	}
	return newRigOf(t, budget, policies...)
}

func newRigOf(t testing.TB, budget float64, policies ...shadow.Policy) *rig {
	t.Helper()
	c := Config{Budget: budget, Log: slog.New(slog.DiscardHandler)}
	c.Acting = "session"
	c.Policies = policies
	r := &rig{}
	var listeners []live.Listener
	if len(policies) > 0 {
		r.shadow = New(c)
		listeners = append(listeners, r.shadow.Listener())
	}
	r.fleet = live.New(route.New(route.Config{Policy: factory(t, "session")}), time.Now, listeners...)
	d := route.Declared{Source: "s"}
	for i := range 8 {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{
			Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
		})
	}
	r.fleet.Observe(d)
	for _, e := range d.Endpoints {
		r.fleet.Observe(route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true}})
	}
	return r
}

func factory(t testing.TB, name string) func() pick.Policy {
	t.Helper()
	f, err := policy.New(policy.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// turn sends a turn and ends it.
func (r *rig) turn(t testing.TB, session string) {
	d, err := r.fleet.Decide(&fleet.Request{ID: "r", Session: session, Model: "m", PromptTokens: 1000, Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	r.fleet.Observe(route.FirstByte{Lease: d.Lease})
	r.fleet.Observe(route.Finished{Lease: d.Lease})
}

// TestJudgesWhatIsDecided: everything that is decided is judged, and told as JSON and to the log.
func TestJudgesWhatIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, "round_robin", "session")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.shadow.Run(ctx) }()
		for i := range 300 {
			r.turn(t, fmt.Sprint("c", i%30))
			synctest.Wait()
		}
		cancel()
		<-done
		w := httptest.NewRecorder()
		r.shadow.ServeHTTP(w, nil)
		var got Report
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Policy != "session" || got.Decisions != 300 || got.Acting.Turns != 300 || got.Skipped+got.Dropped != 0 ||
			got.Share != 1 {
			t.Errorf("%+v", got)
		}
		if h := got.Shadows[0].Here; h.Decisions != 300 || h.Differs < 200 {
			t.Errorf("round robin differs in %d of %d decisions", h.Differs, h.Decisions)
		}
		if h := got.Shadows[1].Here; h.Differs != 0 {
			t.Errorf("the acting policy differs from itself in %d decisions", h.Differs)
		}
		var out bytes.Buffer
		r.shadow.Log(slog.New(slog.NewTextHandler(&out, nil)))
		for _, want := range []string{
			"msg=shadow policy=round_robin acting=session decisions=300",
			"policy=session acting=session decisions=300 differs=0.0%",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, out.String())
			}
		}
	})
}

// TestKeepsToItsBudget: where a decision takes 5 ms to judge and the budget is 5 % of a core, no second has many more
// than ten, conversations are left out whole, and when the traffic is gone all are looked at again.
func TestKeepsToItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0.05, "round_robin")
		clock := time.Duration(0)
		// 5 ms from one look to the next
		r.shadow.now = func() time.Time { clock += 5 * time.Millisecond; return time.Time{}.Add(clock) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.shadow.Run(ctx) }()
		last := uint64(0)
		for second := range 30 {
			for i := range 100 {
				r.turn(t, fmt.Sprint("c", second*37+i))
				time.Sleep(10 * time.Millisecond)
			}
			now := r.shadow.Report().Decisions
			if now-last > 12 {
				t.Fatalf("in second %d %d decisions were judged, each 5 ms, of a budget of 50 ms", second, now-last)
			}
			last = now
		}
		got := r.shadow.Report()
		if got.Skipped+got.Decisions != 3000 || got.Decisions < 60 || got.Share > 0.5 {
			t.Errorf("judged %d, skipped %d, share %v", got.Decisions, got.Skipped, got.Share)
		}
		time.Sleep(20 * time.Second)
		if got := r.shadow.Report().Share; got != 1 {
			t.Errorf("after silence one conversation in %v is looked at", 1/got)
		}
		cancel()
		<-done
	})
}

// fails panics when it is asked for the third time.
type fails struct{ asked *int }

func (fails) Needs() pick.Needs { return pick.Needs{Name: "fails"} }

func (fails) Hooks() pick.Hooks { return pick.Hooks{} }

func (p fails) Pick(*pick.View, *fleet.Request) pick.Choice {
	if *p.asked++; *p.asked >= 3 {
		panic("out of its depth")
	}
	return pick.Choice{}
}

// TestFailuresStayHere: a policy that panics ends the asking and nothing else.
func TestFailuresStayHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := newRigOf(t, 1, shadow.Policy{Name: "fails", New: func() pick.Policy { return fails{&asked} }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.shadow.Run(ctx) }()
		for i := range 10 {
			r.turn(t, fmt.Sprint("c", i))
			synctest.Wait()
		}
		cancel()
		<-done
		if got := r.shadow.Report(); got.Failed != "out of its depth" || asked != 3 || got.Decisions != 2 {
			t.Errorf("asked %d times, %+v", asked, got)
		}
	})
}

// TestNeverWaits: when nobody judges, decisions are dropped and counted, and routing goes on.
func TestNeverWaits(t *testing.T) {
	r := newRig(t, 1, "round_robin")
	for i := range 2 * queued {
		r.turn(t, fmt.Sprint("c", i))
	}
	if got := r.shadow.Report(); got.Dropped < queued || got.Dropped > 2*queued {
		t.Errorf("dropped %d of %d", got.Dropped, 2*queued)
	}
}

// keeps counts the leases that it was told of and not of their end.
type keeps struct{ open *int }

func (keeps) Needs() pick.Needs { return pick.Needs{Name: "keeps", WhenOnly: true} }

func (p keeps) Hooks() pick.Hooks { return pick.Hooks{Reserved: p.reserved, Released: p.released} }

func (p keeps) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }
func (p keeps) reserved(fleet.Lease, *pick.Candidate, *pick.View, *fleet.Request) {
	*p.open++
}
func (p keeps) released(fleet.Lease, bool) { *p.open-- }

// TestEndsAreNotLost: whoever keeps books is told of the end of each lease that it was told of, however late.
func TestEndsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := 0
		r := newRigOf(t, 1, shadow.Policy{Name: "keeps", New: func() pick.Policy { return keeps{&open} }})
		var leases []fleet.Lease
		for i := range 3 * queued {
			d, err := r.fleet.Decide(&fleet.Request{ID: "r", Session: fmt.Sprint(i), Model: "m", PromptTokens: 10})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, d.Lease)
		}
		for _, l := range leases {
			r.fleet.Observe(route.Finished{Lease: l})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.shadow.Run(ctx) }()
		time.Sleep(time.Hour) // all the worlds' answers have ended too
		r.turn(t, "last")
		synctest.Wait()
		got := r.shadow.Report()
		if got.Decisions == 0 || got.Dropped != 3*queued+1-got.Decisions {
			t.Errorf("%d decisions judged, %d dropped of %d", got.Decisions, got.Dropped, 3*queued+1)
		}
		cancel()
		<-done
		if open > 1 { // in the world the last one's answer goes on
			t.Errorf("%d leases never ended", open)
		}
	})
}

// BenchmarkRoute is a decision with its events, without shadows and with four that are judged beside it.
func BenchmarkRoute(b *testing.B) {
	for _, names := range [][]string{nil, {"least_ttft", "round_robin", "consistent_hash", "least_tokens"}} {
		b.Run(fmt.Sprint(len(names)), func(b *testing.B) {
			r := newRig(b, 0.05, names...)
			if r.shadow != nil {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go r.shadow.Run(ctx)
			}
			i := 0
			for b.Loop() {
				i++
				r.turn(b, "c")
			}
		})
	}
}

// forgets is a policy that binds conversations to endpoints: it notes which it was told to let go of.
type forgets struct{ keys *[]uint64 }

func (forgets) Needs() pick.Needs { return pick.Needs{Name: "forgets"} }

func (p forgets) Hooks() pick.Hooks { return pick.Hooks{Forgotten: p.forgotten} }

func (p forgets) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }
func (p forgets) forgotten(endpoint uint64)                   { *p.keys = append(*p.keys, endpoint) }

// TestShadowsHearWhoLeaves: both values of a shadow are told of an endpoint that is no longer declared, and of one that
// is another engine now, after the decisions before it and whether or not there is room in the queue.
func TestShadowsHearWhoLeaves(t *testing.T) {
	for name, before := range map[string]int{"room": 1, "no room": 3 * queued} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var keys []uint64
				r := newRigOf(t, 1, shadow.Policy{Name: "forgets", New: func() pick.Policy { return forgets{&keys} }})
				for i := range before {
					r.turn(t, fmt.Sprint(i))
				}
				declare := func(url string, names ...string) {
					d := route.Declared{Source: "s"}
					for _, n := range names {
						d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: n, URL: url + n, Weight: 1})
					}
					r.fleet.Observe(d)
				}
				declare("http://", "e0", "e1", "e2", "e3", "e4", "e5", "e6")
				declare("http://", "e0")
				declare("http://other-", "e0")
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); r.shadow.Run(ctx) }()
				synctest.Wait()
				cancel()
				<-done
				seen := map[uint64]int{}
				for _, k := range keys {
					seen[k]++
				}
				if len(keys) != 2*8 || len(seen) != 8 {
					t.Errorf("told %d times of %d endpoints, want twice of each of 8", len(keys), len(seen))
				}
			})
		})
	}
}
