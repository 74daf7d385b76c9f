package metrics

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/saturation"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

// fakeFleet is a Source whose state a test sets.
type fakeFleet struct {
	mu     sync.Mutex
	status []route.EndpointStatus
	models []fleet.ModelStatus
	stats  route.Stats
}

func (f *fakeFleet) Status() []route.EndpointStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.status)
}

func (f *fakeFleet) Models() []fleet.ModelStatus { return f.models }
func (f *fakeFleet) Stats() route.Stats          { return f.stats }

func (f *fakeFleet) declare(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = nil
	for _, n := range names {
		f.status = append(f.status, route.EndpointStatus{
			Endpoint: fleet.Endpoint{Name: n, Weight: 1}, Kind: fleet.KindVLLM, Source: "static",
			State: fleet.StateUp, Ramp: 1,
			Report:      fleet.Report{Load: &fleet.LoadReport{Running: 2, Waiting: -1, KVUsage: .5}, CacheTokens: 1000},
			CacheLosses: 1,
		})
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func served(pool, endpoint string) *live.Served {
	return &live.Served{
		API: "chat", Status: 200, Stream: true, Chunks: 11, Attempts: 1,
		Started: start, FirstByte: start.Add(80 * time.Millisecond), LastByte: start.Add(280 * time.Millisecond),
		Ended: start.Add(281 * time.Millisecond), Decision: route.Decision{Pool: pool, Endpoint: fleet.Endpoint{
			Name: endpoint,
		}, Policy: "session", Reason: pick.ReasonSession, CachedTokens: 60},
		Usage: fleet.Usage{PromptTokens: 100, CachedTokens: 70, CachedKnown: true, OutputTokens: 21},
	}
}

// ended is the attempt behind a request: predicted at 60 cached tokens and a first token in 50 ms, 30 ms at another
// endpoint.
func ended(s *live.Served) *route.Ended {
	d := s.Decision
	d.TTFTMs = 50
	return &route.Ended{
		Decision: d, Outcome: fleet.OK, Usage: s.Usage, Stream: true, Routed: s.Started, FirstByte: s.FirstByte,
		Candidates: []pick.Candidate{
			{Terms: pick.Terms{Prefill: 50}},
			{Terms: pick.Terms{Prefill: 90}},
			{Terms: pick.Terms{Prefill: 20, Fixed: 10, Spread: 99}},
		},
	}
}

// fakeLines is a file of decisions.
type fakeLines struct{}

func (fakeLines) Written() uint64 { return 7 }
func (fakeLines) Dropped() uint64 { return 2 }

// someEvents are streams of one endpoint.
func someEvents() KVEvents {
	return KVEvents{
		Publishers: KVPublishers{Listening: true, Tied: 3, Untied: 1, Dropped: 17, Refused: 6},
		ByEndpoint: []EndpointKV{
			{Endpoint: "a", Counts: kvstream.Counts{Batches: 9, Stored: 70, Removed: 30, Missing: 2, Restarts: 1}},
		}, Unasked: 4,
	}
}

// play sends one request through all hooks.
func play(m *Metrics, pool, endpoint string) {
	s := served(pool, endpoint)
	l := m.Listener()
	l.Entry(&route.Entry{Request: &fleet.Request{}, Decision: &s.Decision})
	m.ObserveDecision(pool, 12*time.Microsecond)
	l.Retry(endpoint, fleet.Busy)
	l.Entry(&route.Entry{Event: route.Finished{}, Ended: ended(s)})
	l.Served(s)
}

func populated(t *testing.T) (*Metrics, *fakeFleet) {
	t.Helper()
	m, f := New(Config{Version: "v1", Commit: "abc"}), &fakeFleet{
		stats: route.Stats{Sessions: 3, SessionHits: 5, Leases: 1},
	}
	f.declare("a", "b")
	m.Watch(f)
	m.WatchLines(fakeLines{})
	m.WatchRecording(fakeLines{})
	m.WatchAccessLog(fakeLines{})
	m.WatchLog(fakeLines{})
	m.Reloaded(Applied)
	m.Configured("0123456789ab", time.Unix(1, 0))
	m.WatchShadows(fakeShadows{})
	m.WatchKVEvents(someEvents)
	m.WatchLMCache(func() Notifications {
		return Notifications{Taken: 5, Unknown: 4, Malformed: 3, Missing: 2, Refused: 1}
	})
	left := int64(7)
	m.WatchLimits(func() Limits {
		return Limits{Refused: []Refused{{"requests", "a", 2}}, Usage: []TenantUsage{
			{Tenant: "a", Open: 3, Requests: &left, Tokens: &left, UsedRequests: 5, UsedTokens: 6},
		}}
	})
	m.WatchReplicas(func() Fleet { return Fleet{Peers: 2, DelayMs: 1.5, Sent: 3} })
	m.WatchCertificates(func() map[string]time.Time { return map[string]time.Time{"tls.cert": time.Unix(1, 0)} })
	m.WatchState(func() State {
		return State{Saved: time.Unix(1700000000, 0), Bytes: 1234, Failures: 2, Restored: true}
	})
	m.WatchLeases(func() int { return 1 }, func() uint64 { return 2 })
	m.WatchBodies(func() Bodies { return Bodies{Held: 4096, Limit: 1 << 30, Refused: 2} })
	m.WatchPools(func() []saturation.Pool {
		return []saturation.Pool{
			{ID: "p", Endpoints: 1, Prompts: 0.5, Answers: 0.25, KV: 0.125, WaitMs: 1500},
			{ID: "q", Endpoints: 1, Answers: -1, KV: -1},
		}
	})
	f.status[0].KV = kvstream.Figures{State: kvstream.Exact, Blocks: 40, Tied: 30, Untied: 10, Wrong: 1}
	play(m, "qwen", "a")
	return m, f
}

func gather(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	got, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range got {
		byName[f.GetName()] = f
	}
	return byName
}

func TestCountsOneRequest(t *testing.T) {
	m, _ := populated(t)
	want := `
# HELP warmpath_attempts_total Attempts at endpoints by outcome; a retried request has several
# TYPE warmpath_attempts_total counter
warmpath_attempts_total{endpoint="a",outcome="ok"} 1
# HELP warmpath_cache_losses_total Losses of the endpoint's cache: its process ended, its engine slept, or its KV events said so
# TYPE warmpath_cache_losses_total counter
warmpath_cache_losses_total{endpoint="a"} 1
warmpath_cache_losses_total{endpoint="b"} 1
# HELP warmpath_cached_tokens_total Prompt tokens that engines reported as found in their cache
# TYPE warmpath_cached_tokens_total counter
warmpath_cached_tokens_total{endpoint="a",pool="qwen"} 70
# HELP warmpath_decisions_total Decisions by the policy's reason
# TYPE warmpath_decisions_total counter
warmpath_decisions_total{policy="session",pool="qwen",reason="session"} 1
# HELP warmpath_endpoint_state 1 for the endpoint's state, 0 for the others
# TYPE warmpath_endpoint_state gauge
warmpath_endpoint_state{endpoint="a",state="busy"} 0
warmpath_endpoint_state{endpoint="a",state="down"} 0
warmpath_endpoint_state{endpoint="a",state="ejected"} 0
warmpath_endpoint_state{endpoint="a",state="unknown"} 0
warmpath_endpoint_state{endpoint="a",state="up"} 1
warmpath_endpoint_state{endpoint="b",state="busy"} 0
warmpath_endpoint_state{endpoint="b",state="down"} 0
warmpath_endpoint_state{endpoint="b",state="ejected"} 0
warmpath_endpoint_state{endpoint="b",state="unknown"} 0
warmpath_endpoint_state{endpoint="b",state="up"} 1
# HELP warmpath_explain_lines_total Decisions written to explain.file, and dropped because it did not keep up; absent when there is no file
# TYPE warmpath_explain_lines_total counter
warmpath_explain_lines_total{result="dropped"} 2
warmpath_explain_lines_total{result="written"} 7
# HELP warmpath_output_tokens_total Answer tokens as reported by engines
# TYPE warmpath_output_tokens_total counter
warmpath_output_tokens_total{endpoint="a",pool="qwen"} 21
# HELP warmpath_predicted_cached_tokens_total Prompt tokens that the router expected to be in the engine's cache, of the requests whose prompt tokens were reported
# TYPE warmpath_predicted_cached_tokens_total counter
warmpath_predicted_cached_tokens_total{endpoint="a",pool="qwen"} 60
# HELP warmpath_requests_total Client requests, counted at their end; endpoint is the last one tried
# TYPE warmpath_requests_total counter
warmpath_requests_total{api="chat",code="200",endpoint="a",pool="qwen"} 1
# HELP warmpath_retries_total Attempts that failed before their first byte and were retried elsewhere, by failed endpoint and outcome
# TYPE warmpath_retries_total counter
warmpath_retries_total{endpoint="a",outcome="busy"} 1
warmpath_retries_total{endpoint="a",outcome="connect_failed"} 0
warmpath_retries_total{endpoint="a",outcome="engine_error"} 0
warmpath_retries_total{endpoint="a",outcome="timed_out"} 0
warmpath_retries_total{endpoint="b",outcome="busy"} 0
warmpath_retries_total{endpoint="b",outcome="connect_failed"} 0
warmpath_retries_total{endpoint="b",outcome="engine_error"} 0
warmpath_retries_total{endpoint="b",outcome="timed_out"} 0
# HELP warmpath_session_hits_total Turns whose conversation was remembered
# TYPE warmpath_session_hits_total counter
warmpath_session_hits_total 5
`
	if err := testutil.GatherAndCompare(m, strings.NewReader(want),
		"warmpath_attempts_total", "warmpath_cached_tokens_total", "warmpath_decisions_total",
		"warmpath_endpoint_state", "warmpath_output_tokens_total", "warmpath_predicted_cached_tokens_total",
		"warmpath_requests_total", "warmpath_retries_total", "warmpath_session_hits_total",
		"warmpath_cache_losses_total", "warmpath_explain_lines_total"); err != nil {
		t.Error(err)
	}
	got := gather(t, m)
	for name, want := range map[string]float64{
		"warmpath_ttft_seconds": .08, "warmpath_itl_seconds": .01, "warmpath_request_seconds": .281,
		"warmpath_decision_seconds": 12e-6,
	} {
		h := got[name].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 1 || h.GetSampleSum() < want*.999 || h.GetSampleSum() > want*1.001 {
			t.Errorf("%s: %d samples sum %v, want 1 of %v", name, h.GetSampleCount(), h.GetSampleSum(), want)
		}
		if len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%s has no native buckets", name)
		}
	}
	if got["warmpath_endpoint_engine_waiting"] != nil {
		t.Error("a figure that was not reported is shown")
	}
}

func TestBetweenTokens(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*live.Served)
		want   time.Duration
	}{
		{"usage counts tokens", func(*live.Served) {}, 10 * time.Millisecond},
		{"no usage: pieces", func(s *live.Served) { s.Usage.OutputTokens = 0 }, 20 * time.Millisecond},
		{"not streamed", func(s *live.Served) { s.Stream = false }, 0},
		{"one token", func(s *live.Served) { s.Usage.OutputTokens, s.Chunks = 1, 1 }, 0},
		{"no data", func(s *live.Served) { s.FirstByte = time.Time{} }, 0},
	} {
		s := served("p", "e")
		c.change(s)
		if got := betweenTokens(s); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCodeLabel(t *testing.T) {
	for status, want := range map[int]string{
		0: "other", 101: "1xx", 200: "200", 204: "2xx", 302: "3xx", 404: "404", 418: "4xx", 499: "499", 503: "503",
		599: "5xx", 600: "other", -1: "other",
	} {
		if got := codeLabel(status); got != want {
			t.Errorf("%d: got %q, want %q", status, got, want)
		}
	}
}

func TestClientGoneAndNoDecision(t *testing.T) {
	m := New(Config{})
	l := m.Listener()
	l.Entry(&route.Entry{Request: &fleet.Request{Model: "invented"}, Err: errors.New("no such model")})
	l.Served(&live.Served{API: "chat", Status: 499, Outcome: fleet.ClientGone, Started: start, Ended: start})
	l.Served(&live.Served{API: "chat", Status: 404, Error: "no_endpoint", Refused: true, Started: start, Ended: start})
	l.Served(&live.Served{
		API: "chat", Status: 429, Error: "queue_full", Limit: "limits.waiting", Refused: true,
		Started: start, Ended: start,
	})
	for _, labels := range [][]string{{"no_endpoint", "none"}, {"queue_full", "limits.waiting"}} {
		if got := testutil.ToFloat64(m.v.refused.WithLabelValues(labels...)); got != 1 {
			t.Errorf("refused %v: got %v, want 1", labels, got)
		}
	}
	if got := testutil.ToFloat64(m.v.clientGone); got != 1 {
		t.Errorf("client gone: got %v, want 1", got)
	}
	if got := testutil.ToFloat64(m.v.requests.WithLabelValues("none", "none", "chat", "404")); got != 1 {
		t.Errorf("refused request: got %v, want 1", got)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if strings.Contains(w.Body.String(), "invented") {
		t.Error("a model named by a client became a label")
	}
}

func TestFamiliesAreWhatIsServed(t *testing.T) {
	m, _ := populated(t)
	f := (*m.source.Load()).(*fakeFleet)
	f.status[0].Report.Load.Waiting = 1
	f.status[0].TransferMs, f.status[0].TransferPerSec = 12, 40_000
	f.status[0].WorkingSet, f.status[0].WorkingRoom = 90, 100
	f.models = append(f.models, fleet.ModelStatus{ID: "p", Endpoints: []string{f.status[0].Endpoint.Name, "gone"}})
	f.stats.HeldPools = []route.HeldPool{{Pool: "p", Tokens: 30}, {Pool: "q", Tokens: 5}}
	m.entry(&route.Entry{Decision: &route.Decision{
		Pool: "p", Policy: "session", Reason: "home", Leg: fleet.LegDecode, Why: fleet.SplitSooner,
	}, Prefill: &route.Decision{Pool: "p", Policy: "session", Reason: "home"}})
	if n := testutil.ToFloat64(m.v.splits.WithLabelValues("p", "sooner", "2")); n != 1 {
		t.Errorf("%v splits counted, want 1", n)
	}
	wants := served("p", "a")
	wants.Unsalted = "a"
	wants.WantedTTFT, wants.WantedTPOT = 80*time.Millisecond, time.Millisecond // it had 80 and 10
	m.observe(wants)
	for objective, result := range map[string]string{"ttft": "met", "tpot": "missed"} {
		if n := testutil.ToFloat64(m.v.objectives.WithLabelValues("p", objective, result)); n != 1 {
			t.Errorf("%s %s: %v, want 1", objective, result, n)
		}
	}
	if n := testutil.ToFloat64(m.v.unsalted.WithLabelValues("chat")); n != 1 {
		t.Errorf("%v requests without a salt, want 1", n)
	}
	m.observe(&live.Served{
		API: "chat", Status: 429, Error: "queue_full", Limit: "limits.waiting", Refused: true,
		Started: start, Ended: start,
	})
	canary := served("fast", "a")
	canary.Decision.Model = "new"
	canary.Decision.Passed = []route.PassedOver{{Model: "large", Why: route.PassedFull, WaitMs: 5000}}
	m.observe(canary)
	got := gather(t, m)
	want := map[string]family{}
	for _, f := range families() {
		want[f.Name] = f
		g := got[f.Name]
		if g == nil {
			t.Errorf("%s is documented and not served", f.Name)
			continue
		}
		if kind := strings.ToLower(g.GetType().String()); kind != f.Kind || g.GetHelp() != f.Help {
			t.Errorf("%s: served as %s %q, documented as %s %q", f.Name, kind, g.GetHelp(), f.Kind, f.Help)
		}
		var labels []string
		for _, l := range g.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if d := cmp.Diff(slices.Sorted(slices.Values(f.Labels)), labels); d != "" {
			t.Errorf("%s: labels (-documented +served):\n%s", f.Name, d)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is served and not documented", name)
		}
	}
}

func TestBodies(t *testing.T) {
	m, _ := populated(t)
	got := gather(t, m)
	held, limit, refused := got["warmpath_body_held_bytes"], got["warmpath_body_limit_bytes"],
		got["warmpath_bodies_refused_total"]
	if v := held.GetMetric()[0].GetGauge().GetValue(); v != 4096 {
		t.Errorf("held: %v", v)
	}
	if v := limit.GetMetric()[0].GetGauge().GetValue(); v != 1<<30 {
		t.Errorf("limit: %v", v)
	}
	if v := refused.GetMetric()[0].GetCounter().GetValue(); v != 2 {
		t.Errorf("refused: %v", v)
	}
}

func TestLint(t *testing.T) {
	m, _ := populated(t)
	got := gather(t, m)
	var ours []*dto.MetricFamily
	for _, f := range families() {
		if g := got[f.Name]; g != nil {
			ours = append(ours, g)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(ours).Lint()
	if err != nil || len(ours) < 30 {
		t.Fatalf("%d families, %v", len(ours), err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestReferenceIsFresh(t *testing.T) {
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Reference(), string(got)); d != "" {
		t.Errorf("docs/metrics.md is stale; run this test with -update (-want +got):\n%s", d)
	}
}

// TestLabelValuesAreNamed: each fixed value of a label stands in the metric's row of docs/metrics.md, or among its
// labels.
func TestLabelValuesAreNamed(t *testing.T) {
	reference := Reference()
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(warmpath_[a-z_]+)` .*$").FindAllStringSubmatch(reference, -1) {
		rows[m[1]] = m[0]
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var words []string
			for _, a := range call.Args {
				if s, ok := a.(*ast.BasicLit); ok && s.Kind == token.STRING {
					words = append(words, strings.Trim(s.Value, "\"`"))
				}
			}
			if len(words) < 2 || rows[words[0]] == "" || strings.HasPrefix(words[1], "warmpath_") {
				return true
			}
			for _, value := range words[1:] {
				found++
				if value != "yes" && value != "no" &&
					!regexp.MustCompile(`\b`+value+`s?\b`).MatchString(rows[words[0]]) {
					t.Errorf("%s: %s has a label of %s, which its row does not name: %s",
						name, words[0], value, rows[words[0]])
				}
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("%d values were found", found)
	}
	for o := fleet.OK; o.String() != "unknown"; o++ {
		if !strings.Contains(reference, "`"+o.String()+"`") {
			t.Errorf("docs/metrics.md does not have the outcome %s", o)
		}
	}
	for _, s := range []fleet.State{
		fleet.StateUnknown, fleet.StateUp, fleet.StateDown, fleet.StateEjected, fleet.StateBusy,
	} {
		if !strings.Contains(reference, "`"+string(s)+"`") {
			t.Errorf("docs/metrics.md does not have the state %s", s)
		}
	}
}

// TestExemplars: the times of a traced request have its trace as their exemplar, where OpenMetrics is spoken; those of
// others have none.
func TestExemplars(t *testing.T) {
	for _, trace := range []string{"", "4bf92f3577b34da6a3ce929d0e0e4736"} {
		m := New(Config{})
		s := served("qwen", "a")
		s.Trace = trace
		m.Listener().Served(s)
		r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept", "application/openmetrics-text")
		m.Handler().ServeHTTP(w, r)
		for _, name := range []string{"warmpath_ttft_seconds", "warmpath_request_seconds", "warmpath_itl_seconds"} {
			found := 0
			for line := range strings.Lines(w.Body.String()) {
				if strings.HasPrefix(line, name+"_bucket") && strings.Contains(line, `# {trace_id="`) {
					found++
					if !strings.Contains(line, trace) {
						t.Error(line)
					}
				}
			}
			if (found > 0) != (trace != "") {
				t.Errorf("%s has %d exemplars of the trace %q", name, found, trace)
			}
		}
	}
}

// TestAliases: requests of an alias are counted by model, up to a bound; those of a model, and of names that clients
// make up, are not.
func TestAliases(t *testing.T) {
	m := New(Config{})
	of := func(alias, model string) {
		s := served(alias, "a")
		s.Decision.Model = model
		m.observe(s)
	}
	of("fast", "new")
	of("fast", "new")
	for _, none := range [][2]string{{"m", "m"}, {"*", "made up"}, {"", "m"}, {"fast", ""}} {
		of(none[0], none[1])
	}
	if n := testutil.CollectAndCount(m.aliases.requests); n != 1 {
		t.Errorf("%d series, want 1", n)
	}
	for vec, want := range map[*prometheus.CounterVec]float64{
		m.aliases.prompt: 200, m.aliases.cached: 140, m.aliases.output: 42,
	} {
		if got := testutil.ToFloat64(vec.WithLabelValues("fast", "new")); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	for i := range 2 * maxAliased {
		of("fast", fmt.Sprint("model", i))
	}
	if n := testutil.CollectAndCount(m.aliases.ttft); n != maxAliased+1 {
		t.Errorf("%d series, want %d and one for the others", n, maxAliased)
	}
}

// TestAliasesAreForgotten: once no more pairs fit, those that a reload took away make room; others stay.
func TestAliasesAreForgotten(t *testing.T) {
	m, f := New(Config{}), &fakeFleet{}
	f.declare("a")
	f.models = []fleet.ModelStatus{{ID: "fast", Alias: []string{"model0", "model1"}}, {ID: "model2"}}
	m.Watch(f)
	of := func(alias, model string) {
		s := served(alias, "a")
		s.Decision.Model, s.Decision.Passed = model, []route.PassedOver{{Model: model, Why: route.PassedDown}}
		m.observe(s)
	}
	series := func(want int) {
		t.Helper()
		gather(t, m)
		for _, v := range m.aliases.all() {
			if n := testutil.CollectAndCount(v); n != want {
				t.Errorf("%d series, want %d", n, want)
			}
		}
	}
	for i := range maxAliased - 1 {
		of("fast", fmt.Sprint("model", i))
	}
	series(maxAliased - 1)
	of("gone", "model0")
	series(2)
	of("fast", "model1")
	of("fast", "new")
	series(3)
	if n := testutil.ToFloat64(m.aliases.requests.WithLabelValues("fast", "model1", "200")); n != 2 {
		t.Errorf("%v requests of a model that stayed, want 2", n)
	}
}
