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

// TestLongAnswersAreNoSilence: a stream may wait for an engine's only slot, taken by a non-streamed answer. No data
// comes then, and the engine is healthy.
func TestLongAnswersAreNoSilence(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report fleet.Report
		wholes int
		asides int
		later  time.Duration // than the stream come those that are not streamed
		want   fleet.State
	}{
		{"one place", fleet.Report{Slots: 1}, 1, 0, 0, fleet.StateUp},
		{"two places", fleet.Report{Slots: 2}, 1, 0, 0, fleet.StateEjected},
		{"two places, both taken", fleet.Report{Slots: 2}, 2, 0, 0, fleet.StateUp},
		{"llama.cpp, which does not say", fleet.Report{Kind: fleet.KindLlamaCpp}, 1, 0, 0, fleet.StateUp},
		{"Ollama", fleet.Report{Kind: fleet.KindOllama}, 1, 0, 0, fleet.StateUp},
		{"one place, taken at that time", fleet.Report{Slots: 1}, 1, 0, 900 * time.Millisecond, fleet.StateUp},
		{"one place, taken later", fleet.Report{Slots: 1}, 1, 0, 2 * time.Second, fleet.StateEjected},
		{"vLLM", fleet.Report{Kind: fleet.KindVLLM}, 1, 0, 0, fleet.StateEjected},
		{"one place, free", fleet.Report{Slots: 1}, 0, 0, 0, fleet.StateEjected},
		{"one place, free, and open connections without work", fleet.Report{Slots: 1}, 0, 3, 0, fleet.StateEjected},
		{"llama.cpp with such a connection", fleet.Report{Kind: fleet.KindLlamaCpp}, 0, 1, 0, fleet.StateEjected},
		{"two places, one taken, and such a connection", fleet.Report{Slots: 2}, 1, 1, 0, fleet.StateEjected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }})
			r.Observe(now, route.Declared{
				Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
			})
			tt.report.Healthy, tt.report.Models = true, []fleet.Model{{ID: "m"}}
			r.Observe(now, route.Probed{Endpoint: "a", Report: tt.report})
			ask := func(id string, class fleet.Class, stream bool) fleet.Lease {
				d, err := r.Decide(now, &fleet.Request{
					Class: class, Model: "m", MintedID: id, PromptBytes: 4000, Stream: stream,
				})
				if err != nil {
					t.Fatal(err)
				}
				return d.Lease
			}
			l := ask("learnt", fleet.Turn, true)
			now = now.Add(100 * time.Millisecond)
			r.Observe(now, route.FirstByte{Lease: l})
			now = now.Add(time.Second)
			r.Observe(now, route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50}})
			if tt.later > 0 {
				ask("stream", fleet.Turn, true)
				now = now.Add(tt.later)
			}
			for range tt.wholes {
				ask("whole", fleet.Turn, false)
			}
			for range tt.asides {
				ask("aside", fleet.Auxiliary, false)
			}
			if tt.later == 0 {
				ask("stream", fleet.Turn, true)
			}
			now = now.Add(10 * time.Minute)
			r.Observe(now, route.StreamsAlive{})
			if got := r.Status(now)[0].State; got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
}

// TestHangsBehindNonStreaming: an engine with one place whose answers are not streamed hangs, or takes long. New
// requests come all the time, and clients leave after a minute.
func TestHangsBehindNonStreaming(t *testing.T) {
	const perAnswer = 20 * time.Millisecond
	type world struct {
		r     *route.Router
		now   time.Time
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
				w.r.Observe(w.now, route.Probed{Endpoint: "a", Report: fleet.Report{
					Healthy: true, Slots: 1, Models: []fleet.Model{{ID: "m"}},
					Load: &fleet.LoadReport{Running: 1, Waiting: -1, KVUsage: -1, Work: uint64(i + 1)},
				}})
			}, 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{now: time.Unix(1_000_000, 0)}
			w.r = route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, EjectAfter: 1000})
			w.r.Observe(w.now, route.Declared{
				Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
			})
			tt.report.Healthy = true
			if tt.report.Models == nil {
				tt.report.Models = []fleet.Model{{ID: "m"}}
			}
			w.r.Observe(w.now, route.Probed{Endpoint: "a", Report: tt.report})
			ask := func(most int) {
				d, err := w.r.Decide(w.now, &fleet.Request{
					Model: "m", MintedID: "whole", PromptBytes: 4000, MaxTokens: most,
				})
				if err != nil {
					t.Fatal(err)
				}
				w.open = append(w.open, d.Lease)
			}
			for range 10 {
				ask(tt.most)
				w.now = w.now.Add(50*perAnswer + 100*time.Millisecond)
				say(w, 50)
				w.now = w.now.Add(time.Second)
				w.r.Observe(w.now, route.StreamsAlive{})
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
				w.now = w.now.Add(time.Second)
				w.r.Observe(w.now, route.StreamsAlive{})
				if s := w.r.Status(w.now)[0]; s.State == fleet.StateEjected {
					if after := w.now.Sub(began); tt.from == 0 || after < tt.from || tt.to > 0 && after > tt.to {
						t.Errorf("it is ejected after %v, want from %v to %v", after, tt.from, tt.to)
					}
					if quiet := w.now.Sub(w.heard).String(); !strings.HasPrefix(s.Detail, "no data for "+quiet+" ") {
						t.Errorf("%q, want %v without data", s.Detail, quiet)
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

// TestLoadsOneAfterAnother: an engine that loads one model after another may be silent for each. What ends the load of
// one model says nothing of the others, nor does an answer for which none is needed; when no answer waits for a load
// any more, silence counts.
func TestLoadsOneAfterAnother(t *testing.T) {
	for name, tt := range map[string]struct {
		then  func(r *route.Router, now time.Time, first, second, aside fleet.Lease)
		after time.Duration
		want  fleet.State
	}{
		"the first is loaded": {func(r *route.Router, now time.Time, first, _, _ fleet.Lease) {
			r.Observe(now, route.FirstByte{Lease: first})
			r.Observe(now, route.Finished{Lease: first})
		}, 4*time.Minute + 30*time.Second, fleet.StateUp},
		"the first cannot be loaded": {func(r *route.Router, now time.Time, first, _, _ fleet.Lease) {
			r.Observe(now, route.Finished{Lease: first, Outcome: fleet.EngineError})
		}, 4*time.Minute + 30*time.Second, fleet.StateUp},
		"an aside is answered": {func(r *route.Router, now time.Time, _, _, aside fleet.Lease) {
			r.Observe(now, route.FirstByte{Lease: aside})
		}, 2 * time.Minute, fleet.StateUp},
		"both clients leave": {func(r *route.Router, now time.Time, first, second, _ fleet.Lease) {
			r.Observe(now, route.Finished{Lease: first, Outcome: fleet.ClientGone})
			r.Observe(now, route.Finished{Lease: second, Outcome: fleet.ClientGone})
		}, 2 * time.Minute, fleet.StateUp},
		"neither can be loaded": {func(r *route.Router, now time.Time, first, second, _ fleet.Lease) {
			r.Observe(now, route.Finished{Lease: first, Outcome: fleet.EngineError})
			r.Observe(now, route.Finished{Lease: second, Outcome: fleet.EngineError})
		}, 2 * time.Minute, fleet.StateEjected},
	} {
		now := time.Unix(1_000_000, 0)
		r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, EjectAfter: 10})
		r.Observe(now, route.Declared{
			Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
		})
		r.Observe(now, route.Probed{Endpoint: "a", Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}, {ID: "n"}, {ID: "here"}},
			Sleep: fleet.Awake,
			Load:  &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"here"}},
		}})
		ask := func(model string, class fleet.Class) fleet.Lease {
			d, err := r.Decide(now, &fleet.Request{
				Model: model, MintedID: model, PromptBytes: 4000, Stream: true, Class: class,
			})
			if err != nil {
				t.Fatal(err)
			}
			return d.Lease
		}
		learnt := ask("here", fleet.Turn)
		now = now.Add(100 * time.Millisecond)
		r.Observe(now, route.FirstByte{Lease: learnt})
		r.Observe(now, route.Finished{Lease: learnt, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50}})
		first, second, aside := ask("m", fleet.Turn), ask("n", fleet.Turn), ask("n", fleet.Auxiliary)
		ask("here", fleet.Turn)
		now = now.Add(time.Minute)
		tt.then(r, now, first, second, aside)
		now = now.Add(tt.after)
		r.Observe(now, route.StreamsAlive{})
		if got := r.Status(now)[0].State; got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestLoadsForOthersAreNoSilence: an engine that loads a model for a request of another router does not hang, though
// what this router sent waits for that.
func TestLoadsForOthersAreNoSilence(t *testing.T) {
	for other, want := range map[string]fleet.State{"here": fleet.StateEjected, "absent": fleet.StateUp} {
		now := time.Unix(1_000_000, 0)
		r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, Replicas: true})
		r.Observe(now, route.Declared{
			Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
		})
		r.Observe(now, route.Probed{Endpoint: "a", Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "here"}, {ID: "absent"}},
			Sleep: fleet.Awake,
			Load:  &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"here"}},
		}})
		ask := func() fleet.Lease {
			d, err := r.Decide(now, &fleet.Request{Model: "here", MintedID: "x", PromptBytes: 4000, Stream: true})
			if err != nil {
				t.Fatal(err)
			}
			return d.Lease
		}
		tell := func(n *route.News) {
			n.Lease = 1
			r.Observe(now, route.PeerNews{Peer: 7, At: now, News: n})
		}
		silent := func() bool {
			now = now.Add(2 * time.Minute)
			r.Observe(now, route.StreamsAlive{})
			return r.Status(now)[0].State == fleet.StateEjected
		}
		learnt := ask()
		now = now.Add(100 * time.Millisecond)
		r.Observe(now, route.FirstByte{Lease: learnt})
		r.Observe(now, route.Finished{Lease: learnt, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50}})
		tell(&route.News{Kind: route.NewsPlaced, Placed: &route.Placed{
			Endpoint: route.NameHash("a"), Pool: route.NameHash(other), Stream: true, PromptTokens: 1000,
			OutputTokens: 50,
		}})
		ask()
		if silent() != (want == fleet.StateEjected) {
			t.Errorf("with a request of another router for a model that is %s: %s, want %s",
				other, r.Status(now)[0].State, want)
		}
		tell(&route.News{Kind: route.NewsFirstByte})
		if !silent() {
			t.Errorf("after its first byte the engine may be silent for ever (%s)", other)
		}
	}
}

// TestLoadsAreNoSilence: an engine that loads the model of a request says nothing for a minute or more, whether it had
// another in memory or none. It is not taken for one that hangs, until a load takes longer than any, or it is silent
// after its first byte.
func TestLoadsAreNoSilence(t *testing.T) {
	for _, tt := range []struct {
		name   string
		loaded []string
		byte   bool // comes, and the answer of another request is overdue then
		after  time.Duration
		want   fleet.State
	}{
		{"the model is in memory", []string{"m"}, false, 2 * time.Minute, fleet.StateEjected},
		{"another is", []string{"n"}, false, 2 * time.Minute, fleet.StateUp},
		{"none is", []string{}, false, 2 * time.Minute, fleet.StateUp},
		{"not told", nil, false, 2 * time.Minute, fleet.StateEjected},
		{"another is, for too long", []string{"n"}, false, 6 * time.Minute, fleet.StateEjected},
		{"none is, for too long", []string{}, false, 6 * time.Minute, fleet.StateEjected},
		{"silent after the load", []string{"n"}, true, 2 * time.Minute, fleet.StateEjected},
	} {
		now := time.Unix(1_000_000, 0)
		r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }})
		r.Observe(now, route.Declared{
			Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
		})
		report := func(loaded []string) {
			sleep := fleet.Awake
			if loaded != nil && len(loaded) == 0 {
				sleep = fleet.Dozing
			}
			r.Observe(now, route.Probed{Endpoint: "a", Report: fleet.Report{
				Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}, {ID: "n"}}, Sleep: sleep,
				Load: &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: loaded},
			}})
		}
		ask := func(id string) fleet.Lease {
			d, err := r.Decide(now, &fleet.Request{Model: "m", MintedID: id, PromptBytes: 4000, Stream: true})
			if err != nil {
				t.Fatal(err)
			}
			return d.Lease
		}
		report([]string{"m"})
		l := ask("learnt")
		now = now.Add(100 * time.Millisecond)
		r.Observe(now, route.FirstByte{Lease: l})
		now = now.Add(time.Second)
		r.Observe(now, route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50}})
		report(tt.loaded)
		now = now.Add(time.Second)
		first := ask("first")
		ask("second")
		if tt.byte {
			now = now.Add(time.Minute)
			r.Observe(now, route.StreamsAlive{At: map[string]time.Time{"a": now}})
			r.Observe(now, route.FirstByte{Lease: first})
			report([]string{"m"})
		}
		now = now.Add(tt.after)
		r.Observe(now, route.StreamsAlive{})
		if got := r.Status(now)[0].State; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestLoadIsNotLost: once a load of a model is over, silence counts from then on, where no byte says that it is over: a
// request fails for which it was, or another router has its answer.
func TestLoadIsNotLost(t *testing.T) {
	const perAnswer = 20 * time.Millisecond
	for _, other := range []bool{false, true} {
		now := time.Unix(1_000_000, 0)
		r := route.New(route.Config{
			Policy: func() pick.Policy { return firstLeast{} }, EjectAfter: 10, Replicas: true,
		})
		r.Observe(now, route.Declared{
			Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
		})
		probe := func() {
			r.Observe(now, route.Probed{Endpoint: "a", Report: fleet.Report{
				Healthy: true, Kind: fleet.KindOllama, Sleep: fleet.Awake,
				Models: []fleet.Model{{ID: "here", ContextTokens: 1024}, {ID: "absent", ContextTokens: 1024}},
				Load:   &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"here"}},
			}})
		}
		probe()
		ask := func(model string) fleet.Lease {
			d, err := r.Decide(now, &fleet.Request{Model: model, MintedID: model, PromptBytes: 400})
			if err != nil {
				t.Fatal(err)
			}
			return d.Lease
		}
		tell := func(n *route.News) {
			n.Lease = 1
			r.Observe(now, route.PeerNews{Peer: 7, At: now, News: n})
		}
		pass := func(seconds int) (ejected time.Duration) {
			began := now
			for range seconds {
				now = now.Add(time.Second)
				if r.Observe(now, route.StreamsAlive{}); r.Status(now)[0].State == fleet.StateEjected {
					return now.Sub(began)
				}
			}
			return 0
		}
		for range 10 { // 20 ms a token: the longest answer takes 41 s
			l := ask("here")
			now = now.Add(50 * perAnswer)
			r.Observe(now, route.FirstByte{Lease: l})
			r.Observe(now, route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 100, OutputTokens: 50}})
			pass(1)
		}
		probe()
		var l fleet.Lease
		if other {
			tell(&route.News{Kind: route.NewsPlaced, Placed: &route.Placed{
				Endpoint: route.NameHash("a"), Pool: route.NameHash("absent"), PromptTokens: 100, OutputTokens: 50,
			}})
		} else {
			l = ask("absent")
		}
		ask("here")
		if after := pass(240); after > 0 {
			t.Fatalf("other %t: ejected after %v of the load", other, after)
		}
		if other {
			tell(&route.News{Kind: route.NewsFirstByte})
		} else {
			r.Observe(now, route.Finished{Lease: l, Outcome: fleet.EngineError})
		}
		if after := pass(120); after < 50*time.Second || after > time.Minute {
			t.Errorf("other %t: ejected %v after the load, want 51 s", other, after)
		}
	}
}

// TestEngineStandsStill: an engine that says that it has requests, and whose figures of work do not change, is silent
// whatever is expected of its answers: those that are not streamed and have no limit are never overdue by themselves.
func TestEngineStandsStill(t *testing.T) {
	for name, tt := range map[string]struct {
		load   func(i int) *fleet.LoadReport // every second
		stream bool
		want   fleet.State
	}{
		"has never told anything else": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: 3}
		}, false, fleet.StateUp},
		"stands still": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: 7}
		}, false, fleet.StateEjected},
		"a stream, before any speed is known": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: 7}
		}, true, fleet.StateEjected},
		"computes": {func(i int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: uint64(i/30) + 7}
		}, false, fleet.StateUp},
		"has no requests itself": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Work: 7}
		}, false, fleet.StateUp},
		"says nothing of its work": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1}
		}, false, fleet.StateUp},
		"is not asked any more": {func(i int) *fleet.LoadReport {
			if i > 20 {
				return nil
			}
			return &fleet.LoadReport{Running: 1, Work: 7}
		}, false, fleet.StateUp},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			r, probe := oneVLLM(&now)
			probe(&fleet.LoadReport{Work: 3}) // most of them tell another figure later
			if _, err := r.Decide(now, &fleet.Request{
				Class: fleet.Turn, Model: "m", MintedID: "x", PromptBytes: 4000, Stream: tt.stream,
			}); err != nil {
				t.Fatal(err)
			}
			got := fleet.StateUp // an ejection ends by itself
			for i := range 90 {
				now = now.Add(time.Second)
				probe(tt.load(i))
				r.Observe(now, route.StreamsAlive{})
				if s := r.Status(now)[0].State; s != fleet.StateUp {
					got = s
					if i < 50 {
						t.Errorf("after %d s it is %s", i, s)
					}
				}
			}
			if got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
}

// oneVLLM is a router with one vLLM, and what its probes bring at a time.
func oneVLLM(now *time.Time) (r *route.Router, probe func(*fleet.LoadReport)) {
	r = route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }})
	r.Observe(*now, route.Declared{
		Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
	})
	return r, func(l *fleet.LoadReport) {
		r.Observe(*now, route.Probed{Endpoint: "a", Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}, Load: l,
		}})
	}
}

// TestSlowIsNotSilent: an engine whose figures of work move computes, however long an answer is overdue. It is silent
// when they stand still, and where they only say that it has nothing to do.
func TestSlowIsNotSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		load func(i int) *fleet.LoadReport // every second
		from int                           // the second from which it is ejected; 0 for never
	}{
		"a step every eight seconds": {func(i int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: uint64(i/8) + 7}
		}, 0},
		"a step every twelve seconds": {func(i int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: uint64(i/12) + 7}
		}, 22},
		"no step from some time on": {func(i int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1, Work: uint64(min(i, 30)) + 7}
		}, 40},
		"it has taken nothing of it": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Work: 7}
		}, 13},
		"it is not asked any more": {func(i int) *fleet.LoadReport {
			if i > 20 {
				return nil
			}
			return &fleet.LoadReport{Running: 1, Work: uint64(i) + 7}
		}, 30},
		"it says nothing of its work": {func(int) *fleet.LoadReport {
			return &fleet.LoadReport{Running: 1}
		}, 13},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			r, probe := oneVLLM(&now)
			ask := func() fleet.Lease {
				d, err := r.Decide(now, &fleet.Request{
					Class: fleet.Turn, Model: "m", MintedID: "x", PromptBytes: 4000, Stream: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				return d.Lease
			}
			probe(&fleet.LoadReport{Work: 3})
			for range 8 { // the first token is due in half a second
				l := ask()
				now = now.Add(500 * time.Millisecond)
				r.Observe(now, route.FirstByte{Lease: l})
				r.Observe(now, route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 1}})
			}
			ask()
			from := 0
			for i := 1; i <= 90 && from == 0; i++ {
				now = now.Add(time.Second)
				probe(tt.load(i))
				if r.Observe(now, route.StreamsAlive{}); r.Status(now)[0].State != fleet.StateUp {
					from = i
				}
			}
			if from != tt.from {
				t.Errorf("it is ejected after %d s, want %d", from, tt.from)
			}
		})
	}
}

// TestTrialAfterLongSilence: an engine that was ejected because it had work and sent nothing for longer than its
// longest answer takes is tried again for as long, though clients still wait for what it was sent before.
func TestTrialAfterLongSilence(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, EjectAfter: 1000})
	r.Observe(now, route.Declared{
		Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
	})
	r.Observe(now, route.Probed{Endpoint: "a", Report: fleet.Report{
		Healthy: true, Kind: fleet.KindLlamaCpp, Models: []fleet.Model{{ID: "m", ContextTokens: 8192}},
	}})
	ask := func() fleet.Lease {
		d, err := r.Decide(now, &fleet.Request{Model: "m", MintedID: "whole", PromptBytes: 4000})
		if err != nil {
			t.Fatal(err)
		}
		return d.Lease
	}
	for range 10 {
		l := ask()
		now = now.Add(1100 * time.Millisecond)
		r.Observe(now, route.FirstByte{Lease: l})
		r.Observe(now, route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50}})
		r.Observe(now, route.StreamsAlive{})
	}
	ask()
	var ups []time.Duration // how long it was up each time before it was ejected
	state, since := fleet.StateUp, now
	for range 3600 {
		now = now.Add(time.Second)
		r.Observe(now, route.StreamsAlive{})
		is := r.Status(now)[0].State
		if is == state {
			continue
		}
		if is == fleet.StateEjected {
			ups = append(ups, now.Sub(since))
		}
		state, since = is, now
	}
	if len(ups) < 5 || slices.Min(ups) < 5*time.Minute {
		t.Errorf("within an hour it was up for %v, want five times, for 5 min or more each", ups)
	}
}

// hangs is a router with an engine that has answered a few requests and then says nothing, behind good health.
type hangs struct {
	*testing.T
	r   *route.Router
	now time.Time
}

func newHangs(t *testing.T, report fleet.Report, streams bool) *hangs {
	h := &hangs{T: t, now: time.Unix(1_000_000, 0), r: route.New(route.Config{
		Policy: func() pick.Policy { return firstLeast{} }, EjectAfter: 1000,
	})}
	h.r.Observe(h.now, route.Declared{
		Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
	})
	report.Healthy, report.Models = true, []fleet.Model{{ID: "m"}}
	h.r.Observe(h.now, route.Probed{Endpoint: "a", Report: report})
	for range 10 {
		l := h.ask(streams, 0)
		h.now = h.now.Add(1100 * time.Millisecond)
		h.r.Observe(h.now, route.FirstByte{Lease: l})
		h.r.Observe(h.now, route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50}})
		h.r.Observe(h.now, route.StreamsAlive{})
	}
	return h
}

func (h *hangs) ask(stream bool, most int) fleet.Lease {
	h.Helper()
	d, err := h.r.Decide(h.now, &fleet.Request{
		Model: "m", MintedID: "x", PromptBytes: 4000, Stream: stream, MaxTokens: most,
	})
	if err != nil {
		h.Fatal(err)
	}
	return d.Lease
}

// until passes time until the endpoint is in a state, and returns how long that took; most is the longest.
func (h *hangs) until(state fleet.State, most time.Duration) time.Duration {
	began := h.now
	for h.r.Status(h.now)[0].State != state && h.now.Sub(began) < most {
		h.now = h.now.Add(time.Second)
		h.r.Observe(h.now, route.StreamsAlive{})
	}
	return h.now.Sub(began)
}

// TestOlderRequestsOfSilence: what an engine was sent before its last ejection counts for what is said of it, and for
// when it is ejected again.
func TestOlderRequestsOfSilence(t *testing.T) {
	const long = 6 * time.Hour
	t.Run("the words", func(t *testing.T) {
		h := newHangs(t, fleet.Report{Kind: fleet.KindVLLM}, true)
		began := h.now
		h.ask(true, 0)
		h.now = h.now.Add(2 * time.Second)
		h.ask(true, 0)
		h.until(fleet.StateEjected, long)
		h.until(fleet.StateUp, long)
		h.ask(true, 0)
		h.until(fleet.StateEjected, long)
		want := "requests waiting: 3, the first for " + h.now.Sub(began).String()
		if got := h.r.Status(h.now)[0].Detail; !strings.HasSuffix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("its place was taken after the overdue one came", func(t *testing.T) {
		h := newHangs(t, fleet.Report{Slots: 1}, true)
		h.ask(true, 0)
		h.now = h.now.Add(5 * time.Second)
		h.ask(false, 0)
		h.until(fleet.StateEjected, long)
		h.until(fleet.StateUp, long)
		if up := h.until(fleet.StateEjected, long); up > 12*time.Second {
			t.Errorf("nothing tried it, and it was up for %v", up)
		}
	})
	t.Run("a long answer was asked for", func(t *testing.T) {
		h := newHangs(t, fleet.Report{Kind: fleet.KindLlamaCpp}, false)
		stream := h.ask(true, 0)
		h.now = h.now.Add(2 * time.Second)
		h.ask(false, 40_000)
		h.until(fleet.StateEjected, long)
		h.r.Observe(h.now, route.Finished{Lease: stream, Outcome: fleet.ClientGone})
		h.until(fleet.StateUp, long)
		if up := h.until(fleet.StateEjected, long); up < 20*time.Minute || up > 40*time.Minute {
			t.Errorf("40,000 tokens take 13 min and perhaps twice as long, and it was up for %v", up)
		}
	})
	t.Run("it is tried", func(t *testing.T) {
		h := newHangs(t, fleet.Report{Kind: fleet.KindVLLM}, true)
		h.ask(true, 0)
		h.until(fleet.StateEjected, long)
		h.until(fleet.StateUp, long)
		h.ask(false, 0)
		if up := h.until(fleet.StateEjected, long); up < time.Minute {
			t.Errorf("its trial, which may be long, ended after %v by what was sent before", up)
		}
	})
}
