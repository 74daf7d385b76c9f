package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// aliasAPIs are APIs, each with a request for the alias "fast" and its answer.
var aliasAPIs = []struct {
	name, path, body, answer string
	conversations            bool
}{
	{
		"chat", "/v1/chat/completions", `{"model":"fast","messages":[{"role":"user","content":"hello"}]}`,
		chatAnswer, true,
	},
	{"completions", "/v1/completions", `{"model":"fast","prompt":"hello"}`, `{"id":"c","choices":[{"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`, true},
	{"responses", "/v1/responses", `{"model":"fast","input":"hello"}`, `{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":1}}`, true},
	{
		"messages", "/v1/messages",
		`{"model":"fast","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`, `{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":5,"output_tokens":1}}`, true,
	},
	{
		"embeddings", "/v1/embeddings", `{"model":"fast","input":"hello"}`,
		`{"object":"list","data":[],"usage":{"prompt_tokens":5}}`, false,
	},
	{"rerank", "/v1/rerank", `{"model":"fast","query":"hello","documents":["a"]}`, `{"results":[]}`, false},
}

// TestOverflow: on every API a new conversation gets the next model of an alias in order, under that one's name, when
// the engine of the first refuses, fails or is down; one under way gets what the engine of its model says, and another
// model only where that one is gone, also if it is the first to be told. What has no conversation gets what can be had.
func TestOverflow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(r *rig, big *atomic.Int32)
		stays  int // status that a conversation under way gets of its own model; 0 where it gets the next one
		why    route.Passing
	}{
		{"429", func(_ *rig, big *atomic.Int32) { big.Store(429) }, 429, route.PassedRefuses},
		{"503", func(_ *rig, big *atomic.Int32) { big.Store(503) }, 503, route.PassedRefuses},
		{"down", func(r *rig, _ *atomic.Int32) {
			r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Healthy: false}})
		}, 0, route.PassedDown},
		{"its circuit is open", func(r *rig, _ *atomic.Int32) {
			for range 3 {
				p, err := r.fleet.Decide(&fleet.Request{Model: "fast", Pin: "e0"})
				if err != nil {
					r.t.Fatal(err)
				}
				r.fleet.Observe(route.Finished{Lease: p.Lease, Outcome: fleet.EngineError})
			}
		}, 0, route.PassedEjected},
		{"cut", func(_ *rig, big *atomic.Int32) { big.Store(0) }, 0, ""},
	} {
		for _, api := range aliasAPIs {
			if tt.name == "cut" && api.name == "rerank" {
				continue // it may have had an effect
			}
			t.Run(tt.name+", "+api.name, func(t *testing.T) {
				var big atomic.Int32
				big.Store(200)
				computes := func(status func() int, model string) http.HandlerFunc {
					return func(w http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						if !strings.Contains(string(body), `"`+model+`"`) {
							answers(404, `{"error":{"message":"no such model"}}`)(w, r)
							return
						}
						switch s := status(); s {
						case 0:
							panic(http.ErrAbortHandler)
						case 200:
							w.Header().Set("X-Model", model)
							answers(200, api.answer)(w, r)
						default:
							answers(s, `{"error":{"message":"not now"}}`, "Retry-After", "30")(w, r)
						}
					}
				}
				r := newRig(t, proxy.Config{}, computes(func() int { return int(big.Load()) }, "big"),
					computes(func() int { return 200 }, "small"))
				r.fleet.Observe(route.Configured{Config: route.Config{
					Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10, Aliases: inOrderOf("big", "small"),
				}})
				for endpoint, model := range map[string]string{"e0": "big", "e1": "small"} {
					r.fleet.Observe(route.Probed{Endpoint: endpoint, Report: fleet.Report{
						Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: model}},
					}})
				}
				ask := func(session string) (int, string) {
					res, _ := r.post(api.path, api.body, "X-Session-ID", session, "Authorization", "Bearer key")
					return res.StatusCode, res.Header.Get("X-Model")
				}
				for range 2 {
					for _, session := range []string{"under way", "told first"} {
						if status, model := ask(session); status != 200 || model != "big" {
							t.Fatalf("at first: %d of %q", status, model)
						}
					}
				}
				want, of := tt.stays, ""
				if want == 0 || !api.conversations {
					want, of = 200, "small"
				}
				tt.happen(r, &big)
				if status, model := ask("told first"); status != want || model != of {
					t.Errorf("one under way that is told first: %d of %q, want %d of %q", status, model, want, of)
				}
				for turn := range 2 {
					if status, model := ask("new"); status != 200 || model != "small" {
						t.Errorf("turn %d of a new one: %d of %q", turn, status, model)
					}
				}
				d := r.last(7)
				if tt.why != "" && (len(d.Decision.Passed) != 1 && !api.conversations ||
					len(d.Decision.Passed) > 0 && d.Decision.Passed[0].Why != tt.why) {
					t.Errorf("passed over is %+v", d.Decision.Passed)
				}
				if status, model := ask("under way"); status != want || model != of {
					t.Errorf("one under way: %d of %q, want %d of %q", status, model, want, of)
				}
				big.Store(200)
				if status, model := ask("new"); status != 200 || api.conversations && model != "small" {
					t.Errorf("the new one afterwards: %d of %q", status, model)
				}
			})
		}
	}
}

func inOrderOf(models ...string) []fleet.Alias {
	return []fleet.Alias{{Name: "fast", Models: models, Overflow: make([]time.Duration, len(models))}}
}
