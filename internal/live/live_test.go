package live_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

type byChance struct{}

func (byChance) Needs() pick.Needs { return pick.Needs{Name: "chance"} }

func (byChance) Hooks() pick.Hooks { return pick.Hooks{} }

func (byChance) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: v.Rand.IntN(len(v.Candidates)), Reason: "chance"}
}

func newFleet(listeners ...live.Listener) *live.Fleet {
	f := live.New(route.New(route.Config{Policy: func() pick.Policy { return byChance{} }}), time.Now, listeners...)
	f.Observe(route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
	}})
	for _, n := range []string{"a", "b"} {
		f.Observe(route.Probed{Endpoint: n, Report: fleet.Report{Healthy: true}})
	}
	return f
}

// TestLogReplays: what many goroutines did at once, told again in the order of the log to a router of its own, gives
// the same decisions.
func TestLogReplays(t *testing.T) {
	type line struct {
		now      time.Time
		request  fleet.Request
		endpoint string
		event    route.Event
	}
	var log []line
	f := newFleet(live.Listener{Entry: func(e *route.Entry) {
		l := line{now: e.Now, event: e.Event}
		if e.Request != nil {
			l.request, l.endpoint = *e.Request, e.Decision.Endpoint.Name
		}
		log = append(log, l)
	}})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				d, err := f.Decide(&fleet.Request{Model: "m", MintedID: "x"})
				if err != nil {
					t.Error(err)
					return
				}
				f.Observe(route.Finished{Lease: d.Lease})
			}
		})
	}
	wg.Wait()
	again := route.New(route.Config{Policy: func() pick.Policy { return byChance{} }})
	for i, l := range log {
		if l.event != nil {
			again.Observe(l.now, l.event)
			continue
		}
		d, err := again.Decide(l.now, &l.request)
		if err != nil || d.Endpoint.Name != l.endpoint {
			t.Fatalf("line %d: got %s (%v), want %s", i, d.Endpoint.Name, err, l.endpoint)
		}
	}
	if s := f.Stats(); s.Leases != 0 || s.DoubleFinished != 0 || s.Decisions != 1600 {
		t.Errorf("%+v", s)
	}
}

// TestListsInSteps: endpoints come, change and go by the snapshots of two sources as if each were declared at once, and
// each entry is about few of them.
func TestListsInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		config := route.Config{
			Policy:  func() pick.Policy { return byChance{} },
			Aliases: []fleet.Alias{{Name: "chat", Models: []string{"m1", "m2"}}},
		}
		whole := route.New(config)
		f := live.New(route.New(config), func() time.Time { return now }, live.Listener{Entry: func(e *route.Entry) {
			if d, ok := e.Event.(route.Declared); ok && len(d.Endpoints)+len(d.Left) > 4 {
				t.Fatalf("%d endpoints in one step", len(d.Endpoints)+len(d.Left))
			}
		}})
		both := func(ev route.Event) {
			f.Observe(ev)
			whole.Observe(now, ev)
		}
		for range rapid.IntRange(1, 12).Draw(t, "snapshots") {
			d := route.Declared{Source: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")}
			first := rapid.IntRange(0, 40).Draw(t, "first")
			for i := range rapid.IntRange(0, 60).Draw(t, "endpoints") {
				e := fleet.Endpoint{Name: fmt.Sprint("e", first+i), Weight: 1}
				e.URL = fmt.Sprint("http://", rapid.IntRange(0, 9).Draw(t, "moved")/9, e.Name)
				if rapid.IntRange(0, 3).Draw(t, "stated") == 0 {
					e.Models = []string{rapid.SampledFrom([]string{"m1", "m3"}).Draw(t, "model")}
				}
				d.Endpoints = append(d.Endpoints, e)
			}
			both(d)
			for range rapid.IntRange(0, 9).Draw(t, "reports") {
				models := []fleet.Model{{ID: rapid.SampledFrom([]string{"m1", "m2", "m3"}).Draw(t, "reported")}}
				both(route.Probed{Endpoint: fmt.Sprint("e", rapid.IntRange(0, 99).Draw(t, "of")), Report: fleet.Report{
					Healthy: true, Models: models,
				}})
			}
			if got, want := f.Status(), whole.Status(now); !reflect.DeepEqual(got, want) {
				if len(got) != len(want) {
					t.Fatalf("%d endpoints, want %d", len(got), len(want))
				}
				for i := range got {
					if !reflect.DeepEqual(got[i], want[i]) {
						t.Fatalf("endpoint %d is\n%+v, want\n%+v", i, got[i], want[i])
					}
				}
			}
			for seed, model := range []string{"", "m1", "m2", "m3", "chat", "m1", "m3", "chat"} {
				req := fleet.Request{Model: model, MintedID: "x", Seed: uint64(seed + 1)}
				p, err := f.Decide(&req)
				q, failed := whole.Decide(now, &req)
				if (err == nil) != (failed == nil) || err == nil && p.Endpoint.Name != q.Endpoint.Name {
					t.Fatalf("%q goes to %s (%v), want %s (%v)", model, p.Endpoint.Name, err, q.Endpoint.Name, failed)
				}
				if err == nil && rapid.Bool().Draw(t, "ends") {
					f.Observe(route.Finished{Lease: p.Lease})
					whole.Observe(now, route.Finished{Lease: q.Lease})
				}
			}
		}
	})
}

func TestLoggerSaysWhatAnOperatorNeeds(t *testing.T) {
	var out bytes.Buffer
	f := newFleet(live.Logger(slog.New(slog.NewTextHandler(&out, nil)), true))
	f.Observe(route.Probed{Endpoint: "b", Report: fleet.Report{Refused: true, Detail: "connection refused"}})
	now := time.Now()
	f.Served(&live.Served{
		ID: "r1", API: "chat", Status: 200, Attempts: 2, Stream: true, Started: now, FirstByte: now.Add(time.Second),
		Ended: now.Add(2 * time.Second), Decision: route.Decision{
			Endpoint: fleet.Endpoint{Name: "a"}, Model: "m", Reason: "chance", CachedTokens: 90, NewID: true,
		}, Usage: fleet.Usage{PromptTokens: 100, CachedTokens: 80, OutputTokens: 7, CachedKnown: true},
	})
	for _, want := range []string{
		`level=WARN msg="endpoint is down" endpoint=b from=up to=down detail="connection refused"`,
		"request=r1", "status=200", "endpoint=a", "first_turn=false", "new_id=true", "reason=chance", "attempts=2",
		"ttft_ms=1000", "duration_ms=2000",
		"prompt_tokens=100", "cached_tokens=80", "predicted_cached_tokens=90", "output_tokens=7",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, out.String())
		}
	}
}

// TestHoldIsAnEntry: listeners hear that a turn is held, and what ends the hold.
func TestHoldIsAnEntry(t *testing.T) {
	now := time.Unix(1000, 0)
	var held, ended []fleet.Lease
	decisions := 0
	r := route.New(route.Config{Policy: func() pick.Policy { return byChance{} }, Admission: true})
	f := live.New(r, func() time.Time { return now }, live.Listener{Entry: func(e *route.Entry) {
		if e.Hold != nil {
			held = append(held, e.Hold.Lease)
		}
		if e.Decision != nil {
			decisions++
		}
		if ev, ok := e.Event.(route.Finished); ok && e.Ended == nil {
			ended = append(ended, ev.Lease)
		}
	}})
	f.Observe(route.Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}}})
	f.Observe(route.Probed{
		Endpoint: "e", Report: fleet.Report{Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m"}}},
	})
	ask := func(name string) route.Plan {
		p, err := f.Decide(&fleet.Request{
			Model: "m", Session: name, Class: fleet.Turn, PromptTokens: 30_000, Stream: true, MayQueue: true,
			MayHold: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for range 20 {
		plans := []route.Plan{ask("a"), ask("b"), ask("c")}
		now = now.Add(10 * time.Second)
		for _, p := range plans {
			f.Observe(route.FirstByte{Lease: p.Lease})
			f.Observe(route.Finished{Lease: p.Lease, Usage: fleet.Usage{PromptTokens: 30_000, OutputTokens: 10}})
		}
		now = now.Add(time.Second)
	}
	p := ask("d")
	if p.Hold.Lease == 0 || len(held) != 1 || held[0] != p.Hold.Lease || decisions != 60 {
		t.Fatalf("held %+v; listeners heard of %v and %d decisions, want one hold after 60", p.Hold, held, decisions)
	}
	if f.Observe(route.Finished{Lease: p.Hold.Lease, Outcome: fleet.ClientGone}); len(ended) != 1 ||
		ended[0] != p.Hold.Lease {
		t.Errorf("listeners heard of the end of %v", ended)
	}
}

// TestChanged: who waits for a place hears of what may give one, and of nothing else.
func TestChanged(t *testing.T) {
	lists := func(models ...string) route.Probed {
		r := fleet.Report{Healthy: true}
		for _, m := range models {
			r.Models = append(r.Models, fleet.Model{ID: m})
		}
		return route.Probed{Endpoint: "a", Report: r}
	}
	for name, row := range map[string]struct {
		ev   route.Event
		want bool
	}{
		"another list":  {lists("m", "ad"), true},
		"the same list": {lists("m"), false},
		"time passes":   {route.Tick{}, false},
		"another state": {route.Probed{Endpoint: "b", Report: fleet.Report{Detail: "it ends"}}, true},
		"an endpoint comes": {route.Declared{Source: "t", Endpoints: []fleet.Endpoint{
			{Name: "c", URL: "http://c", Weight: 1},
		}}, true},
		"another configuration": {route.Configured{Config: route.Config{
			Policy: func() pick.Policy { return byChance{} },
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			f.Observe(lists("m"))
			changed := f.Changed()
			if f.Changed() != changed {
				t.Error("two who wait hear of different changes")
			}
			f.Observe(row.ev)
			select {
			case <-changed:
				if !row.want {
					t.Error("it is a change")
				}
				if f.Changed() == changed {
					t.Error("the next change is this one")
				}
			default:
				if row.want {
					t.Error("it is none")
				}
			}
		})
	}
}
