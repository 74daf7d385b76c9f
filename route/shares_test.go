package route_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// canary is the alias "fast" of two models with these shares.
func canary(old, fresh float64) []fleet.Alias {
	return []fleet.Alias{{Name: "fast", Models: []string{"m", "new"}, Shares: []float64{old, fresh}}}
}

// TestShares: new conversations divide as the shares say, whether their models are on engines of their own or on the
// same ones as adapters; later turns keep their model, also after the shares have changed; and where no engine has the
// model, the conversation goes to the other.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []fleet.Model
	}{
		{"engines of their own", []fleet.Model{{ID: "m"}}, []fleet.Model{{ID: "new"}}},
		{
			"an adapter on all",
			[]fleet.Model{{ID: "m"}, {ID: "new", Parent: "m"}},
			[]fleet.Model{{ID: "m"}, {ID: "new", Parent: "m"}},
		},
		{"both on all", []fleet.Model{{ID: "m"}, {ID: "new"}}, []fleet.Model{{ID: "m"}, {ID: "new"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTestRouter(t, canary(80, 20), "a", "b")
			x.up("a", nil, c.a...)
			x.up("b", nil, c.b...)
			const n = 100
			ask := func(i, turn int) string {
				d := x.route(fleet.Request{
					Model: "fast", Session: fmt.Sprint("s", i), Class: fleet.Turn, PromptBytes: 1000 * turn,
					Seed: uint64(i*7919 + turn),
				})
				x.end(d, fleet.OK)
				return d.Model
			}
			model, drawn := make([]string, n), 0
			for i := range n {
				model[i] = ask(i, 1)
				if model[i] == "new" {
					drawn++
				}
			}
			if drawn < n/20 || drawn > n/2 {
				t.Errorf("%d of %d conversations got the new model, 20 %% wanted", drawn, n)
			}
			configure := func(old, fresh float64) {
				x.r.Observe(x.now, route.Configured{Config: route.Config{
					Policy: func() pick.Policy { return leastWork{} }, Aliases: canary(old, fresh),
				}})
			}
			configure(50, 50)
			for i := range n {
				if got := ask(i, 2); got != model[i] {
					t.Fatalf("conversation %d had %s and has %s", i, model[i], got)
				}
			}
			configure(100, 0)
			for _, m := range x.r.Models() {
				if m.ID == "fast" != slices.Equal(m.Shares, []float64{100, 0}) {
					t.Errorf("%s is listed with the shares %v", m.ID, m.Shares)
				}
			}
			for i := range n {
				if got := ask(i, 3); got != model[i] {
					t.Fatalf("conversation %d had %s and has %s, whose share is 0 now", i, model[i], got)
				}
				if got := ask(n+i, 1); got != "m" {
					t.Fatalf("a new conversation got %s, whose share is 0", got)
				}
			}
			x.r.Observe(x.now, route.Configured{Config: route.Config{
				Policy:  func() pick.Policy { return leastWork{} },
				Aliases: []fleet.Alias{{Name: "fast", Models: []string{"m"}, Shares: []float64{100}}},
			}})
			for i := range n {
				if got := ask(i, 4); got != "m" {
					t.Fatalf("conversation %d got %s, which the alias has no more", i, got)
				}
			}
			configure(0, 100)
			x.up("a", nil, c.a[0]) // the new model has gone
			x.up("b", nil, fleet.Model{ID: "other"})
			for i := range n {
				if got := ask(i, 4); got != "m" {
					t.Fatalf("conversation %d got %s, which no engine serves", i, got)
				}
			}
		})
	}
}

// TestSharesFit: a conversation gets a model only where an engine can compute its prompt with it, whether both models
// are on one engine or on two, and whether the request is free to go anywhere, pinned, or follows a stored response.
func TestSharesFit(t *testing.T) {
	wide, narrow := fleet.Model{ID: "m", ContextTokens: 128_000}, fleet.Model{ID: "new", ContextTokens: 8_000}
	for _, c := range []struct {
		name string
		a, b []fleet.Model
	}{
		{"one engine", []fleet.Model{wide, narrow}, []fleet.Model{wide, narrow}},
		{"engines of their own", []fleet.Model{wide}, []fleet.Model{narrow}},
		{"an adapter", []fleet.Model{wide, {ID: "new", Parent: "m", ContextTokens: 8_000}}, []fleet.Model{wide}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTestRouter(t, canary(0, 100), "a", "b")
			x.up("a", nil, c.a...)
			x.up("b", nil, c.b...)
			ask := func(id string, tokens int, change func(*fleet.Request)) string {
				req := fleet.Request{
					Model: "fast", Session: id, Class: fleet.Turn, PromptTokens: tokens,
					PromptBytes: 4 * tokens, Seed: 1,
				}
				change(&req)
				d := x.route(req)
				x.r.Observe(x.now, route.Finished{Lease: d.Lease, Outcome: fleet.OK, Response: "resp-" + id})
				return d.Model
			}
			free := func(*fleet.Request) {}
			for i := range 20 {
				id := fmt.Sprint("s", i)
				if got := ask(id, 1000, free); got != "new" {
					t.Fatalf("a short prompt gets %s", got)
				}
				if got := ask(id, 20_000, free); got != "m" {
					t.Fatalf("its conversation's prompt of 20,000 tokens gets %s", got)
				}
			}
			if got := ask("long", 20_000, free); got != "m" {
				t.Errorf("a prompt of 20,000 tokens gets %s", got)
			}
			if got := ask("answer", 1000, func(r *fleet.Request) { r.MaxTokens = 16_000 }); got != "m" {
				t.Errorf("an answer of 16,000 tokens gets %s", got)
			}
			if got := ask("pin", 20_000, func(r *fleet.Request) { r.Pin = "a" }); got != "m" {
				t.Errorf("pinned to a, a prompt of 20,000 tokens gets %s", got)
			}
			ask("held", 1000, func(r *fleet.Request) { r.Pin = "a" })
			if got := ask("follows", 20_000, func(r *fleet.Request) { r.Follows = "resp-held" }); got != "m" {
				t.Errorf("at the holder a, a prompt of 20,000 tokens gets %s", got)
			}
		})
	}
}

// TestContextBeforeMemory: an engine whose context a prompt exceeds rejects it, also if it has the model in memory.
func TestContextBeforeMemory(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	for name, context := range map[string]int{"a": 8_000, "b": 128_000} {
		loaded := []string{"m"}
		if name == "b" {
			loaded = []string{}
		}
		x.r.Observe(x.now, route.Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m", ContextTokens: context}},
			Load: &fleet.LoadReport{Loaded: loaded},
		}})
	}
	for tokens, want := range map[int]string{1000: "a", 20_000: "b"} {
		if d := x.route(fleet.Request{
			Model: "m", Class: fleet.Turn, PromptTokens: tokens, Seed: 1,
		}); d.Endpoint.Name != want {
			t.Errorf("a prompt of %d tokens goes to %s, want %s", tokens, d.Endpoint.Name, want)
		}
	}
}

// TestContextsPart: an engine that loads on demand loads a model again when the context changes, so requests for
// different contexts go to different engines. A conversation stays with its context. An engine that had the model
// before the router asked has no known context.
func TestContextsPart(t *testing.T) {
	for _, windows := range [][]int{{2048, 8192}, {0, 8192}, {8192, 0}, {0, 4096, 8192}} {
		names := []string{"a", "b", "c"}[:len(windows)]
		x := newTestRouter(t, nil, names...)
		report := func() {
			for _, name := range names {
				x.r.Observe(x.now, route.Probed{Endpoint: name, Report: fleet.Report{
					Healthy: true, Models: []fleet.Model{{ID: "m"}},
					Load: &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"m"}},
				}})
			}
		}
		report()
		has, loads := map[string]int{}, 0
		for i := range 60 {
			window := windows[i%len(windows)]
			req := fleet.Request{
				Model: "m", Window: window, PromptBytes: 4000, MintedID: strconv.Itoa(i), Stream: true, Seed: uint64(i),
			}
			if i%3 == 0 {
				req.Session = strconv.Itoa(window)
			}
			d := x.route(req)
			if was, known := has[d.Endpoint.Name]; known && was != window {
				loads++
			}
			has[d.Endpoint.Name] = window
			x.now = x.now.Add(time.Second)
			x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
			x.end(d, fleet.OK)
			if i%5 == 0 {
				report()
			}
		}
		if loads > len(windows)-1 {
			t.Errorf("contexts %v: the model was loaded again %d times", windows, loads)
		}
	}
}

// newOnDemand is a router of as many engines as models, each of which they load on demand. None is ever seen to have
// one in memory.
func newOnDemand(t *testing.T, models int) *testRouter {
	t.Helper()
	names := []string{"a", "b", "c"}[:models]
	x := newTestRouter(t, nil, names...)
	for _, name := range names {
		report := fleet.Report{
			Healthy: true, Kind: fleet.KindOther, Sleep: fleet.Dozing,
			Load: &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{}},
		}
		for i := range models {
			report.Models = append(report.Models, fleet.Model{ID: "m" + strconv.Itoa(i)})
		}
		x.r.Observe(x.now, route.Probed{Endpoint: name, Report: report})
	}
	return x
}

// TestModelsPart: so do requests for different models where engines have room for one, also while each is asked for
// another model as soon as it has loaded one. What is cached of a conversation went with its model.
func TestModelsPart(t *testing.T) {
	for _, models := range []int{2, 3} {
		x := newOnDemand(t, models)
		has, loads := map[string]string{}, 0
		for i := range 60 {
			talk := i * 7 % (2 * models) // two of each model
			req := fleet.Request{
				Model: "m" + strconv.Itoa(talk%models), Session: strconv.Itoa(talk), PromptBytes: 4000, Stream: true,
				Seed: uint64(i),
			}
			d := x.route(req)
			if has[d.Endpoint.Name] != req.Model {
				has[d.Endpoint.Name] = req.Model
				loads++
			}
			x.now = x.now.Add(time.Second)
			x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
			x.end(d, fleet.OK)
		}
		if loads > models {
			t.Errorf("%d models: %d loads", models, loads)
		}
	}
	for after, want := range map[time.Duration]string{time.Second: "b", time.Hour: "a"} {
		x := newOnDemand(t, 2)
		x.end(x.route(fleet.Request{Model: "m0"}), fleet.OK)
		x.now = x.now.Add(after)
		if d := x.route(fleet.Request{Model: "m1"}); d.Endpoint.Name != want {
			t.Errorf("%v after another model another goes to %s, want %s", after, d.Endpoint.Name, want)
		}
	}
}

// legsOf is a fleet of prefillers and decoders, with the models that each serves, for an alias with shares.
func legsOf(
	t *testing.T, when fleet.SplitWhen, shares func(old, fresh float64) []fleet.Alias, serve map[string][]string,
) (x *testRouter, configure func(old, fresh float64)) {
	config := func(old, fresh float64) route.Config {
		return route.Config{
			Policy: func() pick.Policy { return leastWork{} }, Aliases: shares(old, fresh),
			Disaggregation: route.Disaggregation{When: when},
		}
	}
	x = &testRouter{t: t, now: newTestRouter(t, nil).now, r: route.New(config(100, 0))}
	d := route.Declared{Source: "s"}
	for _, name := range []string{"p0", "p1", "p2", "d0", "d1", "d2"} {
		role := fleet.RoleDecode
		if name[0] == 'p' {
			role = fleet.RolePrefill
		}
		if serve[name] != nil {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1, Role: role})
		}
	}
	x.r.Observe(x.now, d)
	for name, models := range serve {
		var list []fleet.Model
		for _, id := range models {
			list = append(list, fleet.Model{ID: id})
		}
		x.up(name, nil, list...)
	}
	return x, func(old, fresh float64) { x.r.Observe(x.now, route.Configured{Config: config(old, fresh)}) }
}

// TestSharesLegs: both legs of a split request get the conversation's one model: also when the prefill side has not
// seen the conversation and the shares have changed, and when either leg is placed again. Where no prefiller has it,
// the decoder answers alone.
func TestSharesLegs(t *testing.T) {
	for name, serve := range map[string]map[string][]string{
		"engines of their own": {"p0": {"m"}, "p1": {"new"}, "p2": {"new"}, "d0": {"m"}, "d1": {"new"}, "d2": {"new"}},
		"both on all":          {"p0": {"m", "new"}, "p1": {"m", "new"}, "d0": {"m", "new"}, "d1": {"m", "new"}},
		"no prefiller":         {"p0": {"m"}, "d0": {"m"}, "d1": {"new"}, "d2": {"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			x, configure := legsOf(t, fleet.WhenAlways, canary, serve)
			ask := func(req fleet.Request) route.Made {
				t.Helper()
				made, err := x.r.Decide(x.now, &req)
				if err != nil {
					t.Fatal(err)
				}
				return made
			}
			end := func(made route.Made) {
				for _, l := range []fleet.Lease{made.Prefill.Lease, made.Lease} {
					if l != 0 {
						x.r.Observe(x.now, route.Finished{Lease: l, Outcome: fleet.OK})
					}
				}
			}
			both := func(what string, made route.Made, want string, split bool) {
				t.Helper()
				if made.Model != want || made.Split() != split || split && made.Prefill.Model != want {
					t.Errorf("%s: %q and %q, split %t, want %q, split %t",
						what, made.Prefill.Model, made.Model, made.Split(), want, split)
				}
			}
			hasNew := slices.Contains(serve["p1"], "new")
			turn := func(id string) fleet.Request {
				return fleet.Request{
					Model: "fast", Session: id, Class: fleet.Turn, PromptTokens: 2000, PromptBytes: 8000, Seed: 5,
					Stream: true, Splits: true,
				}
			}
			for i := range 10 {
				req := turn(fmt.Sprint("s", i))
				configure(0, 100)
				req.Splits = false // the decoder alone: the prefill side does not know the conversation
				made := ask(req)
				both("whole", made, "new", false)
				end(made)
				configure(100, 0)
				req.Splits = true
				for range 2 {
					made = ask(req)
					both("the shares have changed", made, "new", hasNew)
					end(made)
				}
				made = ask(turn(fmt.Sprint("t", i)))
				both("a new conversation", made, "m", true)
				end(made)
			}
			configure(0, 100)
			if !hasNew {
				return
			}
			for _, id := range []string{"", "x"} {
				req := turn(id)
				req.MintedID = "minted"
				made := ask(req)
				both("shares of 0 and 100", made, "new", true)
				configure(100, 0)
				req.Leg, req.LegModel, req.Decoder = fleet.LegPrefill, made.Model, made.Endpoint.Name
				req.TriedPrefill = []string{made.Prefill.Endpoint.Name}
				again := ask(req)
				if again.Prefill.Model != "new" {
					t.Errorf("%q: the prefill leg is placed again for %s", id, again.Prefill.Model)
				}
				end(again)
				req.Leg, req.LegModel, req.Prefiller = fleet.LegDecode, made.Prefill.Model, made.Prefill.Endpoint.Name
				req.TriedPrefill, req.Tried = nil, []string{made.Endpoint.Name}
				if again = ask(req); again.Model != "new" {
					t.Errorf("%q: the decode leg is placed again for %s", id, again.Model)
				}
				end(again)
				end(made)
				configure(0, 100)
			}
		})
	}
}

// TestLegsPair: a leg that is placed again goes where the other leg's model and kind of engine are, whatever the alias.
func TestLegsPair(t *testing.T) {
	plain := func(float64, float64) []fleet.Alias {
		return []fleet.Alias{{Name: "fast", Models: []string{"m", "new"}}}
	}
	x, _ := legsOf(t, fleet.WhenAlways, plain, map[string][]string{
		"p0": {"m"}, "p1": {"new"}, "d0": {"m"}, "d1": {"new"}, "d2": {"new"},
	})
	req := fleet.Request{Model: "fast", Class: fleet.Turn, PromptTokens: 2000, Seed: 5, Stream: true, Splits: true}
	req.Leg, req.Prefiller, req.Tried = fleet.LegDecode, "p0", []string{"d2"}
	for range 5 {
		made, err := x.r.Decide(x.now, &req)
		if err != nil {
			t.Fatal(err)
		}
		if made.Model != "m" {
			t.Errorf("a prompt computed with m goes to %s, which has %s", made.Endpoint.Name, made.Model)
		}
	}
}

// BenchmarkShares places turns of an alias with shares whose models are on all engines. It allocates nothing.
func BenchmarkShares(b *testing.B) {
	for _, n := range []int{4, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, now := sharedFleet(n)
			req := &fleet.Request{Model: "fast", Session: "s", Class: fleet.Turn, PromptTokens: 1000, Seed: 1}
			b.ReportAllocs()
			for b.Loop() {
				place(b, r, now, req)
			}
		})
	}
}

// TestSharesAllocate: a decision for an alias with shares allocates nothing that grows with the fleet.
func TestSharesAllocate(t *testing.T) {
	r, now := sharedFleet(200)
	req := &fleet.Request{Model: "fast", Session: "s", Class: fleet.Turn, PromptTokens: 1000, Seed: 1}
	place(t, r, now, req)
	if n := testing.AllocsPerRun(50, func() { place(t, r, now, req) }); n > 5 {
		t.Errorf("%v allocations a decision", n)
	}
}

// sharedFleet is so many engines that serve both models of an alias, whose conversations get the second.
func sharedFleet(n int) (*route.Router, time.Time) {
	r, now := route.New(route.Config{Policy: func() pick.Policy { return leastWork{} }, Aliases: canary(0, 100)}),
		time.Unix(1000, 0)
	d := route.Declared{Source: "s"}
	for i := range n {
		name := fmt.Sprint("e", i)
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
	}
	r.Observe(now, d)
	for _, e := range d.Endpoints {
		r.Observe(now, route.Probed{
			Endpoint: e.Name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}, {ID: "new"}}},
		})
	}
	return r, now
}

// place places a request and ends it.
func place(t testing.TB, r *route.Router, now time.Time, req *fleet.Request) {
	d, err := r.Decide(now, req)
	if err != nil || d.Model != "new" {
		t.Fatal(d.Model, err)
	}
	r.Observe(now, route.Finished{Lease: d.Lease, Outcome: fleet.OK})
}

// TestSharesAreTold: a conversation keeps its model at a router that only heard of it, by news or as one of the
// requests under way, also when its shares are others: so it is while the configuration is being changed.
func TestSharesAreTold(t *testing.T) {
	for name, c := range map[string][2][]fleet.Model{
		"engines of their own": {{{ID: "m"}}, {{ID: "new"}}},
		"both on all":          {{{ID: "m"}, {ID: "new"}}, {{ID: "m"}, {ID: "new"}}},
	} {
		t.Run(name, func(t *testing.T) {
			router := func(old, fresh float64) *testRouter {
				x := &testRouter{t: t, now: time.Unix(1000, 0), r: route.New(route.Config{
					Policy: func() pick.Policy { return leastWork{} }, Aliases: canary(old, fresh), Replicas: true,
				})}
				x.declare([]string{"a", "b"}, "")
				x.up("a", nil, c[0]...)
				x.up("b", nil, c[1]...)
				return x
			}
			x, hears, joins := router(0, 100), router(100, 0), router(100, 0)
			for i := range 10 {
				req := fleet.Request{
					Model: "fast", Session: fmt.Sprint("s", i), Class: fleet.Turn, PromptTokens: 1000,
					PromptBytes: 4000, Seed: 1,
				}
				made, err := x.r.Decide(x.now, &req)
				if err != nil || made.Model != "new" {
					t.Fatal(made.Model, err)
				}
				tell := func(to *testRouter, news []route.News) {
					for i := range news {
						to.r.Observe(to.now, route.PeerNews{Peer: 1, At: to.now, News: &news[i]})
					}
				}
				tell(hears, made.News)
				x.r.TellOpen(x.now, func(news []route.News) { tell(joins, news) })
				tell(joins, x.r.Observe(x.now, route.Finished{Lease: made.Lease, Outcome: fleet.OK}).News)
				for what, y := range map[string]*testRouter{"heard": hears, "joined": joins} {
					if d := y.route(req); d.Model != "new" {
						t.Errorf("a router that %s gives %s to a conversation that has new", what, d.Model)
					}
				}
			}
		})
	}
}

// TestSharesAreNotTold: a router that hears of a turn without its model, as from one of an older version, gives the
// conversation the model that its id draws, or that it had.
func TestSharesAreNotTold(t *testing.T) {
	both := []fleet.Model{{ID: "m"}, {ID: "new"}}
	router := func(old, fresh float64) *testRouter {
		x := &testRouter{t: t, now: time.Unix(1000, 0), r: route.New(route.Config{
			Policy: func() pick.Policy { return leastWork{} }, Aliases: canary(old, fresh), Replicas: true,
		})}
		x.declare([]string{"a"}, "")
		x.up("a", nil, both...)
		return x
	}
	for name, known := range map[string]bool{"it is known": true, "it is unknown": false} {
		x, hears := router(0, 100), router(0, 100)
		req := fleet.Request{Model: "fast", Session: "s", Class: fleet.Turn, PromptTokens: 1000, Seed: 1}
		if known {
			hears.end(hears.route(req), fleet.OK)
		}
		made, err := x.r.Decide(x.now, &req)
		if err != nil {
			t.Fatal(err)
		}
		for i := range made.News {
			if n := made.News[i]; n.Kind == route.NewsPlaced {
				placed := *n.Placed
				placed.Model = 0
				n.Placed = &placed
				hears.r.Observe(hears.now, route.PeerNews{Peer: 1, At: hears.now, News: &n})
			}
		}
		if d := hears.route(req); d.Model != "new" {
			t.Errorf("%s: it gets %s, want new", name, d.Model)
		}
	}
}

// TestAnotherModelIsCold: what a conversation's last turn left in an engine's cache is of no use to another model, also
// on the same engine: neither at the router that places the turn with it nor at one that only heard of the last one.
func TestAnotherModelIsCold(t *testing.T) {
	router := func() *testRouter {
		x := &testRouter{t: t, now: time.Unix(1000, 0), r: route.New(route.Config{
			Policy: func() pick.Policy { return leastWork{} }, Aliases: canary(0, 100), Replicas: true,
		})}
		x.declare([]string{"a"}, "")
		x.up("a", nil, fleet.Model{ID: "m", ContextTokens: 128_000}, fleet.Model{ID: "new", ContextTokens: 8_000})
		return x
	}
	x, hears := router(), router()
	tell := func(news []route.News) {
		for i := range news {
			hears.r.Observe(hears.now, route.PeerNews{Peer: 1, At: x.now, News: &news[i]})
		}
	}
	turn := func(y *testRouter, tokens int) route.Made {
		made, err := y.r.Decide(y.now, &fleet.Request{
			Model: "fast", Session: "s", Class: fleet.Turn, PromptTokens: tokens, PromptBytes: 4 * tokens, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	end := func(made route.Made) {
		u := fleet.Usage{PromptTokens: made.PromptTokens, OutputTokens: 50, CachedKnown: true}
		tell(x.r.Observe(x.now, route.FirstByte{Lease: made.Lease}).News)
		tell(x.r.Observe(x.now, route.Finished{Lease: made.Lease, Outcome: fleet.OK, Usage: u}).News)
	}
	for _, c := range []struct {
		tokens int
		model  string
		warm   bool
	}{{1000, "new", false}, {1500, "new", true}, {20_000, "m", false}, {21_000, "m", true}} {
		made := turn(x, c.tokens)
		if made.Model != c.model || made.CachedTokens > 0 != c.warm {
			t.Errorf("%d tokens: %s with %d cached, want %s, warm %t",
				c.tokens, made.Model, made.CachedTokens, c.model, c.warm)
		}
		tell(made.News)
		end(made)
	}
	if heard := turn(hears, 22_000); heard.Model != "m" || heard.CachedTokens == 0 {
		t.Errorf("one that heard of it: %s with %d cached", heard.Model, heard.CachedTokens)
	}
}
