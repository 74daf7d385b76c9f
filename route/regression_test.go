package route_test

// Regression tests of the router, each for one earlier defect.

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/internal/pool"
)

// leastWork picks the candidate with the least outstanding work, the first of equals.
type leastWork struct{}

func (leastWork) Needs() pick.Needs { return pick.Needs{Name: "least"} }

func (leastWork) Hooks() pick.Hooks { return pick.Hooks{} }

func (leastWork) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	best := 0
	for i := range v.Candidates {
		if v.Candidates[i].Load.Work() < v.Candidates[best].Load.Work() {
			best = i
		}
	}
	return pick.Choice{Index: best, Reason: "least"}
}

// testRouter is a router with endpoints that are up and serve "m", on a clock set by the tests.
type testRouter struct {
	t   *testing.T
	r   *route.Router
	now time.Time
}

func newTestRouter(t *testing.T, aliases []fleet.Alias, names ...string) *testRouter {
	t.Helper()
	x := &testRouter{t: t, now: time.Unix(1000, 0), r: route.New(route.Config{
		Policy: func() pick.Policy { return leastWork{} }, Aliases: aliases,
	})}
	x.declare(names, "")
	for _, n := range names {
		x.up(n, nil, fleet.Model{ID: "m"})
	}
	return x
}

func (x *testRouter) declare(names []string, suffix string) {
	d := route.Declared{Source: "s"}
	for _, n := range names {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: n, URL: "http://" + n + suffix, Weight: 1})
	}
	x.r.Observe(x.now, d)
}

func (x *testRouter) up(name string, resident []string, models ...fleet.Model) {
	x.r.Observe(x.now, route.Probed{Endpoint: name, Report: fleet.Report{
		Healthy: true, Models: models, Load: &fleet.LoadReport{Adapters: resident},
	}})
}

func (x *testRouter) route(req fleet.Request) route.Decision {
	x.t.Helper()
	d, err := x.r.Decide(x.now, &req)
	if err != nil {
		x.t.Fatal(err)
	}
	return d.Decision
}

func (x *testRouter) end(d route.Decision, o fleet.Outcome) {
	x.r.Observe(x.now, route.Finished{Lease: d.Lease, Outcome: o})
}

// spread places n requests without ending them and counts them by endpoint.
func (x *testRouter) spread(n int, req fleet.Request) map[string]int {
	x.t.Helper()
	got := map[string]int{}
	for range n {
		got[x.route(req).Endpoint.Name]++
	}
	return got
}

// TestReportOfBeforeItsEnd: a good report says nothing of an engine that has refused a connection since it was asked:
// it took an ejected engine for one that is back, and its cache for a new process's.
func TestReportOfBeforeItsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		asked time.Duration // after the connection failed
		back  bool
	}{
		"asked before": {-time.Millisecond, false}, "asked after": {time.Millisecond, true},
		"asked at the same time": {0, true},
	} {
		x := newTestRouter(t, nil, "a", "b")
		x.now = x.now.Add(time.Minute)
		d := x.route(fleet.Request{Model: "m", Pin: "a"})
		failed := x.now
		x.r.Observe(x.now, route.Finished{Lease: d.Lease, Outcome: fleet.ConnectFailed, Refused: true})
		x.now = x.now.Add(10 * time.Millisecond)
		x.r.Observe(x.now, route.Probed{Endpoint: "a", Asked: failed.Add(tt.asked), Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m"}},
		}})
		for _, s := range x.r.Status(x.now) {
			if s.Endpoint.Name == "a" && ((s.State == fleet.StateUp) != tt.back || s.Report.Refused == tt.back) {
				t.Errorf("%s: it is %s, and has refused: %t", name, s.State, s.Report.Refused)
			}
		}
		x.r.Observe(x.now, route.Probed{
			Endpoint: "a", Asked: failed.Add(tt.asked), Report: fleet.Report{Refused: true},
		})
		for _, s := range x.r.Status(x.now) {
			if s.Endpoint.Name == "a" && s.State != fleet.StateDown {
				t.Errorf("%s: it is %s after a bad report", name, s.State)
			}
		}
	}
}

// TestUnreachedAndUnanswered: an engine that cannot be connected to, and answers no probe though it is excused since it
// has requests, as when its machine has died amid streams, gets no request when its ejection ends while another is fit.
func TestUnreachedAndUnanswered(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	heard := x.now
	x.now = x.now.Add(time.Minute)
	x.end(x.route(fleet.Request{Model: "m", Pin: "a"}), fleet.ConnectFailed)
	mute := route.Probed{Endpoint: "a", Asked: heard, Report: fleet.Report{
		Healthy: true, Unanswered: true, Detail: "no answer",
	}}
	x.r.Observe(x.now, mute)
	x.now = x.now.Add(time.Hour)
	if got := x.spread(6, fleet.Request{Model: "m", PromptBytes: 1000}); got["a"] > 0 {
		t.Errorf("it is sent %v", got)
	}
	x.r.Observe(x.now, route.Probed{Endpoint: "a", Asked: x.now, Report: fleet.Report{Healthy: true}})
	if got := x.spread(6, fleet.Request{Model: "m", PromptBytes: 1000}); got["a"] == 0 {
		t.Errorf("when it answers it is sent %v", got)
	}
}

// TestTrialsAreCountedOff: nothing of a trial is left, whether its answer begins or not.
func TestTrialsAreCountedOff(t *testing.T) {
	for _, begins := range []bool{true, false} {
		x := newTestRouter(t, nil, "a", "b")
		for range 3 {
			x.end(x.route(fleet.Request{Model: "m", Pin: "a"}), fleet.EngineError)
		}
		x.now = x.now.Add(2 * time.Second)
		d := x.route(fleet.Request{Model: "m", Pin: "a"})
		if begins {
			x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
		}
		if x.end(d, fleet.OK); x.r.Idle() != nil {
			t.Errorf("its answer begins: %v: %v", begins, x.r.Idle())
		}
	}
}

// TestTrialEndsAtTheFirstByte: a trial that streams for minutes kept the recovered endpoint without traffic until its
// end.
func TestTrialEndsAtTheFirstByte(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	for range 3 {
		x.end(x.route(fleet.Request{Model: "m", Pin: "a"}), fleet.EngineError)
	}
	x.now = x.now.Add(2 * time.Second)
	d := x.route(fleet.Request{Model: "m", Pin: "a"})
	x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
	x.now = x.now.Add(5 * time.Minute)
	if got := x.spread(50, fleet.Request{Model: "m", PromptBytes: 1000}); got["a"] == 0 {
		t.Errorf("five minutes after the first byte of its trial, a gets nothing: %v", got)
	}
}

// TestAsidesDoNotAbsolve: an engine with a dead scheduler still answers requests that do not need it.
func TestAsidesDoNotAbsolve(t *testing.T) {
	for _, o := range []fleet.Outcome{fleet.OK, fleet.ClientError} {
		x := newTestRouter(t, nil, "a", "b")
		for range 10 {
			x.end(x.route(fleet.Request{Model: "m", Pin: "a"}), fleet.TimedOut)
			x.end(x.route(fleet.Request{Class: fleet.Auxiliary, Pin: "a"}), o)
		}
		if s := x.r.Status(x.now)[0]; s.State != fleet.StateEjected {
			t.Errorf("%s after 10 turns timed out with asides that ended %s in between", s.State, o)
		}
	}
}

// TestAdapterSpills: with two endpoints, the one with the adapter loaded could never be overloaded, since its work is
// never more than twice the mean.
func TestAdapterSpills(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	models := []fleet.Model{{ID: "m"}, {ID: "l", Parent: "m"}}
	x.up("a", []string{"l"}, models...)
	x.up("b", []string{}, models...)
	if got := x.spread(500, fleet.Request{Model: "l", PromptBytes: 40_000}); got["b"] == 0 {
		t.Errorf("500 prompts of 10,000 tokens outstanding: %v", got)
	}
}

// TestAliasOverBaseAndAdapter: a base model needs no loading, so its endpoints must not lose to a loaded adapter.
func TestAliasOverBaseAndAdapter(t *testing.T) {
	x := newTestRouter(t, []fleet.Alias{{Name: "chat", Models: []string{"m", "l"}}}, "a", "b", "c")
	x.up("c", []string{"l"}, fleet.Model{ID: "l", Parent: "other"})
	if got := x.spread(3, fleet.Request{Model: "chat", PromptBytes: 1000}); got["a"]+got["b"] == 0 {
		t.Errorf("3 short prompts: %v", got)
	}
}

// TestAliasOverDeclaredEndpoints: an endpoint that is only declared to serve a model gets its share, whatever lists the
// alias's other models; only for the model that somebody lists as an adapter are endpoints that list it preferred.
func TestAliasOverDeclaredEndpoints(t *testing.T) {
	for _, row := range []struct {
		name, asked string
		declared    []string // models of a
		lists       []fleet.Model
		want        bool // a gets traffic
	}{
		{"a declared base beside an adapter", "chat", []string{"m"}, []fleet.Model{{ID: "l", Parent: "m"}}, true},
		{"both declared, one of them an adapter elsewhere", "chat", []string{"m", "l"}, []fleet.Model{{
			ID: "l", Parent: "m",
		}}, true},
		{
			"a base, and the adapter beside it", "chat",
			[]string{"m"},
			[]fleet.Model{{ID: "m"}, {ID: "l", Parent: "m"}},
			true,
		},
		{"the adapter itself", "chat", []string{"l"}, []fleet.Model{{ID: "l", Parent: "m"}}, false},
		{"the adapter by its own name", "l", []string{"m", "l"}, []fleet.Model{{ID: "l", Parent: "m"}}, false},
		{"the base by its own name", "m", []string{"m"}, []fleet.Model{{ID: "m"}, {ID: "l", Parent: "m"}}, true},
	} {
		x := newTestRouter(t, []fleet.Alias{{Name: "chat", Models: []string{"m", "l"}}})
		x.r.Observe(x.now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
			{Name: "a", URL: "http://a", Weight: 1, Models: row.declared}, {Name: "c", URL: "http://c", Weight: 1},
		}})
		x.up("a", nil)
		x.up("c", []string{"l"}, row.lists...)
		if got := x.spread(6, fleet.Request{Model: row.asked, PromptBytes: 1000}); got["a"] > 0 != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// TestSpellingsOfOllama: a model of Ollama is found by each name that Ollama takes for it, and the engine is asked for
// it by the name that it lists; other kinds of engine have the names that they list alone.
func TestSpellingsOfOllama(t *testing.T) {
	for _, row := range []struct {
		name string
		kind fleet.Kind
		want string
	}{
		{"qwen3", fleet.KindOllama, "qwen3"},
		{"Qwen3", fleet.KindOllama, "qwen3:latest"},
		{"qwen3:LATEST", fleet.KindOllama, "qwen3:latest"},
		{"library/qwen3", fleet.KindOllama, "qwen3:latest"},
		{"registry.ollama.ai/library/Qwen3:latest", fleet.KindOllama, "qwen3:latest"},
		{"QWEN3:8B", fleet.KindOllama, "qwen3:8b"},
		{"me/Mine", fleet.KindOllama, "Me/mine"},
		{"other/qwen3", fleet.KindOllama, ""},
		{"qwen3:8b-q4", fleet.KindOllama, ""},
		{"Qwen3", fleet.KindVLLM, ""},
	} {
		for _, spelt := range []bool{false, true} {
			x := newTestRouter(t, nil)
			x.r.Observe(x.now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
				{Name: "a", URL: "http://a", Weight: 1, Kind: row.kind},
			}})
			x.up("a", nil, fleet.Model{ID: "qwen3:latest"}, fleet.Model{ID: "qwen3"}, fleet.Model{ID: "qwen3:8b"},
				fleet.Model{ID: "Me/mine"})
			want := row.want
			if spelt && want != row.name {
				want = ""
			}
			p, err := x.r.Decide(x.now, &fleet.Request{Class: fleet.Turn, Model: row.name, Spelt: spelt})
			if p.Model != want || (err == nil) != (want != "") {
				t.Errorf("%s at %s, as spelt %v: %q, %v, want %q", row.name, row.kind, spelt, p.Model, err, want)
			}
		}
	}
}

// TestAliasOfNothing: the error of an alias says what it stands for.
func TestAliasOfNothing(t *testing.T) {
	x := newTestRouter(t, []fleet.Alias{{Name: "fast", Models: []string{"mm"}}}, "a")
	_, err := x.r.Decide(x.now, &fleet.Request{Class: fleet.Turn, Model: "fast"})
	if want := `"fast" is an alias of mm, which no engine serves; known models: m`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestFirstTurnOfARetry: the retry of a conversation's first turn is still its first turn.
func TestFirstTurnOfARetry(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	d := x.route(fleet.Request{Model: "m", Session: "s"})
	x.end(d, fleet.ConnectFailed)
	if d = x.route(fleet.Request{
		Model: "m", Session: "s", Attempt: fleet.Attempt{Tried: []string{d.Endpoint.Name}},
	}); !d.FirstTurn {
		t.Error("the retry of a first turn is told as a later turn")
	}
}

// TestNewAddressStartsClean: requests that fail at the old address say nothing about the engine at the new one.
func TestNewAddressStartsClean(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	var old []route.Decision
	for range 3 {
		old = append(old, x.route(fleet.Request{Model: "m", Pin: "a"}))
	}
	x.declare([]string{"a", "b"}, ":81")
	x.up("a", nil, fleet.Model{ID: "m"})
	for _, d := range old {
		x.end(d, fleet.EngineError)
	}
	if s := x.r.Status(x.now)[0]; s.State != fleet.StateUp {
		t.Errorf("the engine at the new address is %s for what the old one did", s.State)
	}
}

// TestRestartEmptiesTheCache: an engine whose port refused a probe or a request comes back with an empty cache. A
// connection that failed in another way, a broken answer and an answer that finds nothing say nothing of the kind.
func TestRestartEmptiesTheCache(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(x *testRouter, d route.Decision)
		lost    bool
	}{
		"refused probe": {func(x *testRouter, d route.Decision) {
			x.r.Observe(x.now, route.Probed{Endpoint: d.Endpoint.Name, Report: fleet.Report{Refused: true}})
		}, true},
		"refused request": {func(x *testRouter, d route.Decision) {
			again := x.route(fleet.Request{Model: "m", PromptBytes: 400, Pin: d.Endpoint.Name})
			x.r.Observe(x.now, route.Finished{Lease: again.Lease, Outcome: fleet.ConnectFailed, Refused: true})
		}, true},
		"refused probe, then it loads": {func(x *testRouter, d route.Decision) {
			x.r.Observe(x.now, route.Probed{Endpoint: d.Endpoint.Name, Report: fleet.Report{Refused: true}})
			x.r.Observe(x.now, route.Probed{
				Endpoint: d.Endpoint.Name, Report: fleet.Report{Detail: "503: loading model"},
			})
		}, true},
		"refused request, then it loads": {func(x *testRouter, d route.Decision) {
			again := x.route(fleet.Request{Model: "m", PromptBytes: 400, Pin: d.Endpoint.Name})
			x.r.Observe(x.now, route.Finished{Lease: again.Lease, Outcome: fleet.ConnectFailed, Refused: true})
			x.r.Observe(x.now, route.Probed{
				Endpoint: d.Endpoint.Name, Report: fleet.Report{Detail: "503: loading model"},
			})
		}, true},
		"failed probe": {func(x *testRouter, d route.Decision) {
			x.r.Observe(x.now, route.Probed{Endpoint: d.Endpoint.Name, Report: fleet.Report{}})
		}, false},
		"failed connection": {func(x *testRouter, d route.Decision) {
			x.end(x.route(fleet.Request{Model: "m", PromptBytes: 400, Pin: d.Endpoint.Name}), fleet.ConnectFailed)
		}, false},
		"broken answer": {func(x *testRouter, d route.Decision) {
			x.end(x.route(fleet.Request{Model: "m", PromptBytes: 400, Pin: d.Endpoint.Name}), fleet.EngineError)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestRouter(t, nil, "a", "b")
			d := x.route(fleet.Request{Model: "m", Session: "s", PromptBytes: 40_000})
			x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
			x.end(d, fleet.OK)
			c.happens(x, d)
			x.now = x.now.Add(30 * time.Second)
			x.up(d.Endpoint.Name, nil, fleet.Model{ID: "m"})
			again := x.route(fleet.Request{Model: "m", Session: "s", PromptBytes: 42_000, Pin: d.Endpoint.Name})
			if lost := again.CachedTokens == 0; lost != c.lost {
				t.Errorf("%d tokens are predicted in its cache", again.CachedTokens)
			}
			i := slices.IndexFunc(x.r.Status(x.now), func(s route.EndpointStatus) bool {
				return s.Endpoint.Name == d.Endpoint.Name
			})
			if n := x.r.Status(x.now)[i].CacheLosses; (n == 1) != c.lost {
				t.Errorf("%d losses are told", n)
			}
		})
	}
}

// TestRestartEmptiesAllRanks: ranks and slots behind an address are one process: if the port refuses a request to one,
// the caches of all are empty.
func TestRestartEmptiesAllRanks(t *testing.T) {
	for _, kind := range []fleet.PartKind{fleet.Rank, fleet.Slot} {
		x := newTestRouter(t, nil)
		d := route.Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "other", URL: "http://b", Weight: 1}}}
		for i := range 2 {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: "a" + strconv.Itoa(i), URL: "http://a", Part: fleet.Part{Kind: kind, Index: i}, Weight: 1,
			})
		}
		x.r.Observe(x.now, d)
		for _, e := range d.Endpoints {
			x.up(e.Name, nil, fleet.Model{ID: "m"})
		}
		refused := x.route(fleet.Request{Model: "m", PromptBytes: 400, Pin: "a0"})
		x.r.Observe(x.now, route.Finished{Lease: refused.Lease, Outcome: fleet.ConnectFailed, Refused: true})
		for _, e := range d.Endpoints {
			x.up(e.Name, nil, fleet.Model{ID: "m"})
		}
		for _, s := range x.r.Status(x.now) {
			if want := s.Endpoint.URL == "http://a"; (s.CacheLosses == 1) != want {
				t.Errorf("%v %s: %d losses", kind, s.Endpoint.Name, s.CacheLosses)
			}
		}
	}
}

// TestFirstStartIsNoLoss: an engine that is started after the router has lost nothing; each time that its process ends
// after that is a loss.
func TestFirstStartIsNoLoss(t *testing.T) {
	x := newTestRouter(t, nil)
	only := fleet.Endpoint{Name: "a", URL: "http://a", Weight: 1}
	x.r.Observe(x.now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{only}})
	for want := range uint64(3) {
		x.r.Observe(x.now, route.Probed{Endpoint: "a", Report: fleet.Report{Refused: true}})
		x.up("a", nil, fleet.Model{ID: "m"})
		if got := x.r.Status(x.now)[0].CacheLosses; got != want {
			t.Errorf("%d losses are told, want %d", got, want)
		}
	}
}

// TestSleepEmptiesTheCache: whether an engine waits to be woken or is woken by the next request, what it held before it
// slept is gone, and what it computes afterwards is there although reports go on.
func TestSleepEmptiesTheCache(t *testing.T) {
	for _, sleep := range []fleet.Sleep{fleet.Asleep, fleet.Dozing} {
		x := newTestRouter(t, nil, "a", "b")
		turn := func(bytes int, pin string) route.Decision {
			d := x.route(fleet.Request{Model: "m", Session: "s", PromptBytes: bytes, Pin: pin})
			x.r.Observe(x.now, route.FirstByte{Lease: d.Lease})
			x.end(d, fleet.OK)
			return d
		}
		at := turn(40_000, "").Endpoint.Name
		report := func(s fleet.Sleep) {
			x.r.Observe(x.now, route.Probed{Endpoint: at, Report: fleet.Report{Healthy: true, Sleep: s}})
			x.now = x.now.Add(time.Second)
		}
		for _, s := range []fleet.Sleep{fleet.Awake, fleet.SleepUnknown, sleep, fleet.SleepUnknown, fleet.Awake} {
			report(s)
		}
		if d := turn(42_000, at); d.CachedTokens != 0 {
			t.Errorf("%s: %d tokens are predicted in its cache", sleep, d.CachedTokens)
		}
		report(fleet.Awake)
		if d := turn(44_000, at); d.CachedTokens == 0 {
			t.Errorf("%s: what it computed since it woke is forgotten", sleep)
		}
	}
}

// TestAsleepGetsNothing: an engine that waits to be woken gets no request until it is awake, nor is the router ready
// with nothing else; one that the next request wakes gets some once the others are busy.
func TestAsleepGetsNothing(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b")
	report := func(name string, s fleet.Sleep) {
		x.r.Observe(x.now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Sleep: s, Rests: "asleep for a test"},
		})
	}
	takers := func() map[string]int {
		got := map[string]int{}
		for i := range 20 {
			got[x.route(fleet.Request{Model: "m", MintedID: strconv.Itoa(i), PromptBytes: 100_000}).Endpoint.Name]++
		}
		return got
	}
	report("a", fleet.Asleep)
	if got := takers(); got["a"] != 0 {
		t.Errorf("asleep: %v", got)
	}
	report("a", fleet.Dozing)
	if got := takers(); got["a"] == 0 {
		t.Errorf("dozing: %v", got)
	}
	report("a", fleet.Asleep)
	report("b", fleet.Asleep)
	if ok, why := x.r.Ready(x.now); ok || !strings.Contains(why, "a is asleep for a test") {
		t.Errorf("ready %v, %q", ok, why)
	}
	report("b", fleet.Awake)
	if got := takers(); got["b"] != 20 {
		t.Errorf("awake again: %v", got)
	}
}

// TestWarmFirst: a request goes where its model is in memory, until it would wait longer there than for the model to be
// loaded elsewhere; how long that takes is learnt from the last request that waited for it, and tells nothing of how
// fast prompts are computed.
func TestWarmFirst(t *testing.T) {
	for _, test := range []struct {
		name string
		cold fleet.Report // of a
	}{
		{"another model in memory", fleet.Report{
			Sleep: fleet.Awake, Load: &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"n"}},
		}},
		{"none in memory", fleet.Report{
			Sleep: fleet.Dozing, Load: &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{}},
		}},
		{"asleep since it was idle", fleet.Report{Sleep: fleet.Dozing}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newTestRouter(t, nil, "a", "b")
			report := func() {
				warm := fleet.Report{Healthy: true, Sleep: fleet.Awake, Load: &fleet.LoadReport{
					Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"m"},
				}}
				cold := test.cold
				cold.Healthy = true
				x.r.Observe(x.now, route.Probed{Endpoint: "a", Report: cold})
				x.r.Observe(x.now, route.Probed{Endpoint: "b", Report: warm})
			}
			n := 0
			ask := func() route.Decision {
				n++
				return x.route(fleet.Request{Model: "m", MintedID: strconv.Itoa(n), PromptBytes: 4000, Stream: true})
			}
			untilCold := func() (warm int) { // how many open requests b has when a gets one
				report()
				var open []route.Decision
				for len(open) < 500 {
					d := ask()
					if open = append(open, d); d.Endpoint.Name == "a" {
						break
					}
					warm++
				}
				at := open[len(open)-1]
				for _, d := range open[:len(open)-1] {
					x.end(d, fleet.ClientGone)
				}
				x.now = x.now.Add(60 * time.Second) // the model is loaded
				x.r.Observe(x.now, route.FirstByte{Lease: at.Lease})
				x.end(at, fleet.OK)
				return warm
			}
			first := untilCold()
			if first < 5 || first >= 500 {
				t.Fatalf("%d requests at b before one at a", first)
			}
			if again := untilCold(); again < 5*first && again < 499 {
				t.Errorf("%d requests at b before a is used, though loading took a minute; %d before that was known",
					again, first)
			}
			for _, s := range x.r.Status(x.now) {
				if s.Endpoint.Name == "a" && s.PrefillPerSec != 0 {
					t.Errorf("a computes %v tokens/s, learnt from loading", s.PrefillPerSec)
				}
			}
		})
	}
}

// TestDepartedModel: a model whose last endpoint has left, as where its only engine is replaced, is expected back for a
// while, also by an alias of it. One that an engine lists no more is unknown at once.
func TestDepartedModel(t *testing.T) {
	alias := []fleet.Alias{{Name: "chat", Models: []string{"m"}}}
	ask := func(x *testRouter, model string) error {
		d, err := x.r.Decide(x.now, &fleet.Request{Model: model})
		if err == nil {
			x.end(d.Decision, fleet.OK)
		}
		return err
	}
	for _, tt := range []struct {
		name   string
		events func(x *testRouter)
		absent bool // for now
		known  bool
	}{
		{"left", func(x *testRouter) { x.declare([]string{"other"}, "") }, true, true},
		{"left long ago", func(x *testRouter) {
			x.declare([]string{"other"}, "")
			x.now = x.now.Add(10 * time.Minute)
		}, false, false},
		{"back", func(x *testRouter) {
			x.declare([]string{"other"}, "")
			x.declare([]string{"other", "e"}, "")
			x.up("e", nil, fleet.Model{ID: "m"})
		}, false, true},
		{"dropped by its engine", func(x *testRouter) { x.up("e", nil, fleet.Model{ID: "n"}) }, false, false},
	} {
		x := newTestRouter(t, alias, "e", "other")
		x.up("other", nil, fleet.Model{ID: "o"})
		tt.events(x)
		for _, model := range []string{"m", "chat"} {
			err := ask(x, model)
			var absent *route.NoEndpointError
			var unknown *route.UnknownModelError
			switch {
			case errors.As(err, &absent) != tt.absent, errors.As(err, &unknown) == tt.known,
				tt.absent && absent.RetryAfter <= 0:
				t.Errorf("%s, %s: %v", tt.name, model, err)
			}
		}
		var unknown *route.UnknownModelError
		if err := ask(x, "never there"); !errors.As(err, &unknown) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestEndpointsThatTakeAnyModel: a name that no endpoint has goes, as it is, to those that are declared to take any,
// from the declaration on that says so. A name that one has goes there alone.
func TestEndpointsThatTakeAnyModel(t *testing.T) {
	x := newTestRouter(t, nil, "a", "b", "c")
	x.up("c", nil, fleet.Model{ID: "n"})
	declare := func(any bool, models ...string) {
		x.r.Observe(x.now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
			{Name: "a", URL: "http://a", Weight: 1, Models: models, AnyModel: any},
			{Name: "b", URL: "http://b", Weight: 1, Models: models, AnyModel: any},
			{Name: "c", URL: "http://c", Weight: 1},
		}})
	}
	took := func(model string) string {
		seen := map[string]bool{}
		for i := range 8 {
			d, err := x.r.Decide(x.now, &fleet.Request{Model: model, ID: strconv.Itoa(i), PromptBytes: 1000})
			if err != nil {
				return "none"
			}
			seen[d.Endpoint.Name] = true
			if d.Model != model {
				t.Errorf("%s is called %q", model, d.Model)
			}
		}
		return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
	}
	for _, tt := range []struct {
		any            bool
		declared       []string
		m, n, unlisted string
	}{
		{false, nil, "a b", "c", "none"},
		{true, []string{"m"}, "a b", "c", "a b"},
		{true, nil, "a b", "c", "a b"},
		{false, []string{"m"}, "a b", "c", "none"},
	} {
		declare(tt.any, tt.declared...)
		if m, n, u := took("m"), took("n"), took("adapters/7"); m != tt.m || n != tt.n || u != tt.unlisted {
			t.Errorf("%+v: m is at %s, n at %s, the unlisted name at %s", tt, m, n, u)
		}
	}
	declare(true, "m")
	x.up("a", nil, fleet.Model{ID: "m"}, fleet.Model{ID: "adapters/7", Parent: "m"}) // loaded by its first request
	if at := took("adapters/7"); at != "a b" {
		t.Errorf("where models are declared, a loaded name is at %s", at)
	}
	for _, s := range x.r.Models() {
		if s.ID == "*" {
			t.Error("* is listed as a model")
		}
	}
}

// TestUnknownModelsCostLittle: the error for an unknown model names some of many models, sorted, and does not look at
// all.
func TestUnknownModelsCostLittle(t *testing.T) {
	const endpoints, models = 50, 40
	var names []string
	for i := range endpoints {
		names = append(names, "e"+strconv.Itoa(i))
	}
	x := newTestRouter(t, []fleet.Alias{{Name: "chat", Models: []string{"m0"}}}, names...)
	for i, n := range names {
		var list []fleet.Model
		for k := range models {
			list = append(list, fleet.Model{ID: "m" + strconv.Itoa(i*models+k)})
		}
		x.up(n, nil, list...)
	}
	_, err := x.r.Decide(x.now, &fleet.Request{Model: "nobody's"})
	var unknown *route.UnknownModelError
	if !errors.As(err, &unknown) || len(unknown.Known) != pool.MostNames || !slices.IsSorted(unknown.Known) ||
		!strings.HasSuffix(err.Error(), " and more") {
		t.Errorf("%v of %d names", err, len(unknown.Known))
	}
	_, err = x.r.Decide(x.now, &fleet.Request{})
	var required *route.ModelRequiredError
	if !errors.As(err, &required) || len(required.Known) != pool.MostNames {
		t.Errorf("without a model: %v", err)
	}
	for i, n := range names {
		x.up(n, nil, fleet.Model{ID: "m0"}, fleet.Model{ID: "l" + strconv.Itoa(i%2), Parent: "m0"})
	}
	_, err = x.r.Decide(x.now, &fleet.Request{Model: "nobody's"})
	if want := `the model "nobody's" does not exist; known models: chat, l0, l1, m0`; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err = x.r.Decide(x.now, &fleet.Request{}); err != nil {
		t.Errorf("one model and its adapters, and a request without a model: %v", err)
	}
}

// TestNativeWithoutModel: SGLang's own API reads no model name. Without one a request goes where engines of its kind
// all serve the same model, and is refused where any of two models would answer. A name, engines of other kinds and
// those that are excluded change nothing.
func TestNativeWithoutModel(t *testing.T) {
	for _, row := range []struct {
		name    string
		kinds   []fleet.Kind // of engines that serve m0, m1, ...
		request fleet.Request
		want    bool
	}{
		{"two models", []fleet.Kind{fleet.KindSGLang, fleet.KindSGLang}, fleet.Request{Native: true}, false},
		{
			"one names itself",
			[]fleet.Kind{fleet.KindSGLang, fleet.KindSGLang},
			fleet.Request{Native: true, Model: "m1"},
			true,
		},
		{
			"the other is excluded",
			[]fleet.Kind{fleet.KindSGLang, fleet.KindSGLang},
			fleet.Request{Native: true, Exclude: []string{"e0"}},
			true,
		},
		{
			"another kind has the other model",
			[]fleet.Kind{fleet.KindSGLang, fleet.KindVLLM},
			fleet.Request{Native: true},
			true,
		},
		{"one engine", []fleet.Kind{fleet.KindSGLang}, fleet.Request{Native: true}, true},
		{"another API", []fleet.Kind{fleet.KindSGLang, fleet.KindSGLang}, fleet.Request{Class: fleet.Auxiliary}, true},
	} {
		var names []string
		for i := range row.kinds {
			names = append(names, "e"+strconv.Itoa(i))
		}
		x := newTestRouter(t, nil, names...)
		for i, kind := range row.kinds {
			x.r.Observe(x.now, route.Probed{Endpoint: names[i], Report: fleet.Report{
				Healthy: true, Kind: kind, Models: []fleet.Model{{ID: "m" + strconv.Itoa(i)}},
			}})
		}
		_, err := x.r.Decide(x.now, &row.request)
		var required *route.ModelRequiredError
		if (err == nil) != row.want || err != nil && !errors.As(err, &required) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
