package route_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// inOrder is the alias "fast" of the models big and small, of which small is for what big cannot take.
func inOrder(wait time.Duration) []fleet.Alias {
	return []fleet.Alias{{Name: "fast", Models: []string{"big", "small"}, Overflow: []time.Duration{wait, 0}}}
}

// TestOverflow: why a new conversation gets the next model of an alias in order, and that one under way keeps its model
// unless no endpoint with it can be used; the same where both models are on one engine as where they have engines of
// their own.
func TestOverflow(t *testing.T) {
	const prompt = 10_000
	big, small := fleet.Model{ID: "big", ContextTokens: 32_000}, fleet.Model{ID: "small", ContextTokens: 128_000}
	fails := func(x *testRouter, o fleet.Outcome, names ...string) {
		for _, name := range names {
			for range 3 {
				d, err := x.r.Decide(x.now, &fleet.Request{
					Model: "fast", Pin: name, Class: fleet.Turn, PromptBytes: 100,
				})
				if err == nil {
					x.r.Observe(x.now, route.Finished{Lease: d.Lease, Outcome: o, RetryAfter: 20 * time.Second})
				}
			}
		}
	}
	unreached := func(x *testRouter, name string) {
		d := x.route(fleet.Request{Model: "fast", Pin: name, Class: fleet.Turn, PromptBytes: 100})
		x.end(d, fleet.ConnectFailed)
	}
	down := func(x *testRouter, names ...string) {
		for _, name := range names {
			x.r.Observe(x.now, route.Probed{Endpoint: name, Report: fleet.Report{Healthy: false}})
		}
	}
	for _, tt := range []struct {
		name   string
		happen func(t *testing.T, x *testRouter)
		change func(*fleet.Request)
		model  string        // that a new conversation gets
		why    route.Passing // of big
		keeps  string        // what one gets that has big; "" for an error
	}{
		{name: "nothing", model: "big", keeps: "big"},
		{
			name: "one of its endpoints is down", happen: func(_ *testing.T, x *testRouter) { down(x, "a") },
			model: "big", keeps: "big",
		},
		{
			name: "down", happen: func(_ *testing.T, x *testRouter) { down(x, "a", "b") }, model: "small",
			why: route.PassedDown, keeps: "small",
		},
		{
			name: "draining", happen: func(_ *testing.T, x *testRouter) {
				for _, name := range []string{"a", "b"} {
					x.r.Observe(x.now, route.Drain{Endpoint: name})
				}
			}, model: "small", why: route.PassedDown, keeps: "small",
		},
		{
			name: "its circuit is open", happen: func(_ *testing.T, x *testRouter) {
				fails(x, fleet.EngineError, "a", "b")
			}, model: "small", why: route.PassedEjected, keeps: "small",
		},
		{
			name: "refuses", happen: func(_ *testing.T, x *testRouter) { fails(x, fleet.Busy, "a", "b") },
			model: "small", why: route.PassedRefuses, keeps: "big",
		},
		{
			name: "one refuses", happen: func(_ *testing.T, x *testRouter) { fails(x, fleet.Busy, "a") },
			model: "big", keeps: "big",
		},
		{
			name: "full", happen: func(t *testing.T, x *testRouter) { x.fill(t, 30, "a", "b") },
			model: "small", why: route.PassedFull, keeps: "big",
		},
		{
			name: "one is full", happen: func(t *testing.T, x *testRouter) { x.fill(t, 30, "a") },
			model: "big", keeps: "big",
		},
		{
			name: "both are full", happen: func(t *testing.T, x *testRouter) { x.fill(t, 30, "a", "b", "c", "d") },
			model: "small", why: route.PassedFull, keeps: "big",
		},
		{
			name: "too long a prompt", change: func(q *fleet.Request) {
				q.PromptTokens, q.PromptBytes = 40_000, 160_000
			}, model: "small", why: route.PassedShort, keeps: "small",
		},
		{
			name: "all are down but for a few", happen: func(_ *testing.T, x *testRouter) { down(x, "c", "d") },
			model: "big", keeps: "big",
		},
		{
			name:   "big is full and small is down",
			happen: func(t *testing.T, x *testRouter) { x.fill(t, 30, "a", "b"); down(x, "c", "d") },
			model:  "big", keeps: "big",
		},
		{
			name: "both refuse", happen: func(_ *testing.T, x *testRouter) { fails(x, fleet.Busy, "a", "b", "c", "d") },
			model: "big", keeps: "big",
		},
		{
			name: "it was tried at all of big", change: func(q *fleet.Request) { q.Tried = []string{"a", "b"} },
			model: "small", why: route.PassedTried, keeps: "small",
		},
		{
			name: "it was tried, and refused", happen: func(_ *testing.T, x *testRouter) {
				fails(x, fleet.Busy, "a", "b")
			}, change: func(q *fleet.Request) {
				q.Tried = []string{"a", "b"}
				q.Refused = q.Tried
			},
			model: "small", why: route.PassedRefuses, keeps: "",
		},
		{
			name: "it was refused first of all", change: func(q *fleet.Request) {
				q.Tried = []string{"a", "b"}
				q.Refused = []string{"b"}
			},
			model: "small", why: route.PassedRefuses, keeps: "",
		},
		{
			name: "it failed where others were refused", happen: func(_ *testing.T, x *testRouter) {
				fails(x, fleet.Busy, "a", "b")
			}, change: func(q *fleet.Request) { q.Tried = []string{"a", "b"} },
			model: "small", why: route.PassedTried, keeps: "small",
		},
		{
			name: "it failed as a trial", happen: func(_ *testing.T, x *testRouter) {
				for _, name := range []string{"a", "b"} {
					unreached(x, name)
					x.up(name, nil, big)
					x.route(fleet.Request{Model: "fast", Pin: name, Class: fleet.Turn, PromptBytes: 100})
				}
			}, change: func(q *fleet.Request) { q.Tried = []string{"a", "b"} },
			model: "small", why: route.PassedTried, keeps: "small",
		},
		{
			name: "it failed where probes got no answer", happen: func(_ *testing.T, x *testRouter) {
				for _, name := range []string{"a", "b"} {
					x.r.Observe(x.now, route.Probed{Endpoint: name, Report: fleet.Report{
						Healthy: true, Unanswered: true, Models: []fleet.Model{big},
					}})
				}
			}, change: func(q *fleet.Request) { q.Tried = []string{"a", "b"} },
			model: "small", why: route.PassedTried, keeps: "small",
		},
	} {
		for _, class := range []fleet.Class{fleet.Turn, fleet.Embed, fleet.Auxiliary} {
			t.Run(fmt.Sprint(tt.name, ", ", class), func(t *testing.T) {
				x := newTestRouter(t, inOrder(10*time.Second))
				x.declare([]string{"a", "b", "c", "d"}, "")
				x.up("a", nil, big)
				x.up("b", nil, big)
				x.up("c", nil, small)
				x.up("d", nil, small)
				ask := func(id string, turn int, change func(*fleet.Request)) (route.Decision, error) {
					q := fleet.Request{
						ID: id, Model: "fast", Session: id, Class: class, PromptTokens: prompt, PromptBytes: 4 * prompt,
						Seed: uint64(len(id) + turn), MayQueue: true, Caller: 5,
					}
					if change != nil {
						change(&q)
					}
					d, err := x.r.Decide(x.now, &q)
					return d.Decision, err
				}
				for turn := range 2 {
					d, err := ask("known", turn, nil)
					if err != nil || d.Model != "big" || len(d.Passed) > 0 {
						t.Fatalf("%s, %v, %+v", d.Model, err, d.Passed)
					}
					x.end(d, fleet.OK)
				}
				if tt.happen != nil {
					tt.happen(t, x)
				}
				d, err := ask("fresh", 0, tt.change)
				if err != nil || d.Model != tt.model {
					t.Fatalf("a new conversation gets %q (%v), want %s", d.Model, err, tt.model)
				}
				var passed []route.PassedOver
				if tt.why != "" {
					passed = []route.PassedOver{{Model: "big", Why: tt.why}}
				}
				if len(d.Passed) != len(passed) || len(passed) > 0 && (d.Passed[0].Model != "big" ||
					d.Passed[0].Why != tt.why || (tt.why == route.PassedFull) != (d.Passed[0].WaitMs > 10_000)) {
					t.Errorf("passed over is %+v, want %+v", d.Passed, passed)
				}
				if class != fleet.Turn {
					return // they have no conversation
				}
				var none *route.NoEndpointError
				switch d, err := ask("known", 2, tt.change); {
				case tt.keeps == "":
					if !errors.As(err, &none) {
						t.Errorf("one under way gets %q, %v", d.Model, err)
					}
				case err != nil || d.Model != tt.keeps || len(d.Passed) > 0 && d.Model == "big":
					t.Errorf("one under way gets %q (%v), want %s", d.Model, err, tt.keeps)
				}
				// afterwards the new one keeps what it has
				x.end(d, fleet.OK)
				for _, name := range []string{"a", "b"} {
					x.r.Observe(x.now, route.Drain{Endpoint: name, Off: true})
				}
				x.now = x.now.Add(10 * time.Minute)
				x.up("a", nil, big)
				x.up("b", nil, big)
				x.up("c", nil, small)
				x.up("d", nil, small)
				if d, err := ask("fresh", 1, nil); err != nil || d.Model != tt.model {
					t.Errorf("later it gets %q (%v), want %s", d.Model, err, tt.model)
				}
			})
		}
	}
}

// fill has endpoints have prompts for so many seconds, after they have shown how fast they are.
func (x *testRouter) fill(t *testing.T, seconds int, names ...string) {
	t.Helper()
	const perSecond = 1000
	for _, name := range names {
		ask := func(tokens int) route.Decision {
			return x.route(fleet.Request{
				Model: "fast", Pin: name, Class: fleet.Turn, PromptTokens: tokens,
				PromptBytes: 4 * tokens, Stream: true,
			})
		}
		for range 10 {
			d := ask(perSecond)
			x.now = x.now.Add(time.Second)
			x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
			x.r.Observe(x.now, route.Finished{
				Lease: d.Lease, Usage: fleet.Usage{PromptTokens: perSecond, CachedKnown: true},
			})
		}
		for range seconds {
			ask(perSecond)
		}
	}
}

// TestOverflowOnOneEngine: of two models on one engine the first is used until the engine cannot take it.
func TestOverflowOnOneEngine(t *testing.T) {
	x := newTestRouter(t, inOrder(0))
	x.declare([]string{"a", "b"}, "")
	for _, name := range []string{"a", "b"} {
		x.up(name, nil, fleet.Model{ID: "small"}, fleet.Model{ID: "big"})
	}
	for i := range 20 {
		if d := x.route(fleet.Request{
			Model: "fast", Session: fmt.Sprint(i), Class: fleet.Turn, PromptBytes: 100, Seed: uint64(i),
		}); d.Model != "big" || len(d.Passed) > 0 {
			t.Fatalf("a request gets %s: %+v", d.Model, d.Passed)
		}
	}
	x.up("a", nil, fleet.Model{ID: "small"})
	x.up("b", nil, fleet.Model{ID: "small"})
	if d := x.route(fleet.Request{
		Model: "fast", Session: "0", Class: fleet.Turn, PromptBytes: 100,
	}); d.Model != "small" {
		t.Errorf("without it a conversation gets %s", d.Model)
	}
}

// TestOverflowOfFirstRefusal: a conversation that begins at a model that refuses it at once goes to the next one: it
// has no cache to lose.
func TestOverflowOfFirstRefusal(t *testing.T) {
	x := newTestRouter(t, inOrder(time.Second))
	x.declare([]string{"a", "c"}, "")
	x.up("a", nil, fleet.Model{ID: "big"})
	x.up("c", nil, fleet.Model{ID: "small"})
	q := fleet.Request{Model: "fast", Session: "s", Class: fleet.Turn, PromptBytes: 100}
	d := x.route(q)
	if d.Model != "big" {
		t.Fatalf("it begins at %s", d.Model)
	}
	x.end(d, fleet.Busy)
	q.Tried, q.Refused = []string{"a"}, []string{"a"}
	if d = x.route(q); d.Model != "small" || len(d.Passed) != 1 || d.Passed[0].Why != route.PassedRefuses {
		t.Errorf("after it was refused it gets %s: %+v", d.Model, d.Passed)
	}
}

// TestSharesKeepWhatRefuses: a conversation of an alias with shares keeps its model while its engines ask for less
// traffic.
func TestSharesKeepWhatRefuses(t *testing.T) {
	x := newTestRouter(t, canary(0, 100), "a", "b")
	x.up("b", nil, fleet.Model{ID: "new"})
	q := fleet.Request{Model: "fast", Session: "s", Class: fleet.Turn, PromptBytes: 100}
	for range 2 {
		x.end(x.route(q), fleet.OK)
	}
	for range 2 {
		x.end(x.route(fleet.Request{Model: "fast", Pin: "b", Class: fleet.Turn, PromptBytes: 100}), fleet.Busy)
	}
	if d := x.route(q); d.Model != "new" {
		t.Errorf("it gets %s", d.Model)
	}
	q.Session = "another"
	if d := x.route(q); d.Model != "m" {
		t.Errorf("a new one gets %s", d.Model)
	}
}

// TestOverflowIsChecked: an order that means nothing is refused.
func TestOverflowIsChecked(t *testing.T) {
	for _, a := range []fleet.Alias{
		{Models: []string{"a", "b"}, Overflow: []time.Duration{1}},
		{Models: []string{"a", "b"}, Overflow: []time.Duration{-1, 0}},
		{Models: []string{"a", "b"}, Overflow: []time.Duration{1, 1}},
		{Models: []string{"a", "a"}, Overflow: []time.Duration{1, 0}},
		{Models: []string{"a"}, Overflow: []time.Duration{0}},
		{Models: []string{"a", "b"}, Overflow: []time.Duration{1, 0}, Shares: []float64{1, 1}},
	} {
		a.Name = "x"
		c := route.Config{Policy: func() pick.Policy { return leastWork{} }, Aliases: []fleet.Alias{a}}
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
}

// TestOverflowOfHeld: a turn that admission would hold for longer than the alias says gets the next model at once; one
// that it would hold for less is held, and a conversation under way keeps its model.
func TestOverflowOfHeld(t *testing.T) {
	for bound, placed := range map[time.Duration]bool{time.Second: true, 10 * time.Hour: false, 0: false} {
		s := newFullEngine(t, func(c *route.Config) {
			c.Aliases = []fleet.Alias{{Name: "m", Models: []string{"m", "small"}, Overflow: []time.Duration{bound, 0}}}
		})
		if !placed {
			s.hold("before")
		}
		s.Observe(s.now, route.Declared{
			Source: "other", Endpoints: []fleet.Endpoint{{Name: "f", URL: "http://f", Weight: 1}},
		})
		s.Observe(s.now, route.Probed{
			Endpoint: "f", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "small"}}},
		})
		p, err := s.ask("d", 0)
		switch {
		case err != nil:
			t.Fatal(err)
		case !placed && p.Hold.Lease == 0:
			t.Errorf("with %v it goes to %s", bound, p.Model)
		case placed && (p.Model != "small" || len(p.Passed) != 1 || p.Passed[0].Why != route.PassedFull ||
			p.Passed[0].WaitMs < 1000):
			t.Errorf("with %v it goes to %q, held %t: %+v", bound, p.Model, p.Hold.Lease != 0, p.Passed)
		}
		if p, err := s.ask("a", 0); err != nil || p.Model != "m" {
			t.Errorf("with %v one under way goes to %q: %v", bound, p.Model, err)
		}
	}
}

// TestOverflowOfHeldGoesOn: so it is with each model in turn, also while as many wait as may. Where all would hold it
// for too long it is held for the first.
func TestOverflowOfHeldGoesOn(t *testing.T) {
	for last, want := range map[string]string{"f": "small", "": ""} {
		s := newFullEngine(t, func(c *route.Config) {
			c.Queue.Most = 1
			c.Aliases = []fleet.Alias{
				{Name: "m", Models: []string{"m", "middle", "small"}, Overflow: []time.Duration{
					time.Second, time.Second, 0,
				}},
				{Name: "other", Models: []string{"m"}},
			}
		})
		s.Observe(s.now, route.Probed{Endpoint: "e", Report: fleet.Report{
			Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m"}, {ID: "middle"}},
		}})
		if last != "" {
			s.Observe(s.now, route.Declared{
				Source: "other", Endpoints: []fleet.Endpoint{{Name: last, URL: "http://f", Weight: 1}},
			})
			s.Observe(s.now, route.Probed{
				Endpoint: last, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "small"}}},
			})
			req := fleet.Request{
				Model: "other", Session: "z", Class: fleet.Turn, PromptTokens: 30_000, MayQueue: true, MayHold: true,
			}
			if p, err := s.Decide(s.now, &req); err != nil || p.Hold.Lease == 0 {
				t.Fatalf("the first goes to %q (%v), want it held", p.Model, err)
			}
		}
		p, err := s.ask("d", 0)
		if err != nil || p.Model != want || (p.Hold.Lease != 0) != (want == "") {
			t.Errorf("with %q it goes to %q, held %t, %v, want %q", last, p.Model, p.Hold.Lease != 0, err, want)
		}
		if want != "" && (len(p.Passed) != 2 || p.Passed[1].Model != "middle" || p.Passed[1].Why != route.PassedFull ||
			p.Passed[1].WaitMs < 1000) {
			t.Errorf("passed over are %+v", p.Passed)
		}
	}
}

// TestHeldTurnsOutliveTheirModel: a turn that is held is called when the engines of its model are gone, and gets the
// other model of its alias.
func TestHeldTurnsOutliveTheirModel(t *testing.T) {
	for name, alias := range map[string]fleet.Alias{
		"shares": {Models: []string{"m", "small"}, Shares: []float64{100, 0}},
		"order":  {Models: []string{"m", "small"}, Overflow: make([]time.Duration, 2)},
	} {
		alias.Name = "m"
		s := newFullEngine(t, func(c *route.Config) { c.Aliases = []fleet.Alias{alias} })
		h := s.hold("d")
		s.Observe(s.now, route.Declared{
			Source: "other", Endpoints: []fleet.Endpoint{{Name: "f", URL: "http://f", Weight: 1}},
		})
		called := slices.Clone(s.Observe(s.now, route.Probed{Endpoint: "e", Report: fleet.Report{}}).Dispatched)
		called = append(called, s.Observe(s.now, route.Probed{
			Endpoint: "f", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "small"}}},
		}).Dispatched...)
		if !slices.Contains(called, h.Lease) {
			t.Fatalf("%s: it is not called", name)
		}
		if p, err := s.ask("d", h.Lease); err != nil || p.Model != "small" {
			t.Errorf("%s: it gets %q, %v", name, p.Model, err)
		}
	}
}

// TestHeldTurnsWaitForTheirModel: a turn of an alias is held for as long as one that names its model, also while
// engines of the alias's other model have nothing to do; whether the alias has the name of its first model or another.
func TestHeldTurnsWaitForTheirModel(t *testing.T) {
	held := func(aliases ...fleet.Alias) time.Duration {
		s := newFullEngine(t, func(c *route.Config) { c.Aliases = aliases })
		s.Observe(s.now, route.Declared{
			Source: "other", Endpoints: []fleet.Endpoint{{Name: "f", URL: "http://f", Weight: 1}},
		})
		s.Observe(s.now, route.Probed{Endpoint: "f", Report: fleet.Report{
			Healthy: true, CacheTokens: 100_000, Models: []fleet.Model{{ID: "small"}},
		}})
		for _, name := range []string{"a", "b", "c"} {
			s.place(name, 0)
		}
		q := fleet.Request{
			ID: "d", Model: "m", Session: "d", Class: fleet.Turn, PromptTokens: 30_000, Stream: true, MayQueue: true,
			MayHold: true, Seed: 1,
		}
		if len(aliases) > 0 {
			q.Model = aliases[0].Name
		}
		p, err := s.Decide(s.now, &q)
		if err != nil || p.Hold.Lease == 0 {
			t.Fatalf("%v: %+v, %v; want it held", aliases, p.Plan, err)
		}
		began := s.now
		for s.now.Sub(began) < time.Hour {
			if called := s.wait(time.Second); slices.Contains(called, p.Hold.Lease) {
				break
			}
		}
		q.Hold = p.Hold.Lease
		if p, err = s.Decide(s.now, &q); err != nil || p.Model != "m" {
			t.Errorf("%v: it gets %q, %v", aliases, p.Model, err)
		}
		return s.now.Sub(began)
	}
	want := held()
	for _, name := range []string{"m", "fast"} {
		for kind, alias := range map[string]fleet.Alias{
			"shares": {Models: []string{"m", "small"}, Shares: []float64{100, 0}},
			"order":  {Models: []string{"m", "small"}, Overflow: []time.Duration{10 * time.Hour, 0}},
		} {
			if alias.Name = name; held(alias) != want {
				t.Errorf("%s, by %s: it is held for %v, want %v", name, kind, held(alias), want)
			}
		}
	}
	if want < 5*time.Second {
		t.Errorf("held for %v, too short to show anything", want)
	}
}
