package route_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestOneModelIsSilent: an endpoint that gives no sign of life for one model while it begins later requests for another
// gets no more of the first, and is well for the other. What may have another reason proves nothing.
func TestOneModelIsSilent(t *testing.T) {
	type world struct {
		r   *route.Router
		now time.Time
		ask func(model string, stream bool) route.Decision
		say func(l fleet.Lease) // its first byte
	}
	for name, tt := range map[string]struct {
		then func(w *world, waiting, open fleet.Lease) // with a request for n that waits, and a stream of n
		mute bool
	}{
		"later ones of m begin": {func(w *world, _, _ fleet.Lease) { w.say(w.ask("m", true).Lease) }, true},
		"none begins":           {func(*world, fleet.Lease, fleet.Lease) {}, false},
		"those of m that begin came before": {func(w *world, _, _ fleet.Lease) {
			w.r.Observe(w.now, route.StreamsAlive{At: map[string]time.Time{"a": w.now}})
		}, false},
		"another of n begins": {func(w *world, _, _ fleet.Lease) {
			w.say(w.ask("m", true).Lease)
			w.say(w.ask("n", true).Lease)
		}, false},
		"a stream of n goes on": {func(w *world, _, open fleet.Lease) {
			w.say(w.ask("m", true).Lease)
			w.r.Observe(w.now, route.StreamsAlive{Since: []route.Sign{{Lease: open, At: w.now}}})
		}, false},
		"a whole answer of n is computed": {func(w *world, _, _ fleet.Lease) {
			w.ask("n", false)
			w.say(w.ask("m", true).Lease)
		}, false},
		"the client of n leaves": {func(w *world, waiting, _ fleet.Lease) {
			w.say(w.ask("m", true).Lease)
			w.r.Observe(w.now, route.Finished{Lease: waiting, Outcome: fleet.ClientGone})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{now: time.Unix(1_000_000, 0)}
			w.r = route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }})
			declare := route.Declared{Source: "test"}
			for _, e := range []string{"a", "b"} {
				declare.Endpoints = append(declare.Endpoints, fleet.Endpoint{Name: e, URL: "http://" + e, Weight: 1})
			}
			w.r.Observe(w.now, declare)
			for _, e := range []string{"a", "b"} {
				w.r.Observe(w.now, route.Probed{Endpoint: e, Report: fleet.Report{
					Healthy: true, Models: []fleet.Model{{ID: "m"}, {ID: "n"}},
				}})
			}
			at := func(endpoint, model string, stream bool) route.Decision {
				made, err := w.r.Decide(w.now, &fleet.Request{
					Model: model, MintedID: "s", PromptBytes: 4000, Stream: stream, Pin: endpoint,
				})
				if err != nil {
					t.Fatal(err)
				}
				return made.Decision
			}
			w.ask = func(model string, stream bool) route.Decision { return at("a", model, stream) }
			w.say = func(l fleet.Lease) {
				w.now = w.now.Add(50 * time.Millisecond)
				w.r.Observe(w.now, route.FirstByte{Lease: l})
			}
			for _, model := range []string{"m", "n"} {
				l := w.ask(model, true).Lease
				w.say(l)
				w.r.Observe(w.now, route.Finished{
					Lease: l, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 50},
				})
			}
			open := w.ask("n", true).Lease
			w.say(open)
			waiting := w.ask("n", true).Lease
			w.now = w.now.Add(time.Minute)
			tt.then(w, waiting, open)
			w.r.Observe(w.now, route.StreamsAlive{At: map[string]time.Time{"a": w.now}})
			mute := w.r.Status(w.now)[0].Mute
			if want := map[bool][]string{true: {"n"}}[tt.mute]; !slices.Equal(mute, want) {
				t.Errorf("mute for %q, want %q", mute, want)
			}
			for range 9 { // so that the other endpoint has more work
				at("b", "m", true)
			}
			to := map[string]string{"m": "a", "n": "a"}
			if tt.mute {
				to["n"] = "b"
			}
			for model, want := range to {
				if d := at("", model, true); d.Endpoint.Name != want {
					t.Errorf("%s goes to %s, want %s", model, d.Endpoint.Name, want)
				}
			}
		})
	}
}

// TestOnePathIsSilent: work that is no turn and waits for much longer than any such answer took goes elsewhere, where
// the endpoint begins later work or sends nothing; not while such answers come, nor before it is known how long they
// take.
func TestOnePathIsSilent(t *testing.T) {
	const path = "/v1/rerank"
	for name, tt := range map[string]struct {
		known  int           // answers before
		took   time.Duration // each of them
		waited time.Duration
		then   func(r *route.Router, now time.Time, ask func(class fleet.Class) fleet.Lease)
		mute   bool
	}{
		"nothing comes":       {known: 9, took: time.Second, waited: time.Minute, mute: true},
		"not for long enough": {known: 9, took: time.Second, waited: 20 * time.Second},
		"they take long":      {known: 9, took: 10 * time.Second, waited: time.Minute},
		"few are known":       {known: 3, took: time.Second, waited: time.Minute},
		"another is answered": {
			known: 9, took: time.Second, waited: time.Minute,
			then: func(r *route.Router, now time.Time, ask func(class fleet.Class) fleet.Lease) {
				r.Observe(now, route.FirstByte{Lease: ask(fleet.Auxiliary)})
			},
		},
		"later turns are begun": {
			known: 9, took: time.Second, waited: time.Minute, mute: true,
			then: func(r *route.Router, now time.Time, ask func(class fleet.Class) fleet.Lease) {
				r.Observe(now, route.FirstByte{Lease: ask(fleet.Turn)})
			},
		},
		"an earlier turn goes on": {
			known: 9, took: time.Second, waited: time.Minute,
			then: func(r *route.Router, now time.Time, _ func(class fleet.Class) fleet.Lease) {
				r.Observe(now, route.StreamsAlive{At: map[string]time.Time{"a": now}})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }})
			declare := route.Declared{Source: "test"}
			for _, e := range []string{"a", "b"} {
				declare.Endpoints = append(declare.Endpoints, fleet.Endpoint{Name: e, URL: "http://" + e, Weight: 1})
			}
			r.Observe(now, declare)
			for _, e := range []string{"a", "b"} {
				r.Observe(now, route.Probed{Endpoint: e, Report: fleet.Report{
					Healthy: true, Models: []fleet.Model{{ID: "m"}},
				}})
			}
			at := func(endpoint string, class fleet.Class) route.Decision {
				q := fleet.Request{Class: class, Model: "m", Pin: endpoint, Path: path}
				if class == fleet.Turn {
					q.Path, q.MintedID, q.PromptBytes, q.Stream = "/v1/completions", "s", 4000, true
				}
				made, err := r.Decide(now, &q)
				if err != nil {
					t.Fatal(err)
				}
				return made.Decision
			}
			ask := func(class fleet.Class) fleet.Lease { return at("a", class).Lease }
			for range tt.known {
				l := ask(fleet.Auxiliary)
				now = now.Add(tt.took)
				r.Observe(now, route.FirstByte{Lease: l})
				r.Observe(now, route.Finished{Lease: l})
			}
			ask(fleet.Auxiliary)
			now = now.Add(tt.waited)
			if tt.then != nil {
				tt.then(r, now, ask)
			}
			r.Observe(now, route.StreamsAlive{})
			var want []string
			to := "a"
			if tt.mute {
				want, to = []string{path}, "b"
			}
			if mute := r.Status(now)[0].Mute; !slices.Equal(mute, want) {
				t.Errorf("mute for %q, want %q", mute, want)
			}
			for range 9 { // so that the other endpoint has more work
				at("b", fleet.Turn)
			}
			if d := at("", fleet.Auxiliary); d.Endpoint.Name != to {
				t.Errorf("the next goes to %s, want %s", d.Endpoint.Name, to)
			}
			if d := at("", fleet.Turn); d.Endpoint.Name != "a" {
				t.Errorf("a turn goes to %s, want a", d.Endpoint.Name)
			}
		})
	}
}
