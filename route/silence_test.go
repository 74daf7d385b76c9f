package route_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// newOne is a router with the engine a, which is healthy and serves m unless the report says otherwise.
func newOne(t *testing.T, c route.Config, report fleet.Report) *testRouter {
	t.Helper()
	c.Policy = func() pick.Policy { return firstLeast{} }
	x := &testRouter{t: t, now: time.Unix(1_000_000, 0), r: route.New(c)}
	x.declare([]string{"a"}, "")
	x.probe(report)
	return x
}

// probe brings a report of a.
func (x *testRouter) probe(report fleet.Report) {
	report.Healthy = true
	if report.Models == nil {
		report.Models = []fleet.Model{{ID: "m"}}
	}
	x.r.Observe(x.now, route.Probed{Endpoint: "a", Report: report})
}

// answer is a turn that is answered, its first byte after a while.
func (x *testRouter) answer(req fleet.Request, after time.Duration, output int) {
	x.t.Helper()
	l := x.route(req).Lease
	x.now = x.now.Add(after)
	x.r.Observe(x.now, route.FirstByte{Lease: l})
	x.r.Observe(x.now, route.Finished{
		Lease: l, Usage: fleet.Usage{PromptTokens: req.PromptBytes / 4, OutputTokens: output},
	})
}

// state passes time and says what a then is.
func (x *testRouter) state(after time.Duration) fleet.State {
	x.now = x.now.Add(after)
	x.r.Observe(x.now, route.StreamsAlive{})
	return x.r.Status(x.now)[0].State
}

// tell brings news of another router's request.
func (x *testRouter) tell(n *route.News) {
	n.Lease = 1
	x.r.Observe(x.now, route.PeerNews{Peer: 7, At: x.now, News: n})
}

// loaded is a load report of an engine that has these models in memory.
func loaded(models ...string) *fleet.LoadReport {
	return &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: append([]string{}, models...)}
}

// TestHangsBehindNonStreaming: an engine with one place whose answers are not streamed hangs, or takes long. New
// requests come all the time, and clients leave after a minute.
func TestHangsBehindNonStreaming(t *testing.T) {
	const perAnswer = 20 * time.Millisecond
	type world struct {
		*testRouter
		heard time.Time // or without work
		open  []fleet.Lease
	}
	say := func(w *world, tokens int) {
		w.heard = w.now
		w.r.Observe(w.now, route.FirstByte{Lease: w.open[0]})
		usage := fleet.Usage{PromptTokens: 1000, OutputTokens: tokens}
		w.r.Observe(w.now, route.Finished{Lease: w.open[0], Usage: usage})
		w.open = w.open[1:]
	}
	for name, tt := range map[string]struct {
		report fleet.Report
		most   int           // tokens, stated by clients
		first  int           // of the first of them
		stay   time.Duration // how long clients do; 0 is a minute, below 0 for ever
		every  time.Duration // how often one comes; 0 is 5 seconds
		then   func(w *world, i int)
		from   time.Duration // it is ejected in this time; 0 for never
		to     time.Duration
	}{
		"it hangs, and the length is limited": {
			fleet.Report{Kind: fleet.KindOllama}, 1000, 0, 0, 0, nil, 40 * time.Second, 2 * time.Minute,
		},
		"a long one is in front": {
			fleet.Report{Kind: fleet.KindOllama}, 100, 4000, -1, 0, func(w *world, i int) {
				if i == 140 {
					say(w, 4000)
				}
			}, 140 * time.Second, 0,
		},
		"it hangs, and nothing limits the length": {
			fleet.Report{Kind: fleet.KindOllama}, 0, 0, 0, 0, nil, 10 * time.Minute, 12 * time.Minute,
		},
		"so of an unknown kind, with several places": {
			fleet.Report{Slots: 4}, 0, 0, 0, 0, nil, 10 * time.Minute, 12 * time.Minute,
		},
		"its context limits the length": {
			fleet.Report{Kind: fleet.KindLlamaCpp, Models: []fleet.Model{{ID: "m", ContextTokens: 8192}}},
			0, 0, 0, 0, nil, 5 * time.Minute, 6 * time.Minute,
		},
		"a client has stated more": {
			fleet.Report{Kind: fleet.KindOllama}, 0, 32_000, -1, 0, nil, 21 * time.Minute, 23 * time.Minute,
		},
		"nothing limits the length, and each takes ten minutes": {
			fleet.Report{Kind: fleet.KindOllama}, 0, 0, -1, time.Minute, func(w *world, i int) {
				if i%600 == 599 {
					say(w, 30_000)
				}
			}, 0, 0,
		},
		"it has nothing to do now and then": {
			fleet.Report{Kind: fleet.KindOllama}, 0, 0, 0, 2 * time.Minute, nil, 0, 0,
		},
		"it has other work only": {
			fleet.Report{Kind: fleet.KindOllama}, 0, 0, 0, time.Hour, func(w *world, i int) {
				if i == 0 {
					_, _ = w.r.Decide(w.now, &fleet.Request{Class: fleet.Auxiliary, Model: "m", PromptBytes: 4000})
				}
			}, 0, 0,
		},
		"its figures move": {
			fleet.Report{Slots: 1}, 0, 0, 0, 0, func(w *world, i int) {
				w.probe(fleet.Report{Slots: 1, Load: &fleet.LoadReport{Running: 1, Work: uint64(i + 1)}})
			}, 0, 0,
		},
		"its figures stand still": {
			fleet.Report{Slots: 1}, 0, 0, 0, 0, func(w *world, i int) {
				w.probe(fleet.Report{Slots: 1, Load: &fleet.LoadReport{Running: 1, Work: uint64(min(i, 1) + 1)}})
			}, time.Minute, 70 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{testRouter: newOne(t, route.Config{EjectAfter: 1000}, tt.report)}
			ask := func(most int) {
				d := w.route(fleet.Request{Model: "m", MintedID: "s", PromptBytes: 4000, MaxTokens: most})
				w.open = append(w.open, d.Lease)
			}
			for range 10 {
				ask(tt.most)
				w.now = w.now.Add(50*perAnswer + 100*time.Millisecond)
				say(w, 50)
				w.state(time.Second)
			}
			if tt.stay == 0 {
				tt.stay = time.Minute
			}
			if tt.every == 0 {
				tt.every = 5 * time.Second
			}
			began := w.now
			w.heard = began
			for i := range 1800 {
				at := time.Duration(i) * time.Second
				if i == 0 && tt.first > 0 {
					ask(tt.first)
				}
				if at%tt.every == 0 {
					ask(tt.most)
				}
				if tt.stay > 0 && at >= tt.stay && (at-tt.stay)%tt.every == 0 {
					w.r.Observe(w.now, route.Finished{Lease: w.open[0], Outcome: fleet.ClientGone})
					w.open = w.open[1:]
				}
				if tt.then != nil {
					tt.then(w, i)
				}
				if w.state(time.Second) == fleet.StateEjected {
					if after := w.now.Sub(began); tt.from == 0 || after < tt.from || tt.to > 0 && after > tt.to {
						t.Errorf("it is ejected after %v, want from %v to %v", after, tt.from, tt.to)
					}
					detail := w.r.Status(w.now)[0].Detail
					if quiet := w.now.Sub(w.heard).String(); !strings.HasPrefix(detail, "no data for "+quiet+" ") {
						t.Errorf("%q, want %v without data", detail, quiet)
					}
					return
				}
			}
			if tt.to > 0 {
				t.Error("it is not ejected")
			}
		})
	}
}

// TestStreamWaitsForAPlace: a stream that waits while answers that are not streamed take all places of its engine is
// not overdue. Connections without work for the engine take none.
func TestStreamWaitsForAPlace(t *testing.T) {
	for _, tt := range []struct {
		places, others, asides int
		want                   fleet.State
	}{
		{1, 1, 0, fleet.StateUp},
		{1, 0, 3, fleet.StateEjected},
		{2, 1, 3, fleet.StateEjected},
		{2, 2, 0, fleet.StateUp},
	} {
		x := newOne(t, route.Config{}, fleet.Report{Slots: tt.places})
		turn := fleet.Request{Model: "m", MintedID: "s", PromptBytes: 4000}
		x.answer(turn, 100*time.Millisecond, 50)
		for range tt.others {
			x.route(turn)
		}
		for range tt.asides {
			x.route(fleet.Request{Class: fleet.Auxiliary, Model: "m", PromptBytes: 4000})
		}
		turn.Stream = true
		x.route(turn)
		if got := x.state(10 * time.Minute); got != tt.want {
			t.Errorf("%d places, %d answers and %d connections: %s, want %s",
				tt.places, tt.others, tt.asides, got, tt.want)
		}
	}
}

// TestLoadsOneAfterAnother: an engine that loads one model after another may be silent for each. What ends the load of
// one model says nothing of the others, nor does an answer for which none is needed; when no answer waits for a load
// any more, silence counts.
func TestLoadsOneAfterAnother(t *testing.T) {
	const long = 4*time.Minute + 30*time.Second
	for name, tt := range map[string]struct {
		then  func(end func(l fleet.Lease, o fleet.Outcome), first, second, aside fleet.Lease)
		after time.Duration
		want  fleet.State
	}{
		"the first is loaded": {func(end func(fleet.Lease, fleet.Outcome), first, _, _ fleet.Lease) {
			end(first, fleet.OK)
		}, long, fleet.StateUp},
		"the first cannot be loaded": {func(end func(fleet.Lease, fleet.Outcome), first, _, _ fleet.Lease) {
			end(first, fleet.EngineError)
		}, long, fleet.StateUp},
		"an aside is answered": {func(end func(fleet.Lease, fleet.Outcome), _, _, aside fleet.Lease) {
			end(aside, fleet.OK)
		}, 2 * time.Minute, fleet.StateUp},
		"both clients leave": {func(end func(fleet.Lease, fleet.Outcome), first, second, _ fleet.Lease) {
			end(first, fleet.ClientGone)
			end(second, fleet.ClientGone)
		}, 2 * time.Minute, fleet.StateUp},
		"neither can be loaded": {func(end func(fleet.Lease, fleet.Outcome), first, second, _ fleet.Lease) {
			end(first, fleet.EngineError)
			end(second, fleet.EngineError)
		}, 2 * time.Minute, fleet.StateEjected},
	} {
		x := newOne(t, route.Config{EjectAfter: 10}, fleet.Report{
			Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}, {ID: "n"}, {ID: "here"}}, Sleep: fleet.Awake,
			Load: loaded("here"),
		})
		turn := func(model string) fleet.Request {
			return fleet.Request{Model: model, MintedID: model, PromptBytes: 4000, Stream: true}
		}
		x.answer(turn("here"), 100*time.Millisecond, 50)
		aside := fleet.Request{Class: fleet.Auxiliary, Model: "n"}
		leases := []fleet.Lease{x.route(turn("m")).Lease, x.route(turn("n")).Lease, x.route(aside).Lease}
		x.route(turn("here"))
		x.now = x.now.Add(time.Minute)
		tt.then(func(l fleet.Lease, o fleet.Outcome) {
			if o == fleet.OK {
				x.r.Observe(x.now, route.FirstByte{Lease: l})
			}
			x.r.Observe(x.now, route.Finished{Lease: l, Outcome: o})
		}, leases[0], leases[1], leases[2])
		if got := x.state(tt.after); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestLoadsForOthersAreNoSilence: an engine that loads a model for a request of another router does not hang, though
// what this router sent waits for that.
func TestLoadsForOthersAreNoSilence(t *testing.T) {
	for other, want := range map[string]fleet.State{"here": fleet.StateEjected, "absent": fleet.StateUp} {
		x := newOne(t, route.Config{Replicas: true}, fleet.Report{
			Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "here"}, {ID: "absent"}}, Sleep: fleet.Awake,
			Load: loaded("here"),
		})
		turn := fleet.Request{Model: "here", MintedID: "x", PromptBytes: 4000, Stream: true}
		x.answer(turn, 100*time.Millisecond, 50)
		x.tell(&route.News{Kind: route.NewsPlaced, Placed: &route.Placed{
			Endpoint: route.NameHash("a"), Pool: route.NameHash(other), Stream: true, PromptTokens: 1000,
			OutputTokens: 50,
		}})
		x.route(turn)
		if got := x.state(2 * time.Minute); got != want {
			t.Errorf("with a request of another router for a model that is %s: %s, want %s", other, got, want)
		}
		x.tell(&route.News{Kind: route.NewsFirstByte})
		if x.state(2*time.Minute) != fleet.StateEjected {
			t.Errorf("after its first byte the engine may be silent for ever (%s)", other)
		}
	}
}

// TestLoadsAreNoSilence: an engine that loads the model of a request says nothing for a minute or more, whether it had
// another in memory or none. It is not taken for one that hangs, until a load takes longer than any, or it is silent
// after its first byte.
func TestLoadsAreNoSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		load  *fleet.LoadReport
		byte  bool // comes, and the answer of another request is overdue then
		after time.Duration
		want  fleet.State
	}{
		"the model is in memory":   {loaded("m"), false, 2 * time.Minute, fleet.StateEjected},
		"another is":               {loaded("n"), false, 2 * time.Minute, fleet.StateUp},
		"none is":                  {loaded(), false, 2 * time.Minute, fleet.StateUp},
		"not told":                 {&fleet.LoadReport{}, false, 2 * time.Minute, fleet.StateEjected},
		"another is, for too long": {loaded("n"), false, 6 * time.Minute, fleet.StateEjected},
		"none is, for too long":    {loaded(), false, 6 * time.Minute, fleet.StateEjected},
		"silent after the load":    {loaded("n"), true, 2 * time.Minute, fleet.StateEjected},
	} {
		report := func(l *fleet.LoadReport) fleet.Report {
			sleep := fleet.Awake
			if l.Loaded != nil && len(l.Loaded) == 0 {
				sleep = fleet.Dozing
			}
			return fleet.Report{Kind: fleet.KindVLLM, Sleep: sleep, Load: l}
		}
		x := newOne(t, route.Config{}, report(loaded("m")))
		turn := fleet.Request{Model: "m", MintedID: "s", PromptBytes: 4000, Stream: true}
		x.answer(turn, 100*time.Millisecond, 50)
		x.probe(report(tt.load))
		x.now = x.now.Add(time.Second)
		first := x.route(turn).Lease
		x.route(turn)
		if tt.byte {
			x.now = x.now.Add(time.Minute)
			x.r.Observe(x.now, route.StreamsAlive{Signs: []route.Sign{{Lease: first, At: x.now}}})
			x.r.Observe(x.now, route.FirstByte{Lease: first})
			x.probe(report(loaded("m")))
		}
		if got := x.state(tt.after); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestLoadIsNotLost: once a load of a model is over, silence counts from then on, where no byte says that it is over: a
// request fails for which it was, or another router has its answer.
func TestLoadIsNotLost(t *testing.T) {
	const perAnswer = 20 * time.Millisecond
	for _, other := range []bool{false, true} {
		report := fleet.Report{
			Kind: fleet.KindOllama, Sleep: fleet.Awake, Load: loaded("here"),
			Models: []fleet.Model{{ID: "here", ContextTokens: 1024}, {ID: "absent", ContextTokens: 1024}},
		}
		x := newOne(t, route.Config{EjectAfter: 10, Replicas: true}, report)
		turn := func(model string) fleet.Request {
			return fleet.Request{Model: model, MintedID: model, PromptBytes: 400}
		}
		pass := func(seconds int) (ejected time.Duration) {
			for began := x.now; seconds > 0; seconds-- {
				if x.state(time.Second) == fleet.StateEjected {
					return x.now.Sub(began)
				}
			}
			return 0
		}
		for range 10 { // 20 ms a token: the longest answer takes 41 s
			x.answer(turn("here"), 50*perAnswer, 50)
			pass(1)
		}
		x.probe(report)
		var l fleet.Lease
		if other {
			x.tell(&route.News{Kind: route.NewsPlaced, Placed: &route.Placed{
				Endpoint: route.NameHash("a"), Pool: route.NameHash("absent"), PromptTokens: 100, OutputTokens: 50,
			}})
		} else {
			l = x.route(turn("absent")).Lease
		}
		x.route(turn("here"))
		if after := pass(240); after > 0 {
			t.Fatalf("other %t: ejected after %v of the load", other, after)
		}
		if other {
			x.tell(&route.News{Kind: route.NewsFirstByte})
		} else {
			x.r.Observe(x.now, route.Finished{Lease: l, Outcome: fleet.EngineError})
		}
		if after := pass(120); after < 50*time.Second || after > time.Minute {
			t.Errorf("other %t: ejected %v after the load, want 51 s", other, after)
		}
	}
}

// TestMuteFor: an endpoint that gives no sign of life for one model, or one path, and is well otherwise, gets no more
// requests for that one while another endpoint is there. After a time one request tries it.
func TestMuteFor(t *testing.T) {
	const path = "/v1/rerank"
	turn := func(model string) fleet.Request {
		return fleet.Request{Model: model, MintedID: "s", Path: "/v1/completions", PromptBytes: 4000, Stream: true}
	}
	other := fleet.Request{Class: fleet.Auxiliary, Model: "m", Path: path}
	for mute, req := range map[string]fleet.Request{"n": turn("n"), path: other} {
		x := newTestRouter(t, nil, "a", "b")
		for _, name := range []string{"a", "b"} {
			x.up(name, nil, fleet.Model{ID: "m"}, fleet.Model{ID: "n"})
		}
		at := func(endpoint string, req fleet.Request) fleet.Request {
			req.Pin = endpoint
			return req
		}
		for range 9 {
			for _, q := range []fleet.Request{turn("m"), turn("n"), other} {
				x.answer(at("a", q), time.Second, 50)
			}
		}
		begun := func(req fleet.Request) fleet.Lease {
			l := x.route(at("a", req)).Lease
			x.now = x.now.Add(50 * time.Millisecond)
			x.r.Observe(x.now, route.FirstByte{Lease: l})
			return l
		}
		own := begun(req)
		x.route(at("a", req)) // it waits
		for _, goesOn := range []bool{true, false} {
			x.now = x.now.Add(time.Minute)
			alive := route.StreamsAlive{Signs: []route.Sign{{Lease: begun(turn("m")), At: x.now}}}
			want := []string{mute}
			if goesOn {
				alive.Signs, want = append(alive.Signs, route.Sign{Lease: own, At: x.now}), nil
			}
			x.r.Observe(x.now, alive)
			if got := x.r.Status(x.now)[0].Mute; !slices.Equal(got, want) {
				t.Errorf("its answer before goes on: %t: mute for %q, want %q", goesOn, got, want)
			}
		}
		for range 9 { // so that the other endpoint has more work
			x.route(at("b", turn("m")))
		}
		if d := x.route(req); d.Endpoint.Name != "b" {
			t.Errorf("%s goes to %s, which is mute for it", mute, d.Endpoint.Name)
		}
		if d := x.route(turn("m")); d.Endpoint.Name != "a" {
			t.Errorf("beside %s, m goes to %s, want a", mute, d.Endpoint.Name)
		}
		for len(x.r.Status(x.now)[0].Mute) > 0 {
			x.now = x.now.Add(time.Second)
		}
		for i, want := range []string{"a", "b"} { // one alone tries it
			if d := x.route(req); d.Endpoint.Name != want {
				t.Errorf("afterwards request %d for %s goes to %s, want %s", i, mute, d.Endpoint.Name, want)
			}
		}
	}
}
