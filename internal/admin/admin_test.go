package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/route"
)

// fakeFleet keeps endpoints in a list and obeys Drain.
type fakeFleet struct {
	mu     sync.Mutex
	status []route.EndpointStatus
	held   []route.HeldTurn
	runs   []route.Running
	more   []fleet.ModelStatus
}

func (f *fakeFleet) Status() []route.EndpointStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.status)
}

func (f *fakeFleet) Models() []fleet.ModelStatus {
	return append([]fleet.ModelStatus{
		{ID: "fast", Alias: []string{"qwen", "new"}, Shares: []float64{95, 5}, Endpoints: []string{"a"}},
		{ID: "qwen", ContextTokens: 4096, Endpoints: []string{"a"}},
	}, f.more...)
}

func (f *fakeFleet) Stats() route.Stats    { return route.Stats{Decisions: 9, Sessions: 3} }
func (f *fakeFleet) Ready() (bool, string) { return true, "" }

func (f *fakeFleet) Running(request string) []route.Running {
	return slices.DeleteFunc(slices.Clone(f.runs), func(r route.Running) bool { return r.Request != request })
}

func (f *fakeFleet) HeldTurns(most int) []route.HeldTurn { return f.held[:min(most, len(f.held))] }

func (f *fakeFleet) Observe(ev route.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := ev.(route.Drain); ok {
		for i := range f.status {
			if f.status[i].Endpoint.Name == d.Endpoint {
				f.status[i].Draining = !d.Off
			}
		}
	}
}

func (f *fakeFleet) load(name string, requests int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.status {
		if f.status[i].Endpoint.Name == name {
			f.status[i].Load.Requests = requests
		}
	}
}

// Add and Remove make the fleet its own Declarer.
func (f *fakeFleet) Add(eps ...fleet.Endpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range eps {
		f.status = append(f.status, route.EndpointStatus{
			Endpoint: e, Kind: e.Kind, Source: "admin", State: fleet.StateUnknown,
		})
	}
	return nil
}

func (f *fakeFleet) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.status)
	f.status = slices.DeleteFunc(f.status, func(s route.EndpointStatus) bool { return s.Endpoint.Name == name })
	if len(f.status) == n {
		return fmt.Errorf("discovery: %w", ErrNotDeclared)
	}
	return nil
}

func parse(d Declaration) ([]fleet.Endpoint, error) {
	var faults []error
	if !strings.HasPrefix(d.URL, "http") {
		faults = append(faults, errors.New("url: want http:// or https://"))
	}
	if d.Weight != nil && *d.Weight < 0 {
		faults = append(faults, errors.New("weight: is negative"))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if d.Name == "" {
		d.Name = d.URL
	}
	e := fleet.Endpoint{Name: d.Name, URL: d.URL, Kind: fleet.Kind(d.Kind), Weight: 1, Models: d.Models}
	out := []fleet.Endpoint{e}
	for i := range d.Ranks {
		e.Part = fleet.Part{Kind: fleet.Rank, Index: i}
		e.Name = fmt.Sprintf("%s/rank%d", d.Name, i)
		out = append(out[:i], e)
	}
	return out, nil
}

func newFleet() *fakeFleet {
	return &fakeFleet{status: []route.EndpointStatus{
		{
			Endpoint: fleet.Endpoint{Name: "a", URL: "http://user:secret@10.0.0.1:8000", APIKey: "hidden", Weight: 1},
			Kind:     fleet.KindVLLM,
			Source:   "static", State: fleet.StateUp, Ramp: 1, Models: []fleet.Model{{ID: "qwen"}},
			Report: fleet.Report{Load: &fleet.LoadReport{Running: 2, Waiting: -1, KVUsage: .25}},
		},
		{
			Endpoint: fleet.Endpoint{Name: "http://h:1/x", URL: "http://h:1", Weight: 1}, Source: "admin",
			State: fleet.StateUnknown, Load: fleet.Load{Queued: 3},
		},
	}}
}

func handler(f *fakeFleet, change func(*Config)) *Admin {
	c := Config{
		Fleet: f, Version: "v1", Endpoints: f, Parse: parse,
		Ready: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ready\n") }),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "warmpath_x 1\n")
		}),
		Settings: func() any { return map[string]int{"answer": 42} },
		Decisions: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"asked": %q}`, r.URL.RawQuery)
		}),
	}
	if change != nil {
		change(&c)
	}
	return New(c)
}

// call sends one request as a local client would; heads are "Key: value".
func call(h http.Handler, method, target, body string, heads ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:9190"
	for _, s := range heads {
		k, v, _ := strings.Cut(s, ": ")
		if k == "Host" {
			r.Host = v
		} else {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func errorCode(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var b struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || b.Error.Message == "" || b.Error.Type == "" {
		t.Errorf("not an error body: %s", w.Body)
	}
	return b.Error.Code
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		status               int
		has                  string // in the body; the code of an error
	}{
		{"GET", "/healthz", "", 200, `"ok"`},
		{"GET", "/readyz", "", 200, "ready"},
		{"GET", "/metrics", "", 200, "warmpath_x"},
		{"GET", "/", "", 200, "<table>"},
		{"GET", "/admin/config", "", 200, `"answer": 42`},
		{"GET", "/admin/decisions?last=3", "", 200, `"last=3"`},
		{"POST", "/admin/decisions", "", 405, "method_not_allowed"},
		{"GET", "/admin/models", "", 200, `"context_tokens": 4096`},
		{"GET", "/admin/models", "", 200, `"shares": [`},
		{"GET", "/admin/models", "", 200, "\"overflow_seconds\": [\n        10,\n"},
		{"GET", "/admin/stats", "", 200, `"decisions": 9`},
		{"GET", "/admin/endpoints", "", 200, `"kv_usage": 0.25`},
		{"GET", "/admin/endpoints", "", 200, `"queued_requests": 3`},
		{"GET", "/admin/endpoints/a", "", 200, `"http://user:xxxxx@10.0.0.1:8000"`},
		{"GET", "/admin/endpoints/http://h:1/x", "", 200, `"name": "http://h:1/x"`},
		{"GET", "/admin/endpoints/http%3A%2F%2Fh:1%2Fx", "", 200, `"name": "http://h:1/x"`},
		{"GET", "/admin/endpoints/zz", "", 404, "unknown_endpoint"},
		{"GET", "/debug/pprof/cmdline", "", 200, "admin.test"},
		{"GET", "/nothing", "", 404, "not_found"},
		{"POST", "/v1/chat/completions", "{}", 404, "this is the admin listener"},
		{"PUT", "/admin/endpoints", "", 405, "method_not_allowed"},
		{"PUT", "/admin/endpoints/a", "", 405, "method_not_allowed"},
		{"GET", "/admin/endpoints/a/drain", "", 404, "unknown_endpoint"},
		{"POST", "/admin/endpoints/a", "", 405, "method_not_allowed"},
		{"POST", "/healthz", "", 405, "method_not_allowed"},
		{"POST", "/readyz", "", 405, "method_not_allowed"},
		{
			"POST", "/admin/endpoints", `{"url":"http://n:1","name":"n","kind":"vllm","models":["m"]}`,
			201, `"name": "n"`,
		},
		{"POST", "/admin/endpoints", `{"url":"http://n:1","name":"n","ranks":2}`, 201, `"name": "n/rank1"`},
		{"POST", "/admin/endpoints", `{"url":"http://n:1","name":"a"}`, 409, "duplicate_endpoint"},
		{"POST", "/admin/endpoints", `{"url":"http://h:1","name":"again"}`, 409, "is declared already"},
		{"POST", "/admin/endpoints", `{"url":"n:1","weight":-1}`, 400, "weight: is negative"},
		{"POST", "/admin/endpoints", `{"ulr":"http://n:1","ranks":"x"}`, 400, `ranks: want a whole number`},
		{"POST", "/admin/endpoints", ``, 400, "bad_endpoint"},
		{"POST", "/admin/endpoints", `[]`, 400, "bad_endpoint"},
		{"POST", "/admin/endpoints", `{"url":"http://n:1"} x`, 400, "bad_endpoint"},
		{"POST", "/admin/endpoints", strings.Repeat(" ", maxDeclaration+1), 413, "too_large"},
		{"DELETE", "/admin/endpoints/a", "", 409, "static"},
		{"DELETE", "/admin/endpoints/zz", "", 404, "unknown_endpoint"},
		{"DELETE", "/admin/endpoints/http://h:1/x", "", 200, `"removed": true`},
		{"POST", "/admin/endpoints/a/drain", "", 200, `"draining": true`},
		{"POST", "/admin/endpoints/http://h:1/x/drain", "", 200, `"draining": true`},
		{"POST", "/admin/endpoints/http:%2F%2Fh:1%2F/drain", "", 200, `"draining": true`},
		{"POST", "/admin/endpoints/a/undrain", "", 200, `"draining": false`},
		{"POST", "/admin/endpoints/http:%2F%2Fh:1/undrain", "", 200, `"draining": false`},
		{"GET", "/admin/endpoints/http:%2F%2Fh:1", "", 200, `"name": "http://h:1/x"`},
		{"DELETE", "/admin/endpoints/http:%2F%2Fh:1/", "", 200, `"removed": true`},
		{"POST", "/admin/endpoints/zz/drain", "", 404, "unknown_endpoint"},
		{"POST", "/admin/endpoints/zz/undrain", "", 404, "unknown_endpoint"},
		{"POST", "/admin/endpoints/a/drain?wait=soon", "", 400, "bad_wait"},
	} {
		f := newFleet()
		f.more = []fleet.ModelStatus{
			{ID: "order", Alias: []string{"new", "qwen"}, Overflow: []time.Duration{10 * time.Second, 0}},
		}
		w := call(handler(f, nil), c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s: got %d %s, want %d with %s", c.method, c.target, w.Code, w.Body, c.status, c.has)
		}
		if w.Code >= 400 {
			errorCode(t, w)
		}
		if s := w.Body.String(); strings.Contains(s, "hidden") && c.target != "/" || strings.Contains(s, "secret") {
			t.Errorf("%s %s: shows a secret", c.method, c.target)
		}
	}
}

func TestDecisionsOff(t *testing.T) {
	w := call(handler(newFleet(), func(c *Config) { c.Decisions = nil }), "GET", "/admin/decisions", "")
	if w.Code != http.StatusNotFound || errorCode(t, w) != "explain_off" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestGuard(t *testing.T) {
	hosts, err := guard.ParseHosts([]string{"*.corp.example"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token, method, target string
		heads                       []string
		want                        int
	}{
		{"token missing", "t0ken", "GET", "/admin/stats", nil, 401},
		{"token wrong", "t0ken", "GET", "/admin/stats", []string{"Authorization: Bearer t0kem"}, 401},
		{"token in the wrong scheme", "t0ken", "GET", "/admin/stats", []string{"Authorization: Basic t0ken"}, 401},
		{"token right", "t0ken", "GET", "/admin/stats", []string{
			"Authorization: Bearer t0ken", "Host: router.example",
		}, 200},
		{"token right, scheme in lower case", "t0ken", "POST", "/admin/endpoints/a/drain", []string{
			"Authorization: bearer t0ken",
		}, 200},
		{"metrics want it too", "t0ken", "GET", "/metrics", nil, 401},
		{"decisions want it too", "t0ken", "GET", "/admin/decisions", nil, 401},
		{"profiles want it too", "t0ken", "GET", "/debug/pprof/", nil, 401},
		{"the page is locked", "t0ken", "GET", "/", nil, 401},
		{"health does not", "t0ken", "GET", "/healthz", []string{"Host: x"}, 200},
		{"nor does readiness", "t0ken", "GET", "/readyz", []string{"Host: x"}, 200},
		{"to be read", "t0ken", "POST", "/readyz", []string{"Host: x"}, 401},
		{"local", "", "POST", "/admin/endpoints/a/drain", nil, 200},
		{"localhost", "", "POST", "/admin/endpoints/a/drain", []string{"Host: localhost:9190"}, 200},
		{"IPv6", "", "POST", "/admin/endpoints/a/drain", []string{"Host: [::1]:9190"}, 200},
		{"IPv6 without port", "", "POST", "/admin/endpoints/a/drain", []string{"Host: [::1]"}, 200},
		{"rebound name", "", "POST", "/admin/endpoints/a/drain", []string{"Host: evil.example:9190"}, 403},
		{"rebound name reads", "", "GET", "/admin/endpoints", []string{"Host: evil.example:9190"}, 403},
		{"scraper by the name of a service", "", "GET", "/metrics", []string{"Host: router:9190"}, 200},
		{"scraper by its name in the cluster", "", "GET", "/metrics", []string{
			"Host: router.ml.svc.cluster.local:9190",
		}, 200},
		{"scraper by its short name in the cluster", "", "HEAD", "/metrics", []string{"Host: router.ml.svc"}, 200},
		{"scraper by the address of a pod", "", "GET", "/metrics", []string{"Host: 10.0.0.7:9190"}, 200},
		{"scraper by an IPv6 address", "", "GET", "/metrics", []string{"Host: [fd00::7]:9190"}, 200},
		{"scraper by a name in hosts", "", "GET", "/metrics", []string{"Host: router.corp.example:9190"}, 200},
		{"rebound name scrapes", "", "GET", "/metrics", []string{"Host: evil.example"}, 403},
		{"rebound name that resembles a cluster's", "", "GET", "/metrics", []string{
			"Host: router.svc.evil.example",
		}, 403},
		{"foreign page scrapes", "", "POST", "/metrics", []string{"Origin: http://evil.example"}, 403},
		{"a service's name is for metrics only", "", "GET", "/admin/stats", []string{"Host: router:9190"}, 403},
		{"own page", "", "POST", "/admin/endpoints/a/drain", []string{"Origin: http://127.0.0.1:9190"}, 200},
		{"foreign page", "", "POST", "/admin/endpoints/a/drain", []string{"Origin: http://evil.example"}, 403},
		{"opaque page", "", "POST", "/admin/endpoints/a/drain", []string{"Origin: null"}, 403},
		{"other port of this host", "", "DELETE", "/admin/endpoints/a", []string{"Origin: http://127.0.0.1:3000"}, 403},
		{"cross-site by its own word", "", "POST", "/admin/endpoints/a/drain", []string{
			"Sec-Fetch-Site: cross-site",
		}, 403},
		{"foreign page reads", "", "GET", "/admin/stats", []string{"Origin: http://evil.example"}, 403},
		{"foreign page embeds", "", "GET", "/debug/pprof/profile?seconds=30", []string{
			"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors",
		}, 403},
		{"foreign page opens a profile", "", "GET", "/debug/pprof/profile?seconds=30", []string{
			"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
		}, 403},
		{"foreign page puts ours in a frame", "", "GET", "/", []string{
			"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe",
		}, 403},
		{"other port of this host reads", "", "GET", "/admin/stream", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"foreign page scrapes by GET", "", "GET", "/metrics", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"a link on another page", "", "GET", "/", []string{
			"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
		}, 200},
		{"typed by hand", "", "GET", "/debug/pprof/", []string{
			"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
		}, 200},
		{"own page reads", "", "GET", "/admin/stats", []string{"Sec-Fetch-Site: same-origin"}, 200},
	} {
		w := call(handler(newFleet(), func(x *Config) { x.Token, x.Hosts = c.token, hosts }), c.method,
			c.target, "", c.heads...)
		if w.Code != c.want {
			t.Errorf("%s: got %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
		if w.Code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: no WWW-Authenticate", c.name)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for _, c := range []struct {
		addr, token string
		ok          bool
	}{
		{"127.0.0.1:9190", "", true},
		{"127.9.9.9:0", "", true},
		{"[::1]:9190", "", true},
		{"localhost:9190", "", true},
		{"[::ffff:127.0.0.1]:1", "", true},
		{":9190", "", false},
		{"0.0.0.0:9190", "", false},
		{"[::]:9190", "", false},
		{"10.0.0.1:9190", "", false},
		{"router:9190", "", false},
		{"127.0.0.1.example:9190", "", false},
		{":9190", "t", true},
		{"router:9190", "t", true},
		{"9190", "t", false},
	} {
		if err := CheckListen(c.addr, c.token); (err == nil) != c.ok {
			t.Errorf("%q with token %q: got %v, want ok %v", c.addr, c.token, err, c.ok)
		}
	}
}

func TestDrainWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration // until the last request ends
		status int
		took   time.Duration
	}{
		{"idle at once", 0, 200, 0},
		{"idle in time", 1020 * time.Millisecond, 200, 1050 * time.Millisecond},
		{"too long", time.Minute, 202, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			if c.after > 0 {
				f.load("a", 1)
				defer time.AfterFunc(c.after, func() { f.load("a", 0) }).Stop()
			}
			began := time.Now()
			w := call(handler(f, nil), "POST", "/admin/endpoints/a/drain?wait=3s", "")
			if took := time.Since(began); w.Code != c.status || took != c.took {
				t.Errorf("%s: got %d after %v, want %d after %v", c.name, w.Code, took, c.status, c.took)
			}
		})
	}
}

// TestRanksTogether: by their engine's name its ranks are shown, drained, waited for and brought back together, and
// nothing else.
func TestRanksTogether(t *testing.T) {
	f := newFleet()
	h := handler(f, func(c *Config) { c.Source = "admin" })
	for _, name := range []string{"n", "n2"} {
		body := `{"url":"http://` + name + `:1","ranks":2,"name":"` + name + `"}`
		if w := call(h, "POST", "/admin/endpoints", body); w.Code != 201 {
			t.Fatal(w.Body)
		}
	}
	f.load("n/rank1", 1)
	ask := func(method, path string, status int, want string) {
		t.Helper()
		w := call(h, method, path, "")
		var got struct {
			Endpoints []struct {
				Name     string
				Draining bool
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(got.Endpoints); w.Code != status || s != want {
			t.Errorf("%s %s: got %d %s, want %d %s", method, path, w.Code, s, status, want)
		}
	}
	ask("POST", "/admin/endpoints/n/drain?wait=60ms", 202, "[{n/rank0 true} {n/rank1 true}]")
	ask("GET", "/admin/endpoints/n2", 200, "[{n2/rank0 false} {n2/rank1 false}]")
	f.load("n/rank1", 0)
	ask("POST", "/admin/endpoints/n/drain?wait=1s", 200, "[{n/rank0 true} {n/rank1 true}]")
	ask("POST", "/admin/endpoints/n/undrain", 200, "[{n/rank0 false} {n/rank1 false}]")
	if w := call(h, "POST", "/admin/endpoints/n/rank1/drain", ""); !strings.Contains(w.Body.String(),
		`"name": "n/rank1"`) {
		t.Errorf("one rank: %s", w.Body)
	}
	ask("GET", "/admin/endpoints/n", 200, "[{n/rank0 false} {n/rank1 true}]")
}

func TestDeclarationListsAllFaults(t *testing.T) {
	w := call(handler(newFleet(), nil), "POST", "/admin/endpoints",
		`{"nam":"x","weight":"heavy","models":"m","slots":null}`)
	var b struct{ Error struct{ Faults []string } }
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"models: want a list of strings, got \"m\"",
		"unknown key \"nam\"; known are kind, models, name, ranks, role, slots, url, weight",
		"slots: want a whole number, got null",
		"weight: want a number, got \"heavy\"",
		"url: is required",
	}
	if d := cmp.Diff(want, b.Error.Faults); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func FuzzDeclaration(f *testing.F) {
	for _, s := range []string{
		`{"url":"http://a","weight":1.5,"models":["m"],"ranks":2}`, `{}`, `null`, `{"url":null}`, `{"slots":1e9}`, `[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := parseDeclaration(b); err == nil && !json.Valid(b) {
			t.Errorf("%q is no JSON and was read as %+v", b, d)
		}
	})
}

// TestRunningIsShown: where a request runs, and what it does there.
func TestRunningIsShown(t *testing.T) {
	now := time.Unix(1000, 0)
	at := now.Add(-5 * time.Second)
	f := &fakeFleet{runs: []route.Running{
		{Request: "q", Endpoint: "a", Leg: fleet.LegUnsplit, Routed: at},
		{Request: "p", Endpoint: "a", Leg: fleet.LegPrefill, Routed: at, Sent: at},
		{Request: "r", Endpoint: "b", Leg: fleet.LegUnsplit, Routed: at, Sent: at, Answers: true},
	}}
	a := New(Config{Fleet: f, Now: func() time.Time { return now }})
	for request, want := range map[string]string{
		"q": `{"running":[{"request":"q","endpoint":"a","state":"queued","routed":"1970-01-01T00:16:35Z","seconds":5}]}`,
		"p": `{"running":[{"request":"p","endpoint":"a","leg":"prefill","state":"computing",` +
			`"routed":"1970-01-01T00:16:35Z","seconds":5}]}`,
		"r": `{"running":[{"request":"r","endpoint":"b","state":"answering","routed":"1970-01-01T00:16:35Z","seconds":5}]}`,
		"x": `{"running":[]}`,
	} {
		var got bytes.Buffer
		w := call(a, http.MethodGet, "/admin/running?request="+request, "")
		if err := json.Compact(&got, w.Body.Bytes()); err != nil || got.String() != want {
			t.Errorf("%s: %v %s, want %s", request, err, got.String(), want)
		}
	}
	if w := call(a, http.MethodGet, "/admin/running", ""); w.Code != http.StatusBadRequest {
		t.Errorf("without a request: %d %s", w.Code, w.Body)
	}
}

// TestHeldTurnsAreShown: who is held, where its session was and until when at most, beside the endpoints and alone.
func TestHeldTurnsAreShown(t *testing.T) {
	now := time.Unix(1000, 0)
	f := &fakeFleet{held: []route.HeldTurn{
		{
			Request: "r1", Conversation: "c1", Tenant: "x", Pool: "qwen", Tokens: 90_000, Home: "a",
			Since: now.Add(-5 * time.Second), Until: now.Add(time.Minute),
		},
		{Request: "r2", Pool: "qwen", Priority: 1, Since: now, Until: now.Add(-time.Second)}, // it is just being called
	}}
	a := New(Config{Fleet: f, Now: func() time.Time { return now }})
	for path, want := range map[string]int{
		"/admin/endpoints": 2, "/admin/held": 2, "/admin/held?request=r1": 1, "/admin/held?conversation=c1": 1,
		"/admin/held?request=other": 0,
	} {
		var got struct {
			Held []struct {
				Request, Conversation, Tenant, Pool, Priority, Home string
				Tokens                                              int64
				Seconds                                             float64 `json:"held_seconds"`
				Left                                                float64 `json:"seconds_left"`
				Until                                               time.Time
			}
		}
		w := call(a, http.MethodGet, path, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Held) != want {
			t.Fatalf("%s: %v, %d held, want %d: %s", path, err, len(got.Held), want, w.Body)
		}
		if want == 0 {
			continue
		}
		h := got.Held[0]
		if h.Conversation != "c1" || h.Tenant != "x" || h.Home != "a" || h.Priority != "normal" || h.Seconds != 5 ||
			h.Left != 60 || !h.Until.Equal(now.Add(time.Minute)) {
			t.Errorf("%s: %+v", path, h)
		}
		if want == 2 && (got.Held[1].Priority != "high" || got.Held[1].Left != 0) {
			t.Errorf("%s: %+v", path, got.Held[1])
		}
	}
}
