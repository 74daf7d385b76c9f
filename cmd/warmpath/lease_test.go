package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/freeport"
)

// newLessor is a router with two simulated engines that gives leases, and the ends that its fleet told.
func newLessor(t *testing.T, change func(*config.Config)) *rig {
	t.Helper()
	return newRig(t, 2, func(cfg *config.Config) {
		cfg.Lease.Listen = "127.0.0.1:0"
		if change != nil {
			change(cfg)
		}
	})
}

// told is what a call to the listener got.
type told struct {
	status int
	body   string
	order  struct {
		Lease, Endpoint, Method, URL string
		Set                          map[string]string `json:"set_headers"`
		Remove                       []string          `json:"remove_headers"`
		Body                         json.RawMessage
	}
}

func (r *router) lease(t *testing.T, path, body string, header ...string) (got told) {
	t.Helper()
	res, answer := fetch(t, http.MethodPost, r.lessor.at+path, body, header...)
	got.status, got.body = res.StatusCode, answer
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal([]byte(answer), &got.order); err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
	}
	return got
}

// newestDecision is the newest of the admin listener.
func (r *router) newestDecision(t *testing.T) map[string]any {
	t.Helper()
	_, answer := fetched(t, http.MethodGet, r.adminURL+"/admin/decisions?last=1", "")
	var a struct{ Decisions []map[string]any }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || len(a.Decisions) != 1 {
		t.Fatalf("%v, %d decisions", err, len(a.Decisions))
	}
	return a.Decisions[0]
}

// TestLeases: what a program says of its request is accounted for as what the router sees of its own: the outcome, the
// usage, the load and the conversation. Each way of ending releases the lease once.
func TestLeases(t *testing.T) {
	t.Parallel()
	r := newLessor(t, nil)
	for _, tt := range []struct {
		name, path, body string
		says             []string // of the lease, one after the other
		outcome          string
		cached           any
		alive            bool // the endpoint is not blamed
	}{
		{
			"a chat", "", chat(true, "hello"), []string{
				"first_byte", `finish {"usage":{"prompt_tokens":50,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":16}}}`,
			}, "ok", 16.0, true,
		},
		{
			"without a first byte", "", chat(false, "hello"),
			[]string{`finish {"usage":{"prompt_tokens":50,"completion_tokens":7}}`},
			"ok", nil, true,
		},
		{"without usage", "", chat(false, "hello"), []string{"finish"}, "ok", nil, true},
		{
			"completions", "?path=/v1/completions", `{"model":"m","prompt":"hello"}`,
			[]string{"first_byte", "finish {}"},
			"ok", nil, true,
		},
		{"responses", "?path=/v1/responses", `{"model":"m","input":"hello"}`, []string{"finish"}, "ok", nil, true},
		{
			"messages", "?path=/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
			[]string{"first_byte", "finish"},
			"ok", nil, true,
		},
		{"embeddings", "?path=/v1/embeddings", `{"model":"m","input":"hello"}`, []string{"finish"}, "ok", nil, true},
		{
			"hashes", "/hashes", `{"model":"m","prompt_hashes":[1,2,3],"prompt_tokens":1600,"stream":true}`,
			[]string{"first_byte", `finish {"usage":{"prompt_tokens":1600,"completion_tokens":7}}`},
			"ok", nil, true,
		},
		{"cancelled", "", chat(true, "hello"), []string{`finish {"failed":"cancelled"}`}, "client_gone", nil, true},
		{
			"cancelled later", "", chat(true, "hello"),
			[]string{"first_byte", `finish {"failed":"cancelled"}`},
			"client_gone", nil, true,
		},
		{"its own fault", "", chat(false, "hello"), []string{`finish {"status":400}`}, "client_error", nil, true},
		{
			"broken", "", chat(true, "hello"),
			[]string{"first_byte", `finish {"failed":"broken"}`},
			"engine_error", nil, true,
		},
		{"failed", "", chat(false, "hello"), []string{`finish {"status":500}`}, "engine_error", nil, true},
	} {
		before := r.fleet.Stats().Decisions
		o := r.lease(t, "/v1/route"+tt.path, tt.body, "Content-Type", "application/json", "X-Session-Id", tt.name,
			"X-Mine", "1", "Te", "trailers", "Connection", "X-Hop", "X-Hop", "1", "X-Forwarded-For", "192.0.2.1",
			"Accept-Encoding", "br")
		if o.status != http.StatusOK || o.order.URL == "" || r.fleet.Stats().Leases != 1 {
			t.Fatalf("%s: %d %s, %d leases", tt.name, o.status, o.body, r.fleet.Stats().Leases)
		}
		for _, name := range []string{
			"Te", "Connection", "X-Hop", "X-Forwarded-For", "Accept-Encoding", "Content-Length",
		} {
			if v, told := o.order.Set[name]; told || o.order.Set["X-Mine"] != "1" {
				t.Errorf("%s: the program is to send %s: %q; all: %v", tt.name, name, v, o.order.Set)
			}
		}
		for _, say := range tt.says {
			word, body, _ := strings.Cut(say, " ")
			if got := r.lease(t, "/v1/route/"+o.order.Lease+"/"+word, body); got.status != http.StatusNoContent {
				t.Fatalf("%s, %s: %d %s", tt.name, say, got.status, got.body)
			}
		}
		if got := r.lease(t, "/v1/route/"+o.order.Lease+"/finish", ""); got.status != http.StatusNotFound {
			t.Errorf("%s: a second end got %d", tt.name, got.status)
		}
		d := r.newestDecision(t)
		observed, _ := d["observed"].(map[string]any)
		if d["outcome"] != tt.outcome || d["endpoint"] != o.order.Endpoint || observed["cached_tokens"] != tt.cached {
			t.Errorf("%s: %v at %v, cached %v; want %s at %s, %v", tt.name, d["outcome"], d["endpoint"],
				observed["cached_tokens"], tt.outcome, o.order.Endpoint, tt.cached)
		}
		if s := r.fleet.Stats(); s.Leases != 0 || s.DoubleFinished != 0 || s.Decisions != before+1 ||
			r.lessor.Open() != 0 || r.doors.Open() != 0 {
			t.Errorf("%s: %d leases, %d twice, %d decisions, %d open, %d calls",
				tt.name, s.Leases, s.DoubleFinished, s.Decisions-before, r.lessor.Open(), r.doors.Open())
		}
	}
	for _, e := range r.fleet.Status() {
		if e.Load != (fleet.Load{}) {
			t.Errorf("%s has load %+v at the end", e.Endpoint.Name, e.Load)
		}
	}
}

// TestLeaseRefusals: what is wrong with a call is said in OpenAI's form, by the listener or by the door, and leaves
// nothing behind.
func TestLeaseRefusals(t *testing.T) {
	t.Parallel()
	r := newLessor(t, func(cfg *config.Config) {
		cfg.Lease.Token, cfg.Lease.Most = "secret", 1
		cfg.Limits.Body, cfg.Limits.Memory = 1000, 100_000
	})
	ok := []string{"Authorization", "Bearer secret"}
	first := r.lease(t, "/v1/route", chat(true, "x"), ok...)
	if first.status != http.StatusOK {
		t.Fatal(first.status, first.body)
	}
	if got := r.lease(t, "/v1/route", chat(true, "x"), ok...); got.status != 503 ||
		!strings.Contains(got.body, `"too_many_leases"`) {
		t.Errorf("one too many: %d %s", got.status, got.body)
	}
	at := "/v1/route/" + first.order.Lease
	for _, tt := range []struct {
		name, path, body string
		header           []string
		status           int
		code             string
	}{
		{"no token", "/v1/route", "{}", nil, 401, "bad_token"},
		{"another token", "/v1/route", "{}", []string{"Authorization", "Bearer x"}, 401, "bad_token"},
		{"another path", "/v1/chat/completions", "{}", ok, 404, "path_not_allowed"},
		{"nothing to say", at + "/begin", "", ok, 404, "path_not_allowed"},
		{"an unknown lease", "/v1/route/X/finish", "", ok, 404, "not_found"},
		{"no JSON", at + "/finish", "{", ok, 400, "invalid_report"},
		{"no status", at + "/finish", `{"status":99}`, ok, 400, "invalid_report"},
		{"no failure", at + "/finish", `{"failed":"badly"}`, ok, 400, "invalid_report"},
		{
			"more cached than there is", at + "/finish",
			`{"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}}`, ok, 400, "invalid_report",
		},
		{"it begins", at + "/first_byte", "", ok, 204, ""},
		{"it begins twice", at + "/first_byte", "", ok, 409, "wrong_order"},
		{"it ends", at + "/finish", "", ok, 204, ""},
		{"no path for it", "/v1/route?path=/metrics", "{}", ok, 400, "bad_path"},
		{"no hashes", "/v1/route/hashes", `{"prompt_hashes":["a"]}`, ok, 400, "invalid_hashes"},
		{
			"the door: no memory for what its hashes name", "/v1/route/hashes",
			`{"prompt_hashes":[` + strings.Repeat("1,", 63) + `1],"block_tokens":65536,"prompt_tokens":4194304}`,
			ok, 503, "overloaded",
		},
		{"the door: no such model", "/v1/route", `{"model":"unknown"}`, ok, 404, "model_not_found"},
		{"the door: no JSON", "/v1/route", `{`, ok, 400, "invalid_json"},
		{"the door: too large", "/v1/route", chat(true, strings.Repeat("x", 2000)), ok, 413, "request_too_large"},
	} {
		got := r.lease(t, tt.path, tt.body, tt.header...)
		if got.status != tt.status || tt.code != "" && !strings.Contains(got.body, `"code":"`+tt.code+`"`) {
			t.Errorf("%s: %d %s; want %d %s", tt.name, got.status, got.body, tt.status, tt.code)
		}
	}
	if s := r.fleet.Stats(); s.Leases != 0 || r.lessor.Open() != 0 || r.doors.Open() != 0 {
		t.Errorf("%d leases, %d open, %d calls are left", s.Leases, r.lessor.Open(), r.doors.Open())
	}
}

// TestLeaseExpires: a lease whose program says nothing more ends once, after lease.expires, and its endpoint is not
// blamed.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	r := newLessor(t, func(cfg *config.Config) { cfg.Lease.Expires = 10 * time.Millisecond })
	r.lease(t, "/v1/route", chat(true, "x"))
	eventually(t, "the lease expires", func() bool { return r.lessor.Open() == 0 && r.lessor.Expired() == 1 })
	if d := r.newestDecision(t); d["outcome"] != "client_gone" {
		t.Errorf("outcome %v", d["outcome"])
	}
	if s := r.fleet.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
		t.Errorf("%d leases, %d ended twice", s.Leases, s.DoubleFinished)
	}
}

// TestLeaseDrains: a router that stops waits for open leases, takes their ends, and gives no new ones.
func TestLeaseDrains(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]func(*router){
		"the door": func(r *router) { r.doors.Drain() }, "the listener": func(r *router) { r.lessor.drain() },
	} {
		t.Run(name, func(t *testing.T) { leaseDrains(t, drain) })
	}
}

func leaseDrains(t *testing.T, drain func(*router)) {
	r := newLessor(t, nil)
	o := r.lease(t, "/v1/route", chat(true, "x"))
	drain(r.router)
	if got := r.lease(t, "/v1/route", chat(true, "x")); got.status != 503 ||
		!strings.Contains(got.body, "shutting_down") {
		t.Errorf("a new one: %d %s", got.status, got.body)
	}
	if got := r.lease(t, "/v1/route/"+o.order.Lease+"/finish",
		`{"usage":{"prompt_tokens":5,"completion_tokens":1}}`); got.status != http.StatusNoContent {
		t.Errorf("the end: %d %s", got.status, got.body)
	}
	if d := r.newestDecision(t); d["outcome"] != "ok" {
		t.Errorf("outcome %v", d["outcome"])
	}
}

// TestLeaseIsWarm: a lease finds the cache of earlier prompts, those sent through the router and those leased, by body
// and by hashes. The other engine is excluded: on a busy machine it may seem so much quicker that the policy prefers
// it.
func TestLeaseIsWarm(t *testing.T) {
	t.Parallel()
	r := newLessor(t, nil)
	text := strings.Repeat("A long text that is worth keeping warm. ", 200)
	if res, body := asked(t, r.url+"/v1/chat/completions", chat(false, text)); res.StatusCode != 200 {
		t.Fatal(body)
	}
	home := r.newestDecision(t)["endpoint"]
	only := "?exclude=e0"
	if home == "e0" {
		only = "?exclude=e1"
	}
	o := r.lease(t, "/v1/route"+only, chat(false, text))
	r.lease(t, "/v1/route/"+o.order.Lease+"/finish", "")
	if d := r.newestDecision(t); o.order.Endpoint != home ||
		d["predicted"].(map[string]any)["cached_tokens"].(float64) < 1000 {
		t.Errorf("it went to %s, %v cached; want %s", o.order.Endpoint, d["predicted"], home)
	}
	for i, least := range []float64{0, 2000} {
		o = r.lease(t, "/v1/route/hashes"+only,
			fmt.Sprintf(`{"model":"m","prompt_hashes":[11,12,13,14,15],"prompt_tokens":2600,"max_tokens":%d}`, i+1))
		r.lease(t, "/v1/route/"+o.order.Lease+"/finish", `{"usage":{"prompt_tokens":2600,"completion_tokens":1}}`)
		if d := r.newestDecision(t)["predicted"].(map[string]any); d["prompt_tokens"].(float64) != 2600 ||
			d["cached_tokens"].(float64) < least || d["cached_tokens"].(float64) > 2600 {
			t.Errorf("hashes, time %d: %v", i, d)
		}
	}
}

// TestLeaseAcrossReloads: a lease that was given before a reload ends as it would have without: the new configuration
// has other policies, and may lack the endpoint.
func TestLeaseAcrossReloads(t *testing.T) {
	t.Parallel()
	_, one := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	_, two := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	const leasing = "lease: {listen: '127.0.0.1:0'}\n"
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, one)+leasing)
	for i, text := range []string{
		fmt.Sprintf(reloadable, false, "round_robin", "k", false, one+", "+two),
		fmt.Sprintf(reloadable, false, "round_robin", "k", false, two),
	} {
		o := f.lease(t, "/v1/route?exclude=x", chat(true, "hello"))
		if o.status != http.StatusOK {
			t.Fatal(o.status, o.body)
		}
		f.write(text + leasing)
		if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"first_byte", "finish"} {
			if got := f.lease(t, "/v1/route/"+o.order.Lease+"/"+word, ""); got.status != http.StatusNoContent {
				t.Errorf("reload %d, %s: %d %s", i, word, got.status, got.body)
			}
		}
		if d := f.newestDecision(t); d["outcome"] != "ok" || d["endpoint"] != o.order.Endpoint {
			t.Errorf("reload %d: %v at %v", i, d["outcome"], d["endpoint"])
		}
		if s := f.fleet.Stats(); s.Leases != 0 || s.DoubleFinished != 0 || f.lessor.Open() != 0 {
			t.Errorf("reload %d: %d leases, %d ended twice, %d open", i, s.Leases, s.DoubleFinished, f.lessor.Open())
		}
	}
}

// TestLeaseOfRoles: where prompts are computed elsewhere, the router has the prompt computed before it gives the lease,
// within its own time limits. A prompt that only hashes name cannot be computed so: it goes to one endpoint.
func TestLeaseOfRoles(t *testing.T) {
	t.Parallel()
	hashes := `{"model":"m","prompt_hashes":[1,2,3],"prompt_tokens":1600,"stream":true}`
	for _, tt := range []struct {
		name, path, body, why string
		fault                 enginetest.FaultKind
		handed                bool // the order tells the decoder where the prompt's KV cache is
	}{
		{"hashes", "/hashes", hashes, "unfit", enginetest.FaultNone, false},
		{"a prompt", "", chat(true, "hello"), "always", enginetest.FaultNone, true},
		{"its prefiller hangs", "", chat(true, "hello"), "prefill_fails", enginetest.FaultHang, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prefiller, p := simEngine(t, enginetest.Options{Models: []string{"m"}, Connector: "nixl", Speed: 20})
			_, d := simEngine(t, enginetest.Options{Models: []string{"m"}, Connector: "nixl", Speed: 20})
			r := newRig(t, 0, func(cfg *config.Config) {
				cfg.Lease.Listen = "127.0.0.1:0"
				cfg.Endpoints = []discovery.EndpointConfig{
					{Name: "p", URL: p, Role: "prefill"}, {Name: "d", URL: d, Role: "decode"},
				}
				cfg.Disaggregation.When = "always"
				if tt.fault == enginetest.FaultHang { // others may take long on a busy machine
					cfg.Timeouts.FirstByte = 200 * time.Millisecond
				}
			})
			if err := prefiller.SetFault(enginetest.Fault{Kind: tt.fault}); err != nil {
				t.Fatal(err)
			}
			o := r.lease(t, "/v1/route"+tt.path, tt.body, "Content-Type", "application/json")
			if o.status != http.StatusOK || o.order.Endpoint != "d" ||
				strings.Contains(string(o.order.Body), "remote_block_ids") != tt.handed {
				t.Fatalf("%d %s", o.status, o.body)
			}
			if got := r.lease(t, "/v1/route/"+o.order.Lease+"/finish", ""); got.status != http.StatusNoContent {
				t.Errorf("its end got %d %s", got.status, got.body)
			}
			if split, _ := r.newestDecision(t)["split"].(map[string]any); split["why"] != tt.why {
				t.Errorf("%v, want %s", split, tt.why)
			}
		})
	}
}

// TestLeaseClient: the client that deploy/lease has works as it stands.
func TestLeaseClient(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, which only this example and the site need")
	}
	r := newLessor(t, nil)
	out, err := exec.Command(python, "../../deploy/lease/lease.py", r.lessor.at, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "data: [DONE]") {
		t.Fatalf("%v: %s", err, out)
	}
	d := r.newestDecision(t)
	if o := d["observed"].(map[string]any); d["outcome"] != "ok" || o["ttft_ms"] == nil || o["output_tokens"] == nil {
		t.Errorf("%v, %v", d["outcome"], o)
	}
	if s := r.fleet.Stats(); s.Leases != 0 || r.lessor.Open() != 0 {
		t.Errorf("%d leases, %d open", s.Leases, r.lessor.Open())
	}
	complains := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(python, append([]string{"../../deploy/lease/lease.py"}, args...)...).CombinedOutput()
		if text := string(out); err == nil || !strings.Contains(text, want) || strings.Contains(text, "Traceback") {
			t.Errorf("%v: %v: %s; want %s, and no more", args, err, text, want)
		}
	}
	complains("known models: m", r.lessor.at, `{"model":"none"}`)
	complains("python3 lease.py http://127.0.0.1:8090", r.lessor.at)
	complains("not JSON", r.lessor.at, `{"model"`)
	closed := "http://" + freeport.Address()
	complains(closed, closed, `{"model":"m"}`)
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/route" {
			_, _ = fmt.Fprintf(
				w, `{"lease":"x","method":"POST","url":"%s/engine","set_headers":{},"body":null}`, closed)
		}
	}))
	defer router.Close()
	complains(closed+"/engine: ", router.URL, `{"model":"m"}`)
}
