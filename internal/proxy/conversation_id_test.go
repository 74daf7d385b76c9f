package proxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// told makes the endpoints of a kind that are told conversations in a form.
func (r *rig) told(kind fleet.Kind, form fleet.IDForm) {
	var all []fleet.Endpoint
	for _, s := range r.fleet.Status() {
		e := s.Endpoint
		e.IDForm = form
		all = append(all, e)
	}
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: all})
	r.as(kind, "")
}

// The id goes on in the form of the endpoint, and every other byte as it came.
func TestConversationIsTold(t *testing.T) {
	const (
		trt, vllm = fleet.KindTRTLLM, fleet.KindVLLM
		split     = `{"model":"m","messages":[],"disaggregated_params":{"request_type":"context_only","disagg_request_id":1234567890123456789}}`
		synthetic = `{"model":"m","messages":[],"disaggregated_params": {"request_type":"context_only","conversation_id":"s"},"x":1}`
		said      = `{"model":"m", "conversation_params" : {"conversation_id":"s"} , "messages":[],"big":12345678901234567890}`
	)
	tests := []struct {
		name       string
		kind       fleet.Kind
		form       fleet.IDForm
		body, want string
	}{
		{
			"as TensorRT-LLM takes it", trt, fleet.IDAuto, `{"model":"m","messages":[]}`,
			`{"conversation_params":{"conversation_id":"s"},"model":"m","messages":[]}`,
		},
		{
			"stated", vllm, fleet.IDParams, `{"model":"m","messages":[]}`,
			`{"conversation_params":{"conversation_id":"s"},"model":"m","messages":[]}`,
		},
		{"others are not told", vllm, fleet.IDAuto, `{"model":"m","messages":[]}`, `{"model":"m","messages":[]}`},
		{"off", trt, fleet.IDUnknown, `{"model":"m","messages":[]}`, `{"model":"m","messages":[]}`},
		{"said already", trt, fleet.IDAuto, said, said},
		{
			"null", trt, fleet.IDAuto, `{"model":"m","messages":[],"conversation_params":null}`,
			`{"model":"m","messages":[],"conversation_params":{"conversation_id":"s"}}`,
		},
		{
			"an older one of a split request", trt, fleet.IDDisagg, split,
			strings.Replace(split, `params":{`, `params":{"conversation_id":"s",`, 1),
		},
		{
			"an older one has it", trt, fleet.IDDisagg, strings.Replace(split, `{"r`, `{"conversation_id":"t","r`, 1),
			strings.Replace(split, `{"r`, `{"conversation_id":"t","r`, 1),
		},
		{
			"an older one of a whole request", trt, fleet.IDDisagg, `{"model":"m","messages":[]}`,
			`{"model":"m","messages":[]}`,
		},
		{
			"an older one does not know the newer form", trt, fleet.IDDisagg, said,
			`{"model":"m",  "messages":[],"big":12345678901234567890}`,
		},
		{
			"nor as the last member", trt, fleet.IDDisagg,
			`{"model":"m","conversation_params":{"conversation_id":"s"} }`, `{"model":"m" }`,
		},
		{"made up to carry an id", trt, fleet.IDAuto, synthetic, `{"conversation_params":{"conversation_id":"s"},"model":"m","messages":[],"disaggregated_params": null,"x":1}`},
		{
			"made up, told to nobody", vllm, fleet.IDUnknown, synthetic,
			`{"model":"m","messages":[],"disaggregated_params": null,"x":1}`,
		},
		{
			"made up, older", trt, fleet.IDDisagg, synthetic,
			`{"model":"m","messages":[],"disaggregated_params": null,"x":1}`,
		},
		{
			"made up without a type", trt, fleet.IDUnknown,
			strings.Replace(synthetic, `"request_type":"context_only",`, "", 1),
			`{"model":"m","messages":[],"disaggregated_params": null,"x":1}`,
		},
		{"really a context request", trt, fleet.IDUnknown, split, split},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in inbox
			r := newRig(t, proxy.Config{Transfers: true, FirstTurn: strings.HasPrefix(tt.name, "made up")}, in.handler)
			r.told(tt.kind, tt.form)
			if res, body := r.post("/v1/chat/completions", tt.body, "X-Session-ID", "s"); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if in.raw != tt.want {
				t.Errorf("the engine got  %s\nand should have %s", in.raw, tt.want)
			}
		})
	}
}

// A client without an id has one given by the router, the same on each turn, and the engine is told that. Ids are JSON
// texts.
func TestConversationIsToldAsItIsEchoed(t *testing.T) {
	var in inbox
	r := newRig(t, proxy.Config{}, in.handler)
	r.told(fleet.KindTRTLLM, fleet.IDAuto)
	id := func() string {
		params, _ := in.body["conversation_params"].(map[string]any)
		id, _ := params["conversation_id"].(string)
		return id
	}
	res, _ := r.post("/v1/chat/completions", `{"model":"m","messages":[]}`)
	if got := id(); got == "" || got != res.Header.Get("X-Session-Id") {
		t.Errorf("told %q, echoed %q", got, res.Header.Get("X-Session-Id"))
	}
	r.post("/v1/chat/completions", `{"model":"m","messages":[]}`, "X-Session-ID", `a"b\`)
	if got := id(); got != `a"b\` {
		t.Errorf("told %q", got)
	}
	r.post("/v1/embeddings", `{"model":"m","input":"x"}`, "X-Session-ID", "s")
	if strings.Contains(in.raw, "conversation_params") {
		t.Errorf("an embedding is no turn: %s", in.raw)
	}
}

// An engine that does not know conversation_params answers 400; the client does not see it, and the engine is not told
// again for a while. Where the form is stated the refusal is the client's to see.
func TestConversationIsNotToldWhereItIsRefused(t *testing.T) {
	var mu sync.Mutex
	var got []string
	old := func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		mu.Lock()
		got = append(got, string(raw))
		mu.Unlock()
		if strings.Contains(string(raw), "conversation_params") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_ = json.NewEncoder(w).Encode(map[string]string{
				"error": "[{'type': 'extra_forbidden', 'loc': ('body', 'conversation_params')}]",
			})
			return
		}
		answers(200, chatAnswer)(w, req)
	}
	r := newRig(t, proxy.Config{}, old)
	r.told(fleet.KindTRTLLM, fleet.IDAuto)
	for range 3 {
		if res, body := r.post("/v1/chat/completions", `{"model":"m","messages":[]}`,
			"X-Session-ID", "s"); res.StatusCode != 200 || !strings.Contains(body, "choices") {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	r.post("/v1/chat/completions", `{"model":"m","conversation_params":{"conversation_id":"s"},"messages":[]}`)
	if len(got) != 5 || strings.Contains(strings.Join(got[1:], ""), "conversation_params") {
		t.Errorf("the engine got %d requests: %q", len(got), got)
	}
	r = newRig(t, proxy.Config{}, old)
	r.told(fleet.KindTRTLLM, fleet.IDParams)
	if res, _ := r.post("/v1/chat/completions", `{"model":"m","messages":[]}`,
		"X-Session-ID", "s"); res.StatusCode != 400 {
		t.Errorf("stated, and refused: %d", res.StatusCode)
	}
}

// A worker of the version of TensorRT-LLM PRs 12526 and 14744 knows disaggregated_params.conversation_id and forbids
// other members. With auto it is told there: a request that has such params once it has refused the newer form, every
// later one at once.
func TestConversationIsToldInTheOlderForm(t *testing.T) {
	type worker struct{ params, disagg bool } // what it takes
	const leg = `{"model":"m","messages":[],"disaggregated_params":{"request_type":"context_only","disagg_request_id":1234567890123456789}}`
	const (
		newer = `{"conversation_params":{"conversation_id":"s"},`
		older = `"disaggregated_params":{"conversation_id":"s",`
	)
	tests := []struct {
		name  string
		takes worker
		body  string
		want  []string // what two requests have the worker see, in parts of each
	}{
		{"since June 2026", worker{params: true}, leg, []string{newer, newer}},
		{"of the PRs, a leg", worker{disagg: true}, leg, []string{newer, older, older}},
		{
			"of the PRs, a whole request",
			worker{disagg: true},
			`{"model":"m","messages":[]}`,
			[]string{newer, `{"model":"m","messages":[]}`, `{"model":"m","messages":[]}`},
		},
		{"neither", worker{}, leg, []string{newer, older, leg, leg}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			r := newRig(t, proxy.Config{Transfers: true}, func(w http.ResponseWriter, req *http.Request) {
				raw, _ := io.ReadAll(req.Body)
				mu.Lock()
				got = append(got, string(raw))
				mu.Unlock()
				switch said := string(raw); {
				case strings.Contains(said, "conversation_params") && !tt.takes.params:
					answers(400, `{"error":"[{'type': 'extra_forbidden', 'loc': ('body', 'conversation_params')}]"}`)(w,
						req)
				case strings.Contains(said, `"disaggregated_params":{"conversation_id"`) && !tt.takes.disagg:
					answers(400, `{"error":"[{'type': 'extra_forbidden', 'loc': ('body', 'disaggregated_params', 'conversation_id')}]"}`)(w, req)
				default:
					answers(200, chatAnswer)(w, req)
				}
			})
			r.told(fleet.KindTRTLLM, fleet.IDAuto)
			for range 2 {
				if res, body := r.post("/v1/chat/completions", tt.body, "X-Session-ID", "s"); res.StatusCode != 200 {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("the worker got %d requests, want %d: %q", len(got), len(tt.want), got)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("request %d is %s, want %s in it", i+1, got[i], want)
				}
				if both := strings.Contains(got[i], newer) && strings.Contains(got[i], older); both {
					t.Errorf("request %d has the id in both forms: %s", i+1, got[i])
				}
			}
		})
	}
}

// What an endpoint refused is forgotten with the process that refused it.
func TestConversationFormIsForgottenOnRestart(t *testing.T) {
	var mu sync.Mutex
	version, forms := "old", []string{}
	r := newRig(t, proxy.Config{Transfers: true, Retries: -1}, func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		mu.Lock()
		newer, is := strings.Contains(string(raw), "conversation_params"), version
		forms = append(forms, map[bool]string{true: "newer", false: "older"}[newer])
		mu.Unlock()
		switch {
		case is == "dies":
			panic(http.ErrAbortHandler)
		case is == "old" && newer:
			answers(400, `{"error":"conversation_params: extra_forbidden"}`)(w, req)
		default:
			answers(200, chatAnswer)(w, req)
		}
	})
	r.told(fleet.KindTRTLLM, fleet.IDAuto)
	for _, is := range []string{"old", "old", "dies", "new"} {
		mu.Lock()
		version = is
		mu.Unlock()
		r.post("/v1/chat/completions",
			`{"model":"m","messages":[],"disaggregated_params":{"request_type":"context_only"}}`, "X-Session-ID", "s")
	}
	got := strings.Join(forms, " ") // a transport may try once more what broke off on a connection that was used before
	if rest, ok := strings.CutPrefix(got, "newer older older older "); !ok ||
		strings.ReplaceAll(rest, "older ", "") != "newer" {
		t.Errorf("the endpoint was told in the forms %s", got)
	}
}
