package proxy_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// TestErrorInPlaceOfAnAnswer: an engine that says 200 and has nothing but an error is to blame for it, or the client
// is, and gets its words all the same where nobody else can answer.
func TestErrorInPlaceOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, path, body string
		want             fleet.Outcome
	}{
		{"OpenAI's", "/v1/chat/completions", `{"error":{"message":"died","code":500}}`, fleet.EngineError},
		{
			"the client's fault", "/v1/chat/completions", ` {"object":"error","message":"too long","code":400}`,
			fleet.ClientError,
		},
		{
			"Anthropic's", "/v1/messages", `{"type":"error","error":{"type":"overloaded_error","message":"wait"}}`,
			fleet.Busy,
		},
		{"without a code", "/v1/embeddings", `{"error":"died"}`, fleet.EngineError},
		{"no error", "/v1/completions", `{"error":null,"choices":[{"text":"{\"error\":{}}"}]}`, fleet.OK},
		{
			"a response that failed is an answer", "/v1/responses",
			`{"id":"r","object":"response","status":"failed","error":{"code":"server_error"}}`, fleet.OK,
		},
		{"SGLang's refusal", "/generate", `{"text":"","meta_info":{"id":"a","finish_reason":{"type":"abort","message":"The request queue is full.","status_code":503,"err_type":null},"prompt_tokens":5,"completion_tokens":0,"cached_tokens":0}}`, fleet.Busy},
		{"SGLang's limit", "/generate", `{"text":"","output_ids":[],"meta_info":{"finish_reason":{"type":"abort","message":"no","status_code":429},"completion_tokens":0}}`, fleet.Busy},
		{
			"SGLang's refusal of a prompt", "/generate",
			`{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"too long","status_code":400}}}`,
			fleet.ClientError,
		},
		{
			"aborted by its client", "/generate",
			`{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"Abort"},"completion_tokens":0}}`,
			fleet.OK,
		},
		{"aborted later", "/generate", `{"text":"as fa","meta_info":{"finish_reason":{"type":"abort","message":"died","status_code":500},"completion_tokens":2}}`, fleet.OK},
		{
			"what is said of it", "/generate",
			`{"text":"\"abort\"","meta_info":{"finish_reason":{"type":"stop"},"completion_tokens":2}}`, fleet.OK,
		},
		{"an error as the reason", "/v1/chat/completions", `{"choices":[{"index":0,"message":{"role":"assistant","content":"","reasoning":null,"tool_calls":[]},"finish_reason":"error"}],"usage":{"prompt_tokens":5,"completion_tokens":0}}`, fleet.EngineError},
		{
			"an error as the reason, completions", "/v1/completions",
			`{"choices":[{"index":0,"text":"","finish_reason":"error"}]}`, fleet.EngineError,
		},
		{
			"an error after a part", "/v1/chat/completions",
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"as fa"},"finish_reason":"error"}]}`,
			fleet.OK,
		},
		{"one of two", "/v1/completions", `{"choices":[{"index":0,"text":"","finish_reason":"error"},{"index":1,"text":"b","finish_reason":"stop"}]}`, fleet.OK},
		{"of a score", "/v1/score", `{"error":{"message":"died","code":500}}`, fleet.EngineError},
		{"a path that is not known", "/v1/realtime/sessions", `{"error":{"message":"died","code":500}}`, fleet.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{}, answers(200, tt.body))
			if res, body := r.post(tt.path,
				`{"model":"m","messages":[],"input":"a","prompt":"a"}`); res.StatusCode != 200 || body != tt.body {
				t.Errorf("client got %d %q", res.StatusCode, body)
			}
			if s := r.last(1); s.Outcome != tt.want {
				t.Errorf("told of as %s, want %s", s.Outcome, tt.want)
			}
		})
	}
}

// TestStreamsThatAreRefusals: a stream that has no answer goes to another engine, and passes as it is where there is
// none.
func TestStreamsThatAreRefusals(t *testing.T) {
	full := `data: {"text":"","output_ids":[],"meta_info":{"id":"a","finish_reason":{"type":"abort","message":"The request queue is full.","status_code":503},"prompt_tokens":5,"completion_tokens":0}}` + "\n\n"
	for _, tt := range []struct {
		name, path string
		pieces     []string
		want       fleet.Outcome
	}{
		{"SGLang's queue is full", "/generate", []string{full, doneChunk}, fleet.Busy},
		{"SGLang's queue is full, in one piece", "/generate", []string{full + doneChunk}, fleet.Busy},
		{"an end only", "/v1/chat/completions", []string{doneChunk}, fleet.EngineError},
		{"an end only, completions", "/v1/completions", []string{doneChunk}, fleet.EngineError},
		{
			"an error as the reason", "/v1/completions",
			[]string{`data: {"choices":[{"index":0,"text":"","finish_reason":"error"}]}` + "\n\n", doneChunk},
			fleet.EngineError,
		},
		{"usage and an end", "/v1/completions", []string{
			`data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":0}}` + "\n\n" + doneChunk,
		}, fleet.OK},
		{"an answer without text", "/v1/chat/completions", []string{
			`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}` +
				"\n\n" + doneChunk,
		}, fleet.OK},
	} {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, others %t", tt.name, others), bubbled(func(t *testing.T) {
				engines := []http.HandlerFunc{streams(tt.pieces...)}
				if others {
					engines = append(engines, streams(chunk("other"), doneChunk))
				}
				r := newRig(t, proxy.Config{}, engines...)
				for i := range engines {
					r.fleet.Observe(route.Probed{Endpoint: fmt.Sprintf("e%d", i), Report: fleet.Report{
						Healthy: true, Kind: fleet.KindSGLang, Models: []fleet.Model{{ID: "m"}},
					}})
				}
				answered, refused := 0, 0
				for i := range 4 {
					_, body := r.post(tt.path, fmt.Sprintf(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"%d"}],"prompt":"%d","text":"%d"}`, i, i, i))
					switch body {
					case strings.Join(tt.pieces, ""):
						refused++
					case chunk("other") + doneChunk:
						answered++
					default:
						t.Errorf("client got %q", body)
					}
				}
				if !others {
					if s := r.last(1); s.Outcome != tt.want {
						t.Errorf("told of as %s, want %s", s.Outcome, tt.want)
					}
				} else if tt.want != fleet.OK && refused > 0 {
					t.Errorf("%d of 4 answers are none", refused)
				}
			}))
		}
	}
}

// TestAnEngineThatEnds: what TensorRT-LLM's server answers while its engine ends blames nobody: not the request, with
// 400, nor is it an answer, with 200. Another engine answers it; where there is none the client learns that it may ask
// again, or that nothing came.
func TestAnEngineThatEnds(t *testing.T) {
	captured := func(file string) string {
		b, err := os.ReadFile("../../engine/testdata/trtllm/0076e939/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, dead, _ := strings.Cut(captured("dead.http"), "\r\n\r\n")
	down := captured("down.json")
	for _, tt := range []struct {
		name   string
		status int
		body   string
		told   int
		says   string
		want   fleet.Outcome
	}{
		{"shut down", 400, down, 503, down, fleet.Busy},
		{"its executor failed", 200, dead, 502, "ended its answer before it was complete", fleet.EngineError},
		{
			"its executor failed, responses", 200, `{"detail":"None"}`, 502, "ended its answer before it was complete",
			fleet.EngineError,
		},
		{"an empty object", 200, "{}\n", 502, "ended its answer before it was complete", fleet.EngineError},
		{"a line end", 200, "\n", 502, "ended its answer before it was complete", fleet.EngineError},
		{"no content", 204, "", 502, "ended its answer before it was complete", fleet.EngineError},
		{"the request's fault", 400, captured("too_long.json"), 400, captured("too_long.json"), fleet.ClientError},
		{
			"an unknown member", 400, captured("unknown_field.json"), 400, captured("unknown_field.json"),
			fleet.ClientError,
		},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"} {
			for _, kind := range []fleet.Kind{fleet.KindTRTLLM, fleet.KindVLLM, fleet.KindOther} {
				t.Run(fmt.Sprintf("%s %s %s", tt.name, path, kind), func(t *testing.T) {
					for _, others := range []bool{false, true} {
						engines := []engineHandler{answers(tt.status, tt.body)}
						if others {
							engines = append(engines, answers(200, chatAnswer))
						}
						r := newRig(t, proxy.Config{}, engines...)
						r.as(kind, "")
						told := 0
						for i := range 4 {
							res, body := r.post(path,
								fmt.Sprintf(
									`{"model":"m","messages":[{"role":"user","content":"%d"}],"input":"%d","prompt":"%d"}`, i, i, i))
							switch {
							case others && res.StatusCode == 200 && body == chatAnswer:
							case res.StatusCode == tt.told && strings.Contains(body, tt.says):
								told++
							default:
								t.Fatalf("others %t: client got %d %s", others, res.StatusCode, body)
							}
						}
						if others && tt.want != fleet.ClientError && told > 0 {
							t.Errorf("%d of 4 clients were told what another engine could have answered", told)
						}
						if s := r.last(1); !others && s.Outcome != tt.want {
							t.Errorf("told of as %s, want %s", s.Outcome, tt.want)
						}
					}
				})
			}
		}
	}
}

// TestAPIMismatch: the 404 of an engine that does not serve the client's API becomes an error that says so, in that
// API's shape.
func TestAPIMismatch(t *testing.T) {
	const own = `{"detail":"Not Found"}`
	for _, tt := range []struct {
		name, path string
		kind       fleet.Kind
		status     int    // the engine's
		told       int    // the client's, where it is another
		want       string // part of the body
	}{
		{
			"Ollama's client, vLLM", "/api/chat", fleet.KindVLLM, 404, 0,
			`{"error":"the engine (vllm) does not serve /api/chat`,
		},
		{
			"a path of Ollama's that is not known", "/api/embed", fleet.KindVLLM, 404, 0,
			"does not translate APIs: use an API that it serves, such as OpenAI's (/v1/embeddings)",
		},
		{"Anthropic's client, TensorRT-LLM", "/v1/messages", fleet.KindTRTLLM, 405, 404, `"type":"not_found_error"`},
		{
			"an old version", "/v1/messages", fleet.KindVLLM, 404, 0,
			"the engine (vllm) does not serve /v1/messages, and warmpath does not translate APIs: use an API that it " +
				"serves, such as OpenAI's (/v1/chat/completions)",
		},
		{"an engine that has learnt it", "/v1/messages", fleet.KindTRTLLM, 200, 0, own},
		{"an engine of an unknown kind", "/api/chat", fleet.KindOther, 404, 0, own},
		{
			"a path without its /v1", "/chat/completions", fleet.KindVLLM, 404, 0,
			`the engine (vllm) does not serve /chat/completions; did you mean \"/v1/chat/completions\"?`,
		},
		{
			"a path that takes no prompts", "/v1/moderations", fleet.KindVLLM, 404, 0,
			"the engine (vllm) does not serve /v1/moderations: name a model whose engine has this API",
		},
		{"the same, an unknown kind", "/v1/moderations", fleet.KindOther, 404, 0, own},
		{
			"the same, by its method", "/v1/rerank", fleet.KindSGLang, 405, 404,
			"the engine (sglang) does not serve /v1/rerank",
		},
		{"a response that is gone", "GET /v1/responses/resp_gone", fleet.KindVLLM, 404, 0, own},
		{"an engine that says what it lacks", "/v1/embeddings", fleet.KindLlamaCpp, 501, 0, own},
		{"a path without /v1 that the engine serves", "/chat/completions", fleet.KindLlamaCpp, 200, 0, own},
		{
			"a model that only computes embeddings", "/v1/chat/completions", fleet.KindTRTLLM, 404, 0,
			"the engine (trtllm) does not serve /v1/chat/completions: name a model whose engine has this API",
		},
		{
			"a model that computes none", "/v1/embeddings", fleet.KindVLLM, 404, 0,
			"the engine (vllm) does not serve /v1/embeddings: name a model whose engine has this API",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{}, answers(tt.status, own))
			r.fleet.Observe(route.Probed{
				Endpoint: "e0", Report: fleet.Report{Healthy: true, Kind: tt.kind, Models: []fleet.Model{{ID: "m"}}},
			})
			method, path := http.MethodPost, tt.path
			if rest, get := strings.CutPrefix(path, "GET "); get {
				method, path = http.MethodGet, rest
			}
			res, body := r.do(method, path, `{"model":"m","messages":[],"input":"a"}`)
			if res.StatusCode != cmp.Or(tt.told, tt.status) || !strings.Contains(body, tt.want) {
				t.Errorf("client got %d %q", res.StatusCode, body)
			}
		})
	}
}

// TestWhoServesWhichAPI: an engine that lacks a path has done nothing, so that the request goes on to one that has it;
// which lacks it is remembered, for that path alone, until the process is another. What an engine says of a model or a
// response is its answer.
func TestWhoServesWhichAPI(t *testing.T) {
	type lack struct {
		status int
		body   string
	}
	lacks := map[string]lack{
		"vllm":     {404, `{"detail":"Not Found"}`},
		"llamacpp": {404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`},
		"ollama":   {404, "404 page not found"},
		"other":    {405, ""},
		"not started for it": {501, "{\"error\":{\"code\":501,\"message\":\"This server does not support embeddings. " +
			"Start it with `--embeddings`\",\"type\":\"not_supported_error\"}}"},
	}
	for _, path := range []string{
		"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
		"/v1/messages/count_tokens",
		"/generate", "/api/chat", "/api/generate", "/api/embed", "/v1/rerank", "/tokenize", "/v1/audio/speech",
	} {
		for kind, lack := range lacks {
			t.Run(kind+path, func(t *testing.T) {
				var asked [2][]string
				engine := func(i int, without string) engineHandler {
					return func(w http.ResponseWriter, r *http.Request) {
						asked[i] = append(asked[i], r.URL.Path)
						if r.URL.Path == without {
							w.WriteHeader(lack.status)
							_, _ = io.WriteString(w, lack.body)
							return
						}
						_, _ = io.WriteString(w, `{"object":"result"}`)
					}
				}
				r := newRig(t, proxy.Config{Retries: 2}, engine(0, path), engine(1, ""))
				for range 3 {
					if res, got := r.post(path,
						`{"model":"m","messages":[],"input":"a","prompt":"a"}`); res.StatusCode != 200 {
						t.Fatalf("client got %d %q", res.StatusCode, got)
					}
				}
				if len(asked[0]) != 1 || len(asked[1]) != 3 {
					t.Errorf("asked %v", asked)
				}
				if res, _ := r.post("/v1/score", `{"model":"m"}`); res.StatusCode != 200 || len(asked[0]) != 2 {
					t.Errorf("another path: %d, asked %v", res.StatusCode, asked)
				}
				r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Refused: true}})
				r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Healthy: true}})
				if r.post(path, `{"model":"m","messages":[],"input":"a","prompt":"a"}`); len(asked[0]) != 3 {
					t.Errorf("after a restart: asked %v", asked)
				}
			})
		}
	}
	for _, tt := range []struct{ name, path, body string }{
		{
			"a response", "/v1/responses",
			`{"error":{"message":"Response with id 'resp_gone' not found.","type":"InvalidRequestError","code":404}}`,
		},
		{"a model", "/api/chat", `{"error":"model \"m\" not found, try pulling it first"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{Retries: 2}, answers(404, tt.body))
			r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
				Healthy: true, Kind: fleet.KindTRTLLM, Models: []fleet.Model{{ID: "m"}},
			}})
			if res, got := r.post(tt.path, `{"model":"m","messages":[],"input":"a"}`); res.StatusCode != 404 ||
				got != tt.body {
				t.Errorf("client got %d %q", res.StatusCode, got)
			}
		})
	}
}

// TestPathServedBefore: an address that answers 404 or 405 under a path that it has served, as a gateway does while it
// is reloaded or has lost its engine, whatever its words, costs no client anything while another engine is there, is
// asked again soon, and where it is the only one clients are told to come again.
func TestPathServedBefore(t *testing.T) {
	for name, lack := range map[string]struct {
		status int
		body   string
	}{
		"nothing":       {404, ""},
		"nginx ingress": {404, "default backend - 404"},
		"Kong":          {404, `{"message":"no Route matched with those values"}`},
		"a page":        {404, "<html><h1>404 Not Found</h1></html>"},
		"FastAPI":       {404, `{"detail":"Not Found"}`},
		"its method":    {405, ""},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			asked, lost := [2]int{}, false
			gateway := func(w http.ResponseWriter, r *http.Request) {
				if asked[0]++; lost {
					answers(lack.status, lack.body)(w, r)
					return
				}
				answers(200, chatAnswer)(w, r)
			}
			r := newRig(t, proxy.Config{Retries: 2}, gateway, func(w http.ResponseWriter, r *http.Request) {
				asked[1]++
				answers(200, chatAnswer)(w, r)
			})
			ask := func(first, second int) {
				t.Helper()
				res, body := r.post("/v1/chat/completions", chatBody)
				if res.StatusCode != 200 || asked != [2]int{first, second} {
					t.Fatalf("client got %d %q; asked %v", res.StatusCode, body, asked)
				}
			}
			logged := func(r *rig, want int) {
				t.Helper()
				if got := strings.Count(r.log.String(), "lacks a path under which it has answered"); got != want {
					t.Errorf("logged %d times, want %d", got, want)
				}
			}
			ask(1, 0)
			lost = true
			ask(2, 1)
			ask(2, 2)
			lost = false
			time.Sleep(5 * time.Second)
			ask(3, 2)
			logged(r, 1)

			alone := newRig(t, proxy.Config{Retries: 2}, gateway)
			alone.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Healthy: true, Kind: fleet.KindVLLM}})
			for _, want := range []int{200, 502, 502, 200, 502, 502} {
				lost = want != 200
				res, body := alone.post("/v1/chat/completions", chatBody)
				if res.StatusCode != want || lost != strings.Contains(body, "endpoint_gone") {
					t.Fatalf("alone: client got %d %q, want %d", res.StatusCode, body, want)
				}
			}
			logged(alone, 2) // once for each time that it was lost
		}))
	}
}

// TestPathServedBeforeByOne: where the one engine that has served a path has lost it and the other one lacks it, the
// client is told to come again, and the other is not asked.
func TestPathServedBeforeByOne(t *testing.T) {
	for name, first := range map[string]int{"the first": 0, "the second": 1} {
		t.Run(name, bubbled(func(t *testing.T) {
			asked, lost := [2]int{}, false
			engine := func(i int) engineHandler {
				return func(w http.ResponseWriter, r *http.Request) {
					if asked[i]++; lost || i != first {
						answers(404, `{"detail":"Not Found"}`)(w, r)
						return
					}
					answers(200, chatAnswer)(w, r)
				}
			}
			r := newRig(t, proxy.Config{Retries: 2}, engine(0), engine(1))
			for _, want := range []int{200, 502, 502, 502, 200} {
				lost = want != 200
				res, body := r.post("/v1/chat/completions", chatBody)
				if res.StatusCode != want || lost != strings.Contains(body, "endpoint_gone") {
					t.Fatalf("client got %d %q, want %d; asked %v", res.StatusCode, body, want, asked)
				}
			}
			if asked[first] != 5 || asked[1-first] != 1 {
				t.Errorf("asked %v", asked)
			}
		}))
	}
}

// TestServerNotReady: an answer by which a balancer before an engine says that it was not ready for the request goes to
// no client while another engine is there, and counts against that one; of an upload, which comes as slowly as its
// client sends it, it is the client's, and 425 also of early data.
func TestServerNotReady(t *testing.T) {
	for _, status := range []int{407, 408, 421, 425} {
		r := newRig(t, proxy.Config{Retries: 2}, answers(status, ""), answers(200, chatAnswer))
		for _, body := range []string{chatBody, plainStream} {
			if res, got := r.post("/v1/chat/completions", body); res.StatusCode != 200 {
				t.Errorf("%d: client got %d %q", status, res.StatusCode, got)
			}
		}
		res, got := r.post("/v1/audio/transcriptions", "RIFF", "Content-Type", "audio/wav")
		if res.StatusCode != status {
			t.Errorf("%d to an upload: client got %d %q", status, res.StatusCode, got)
		}
		if s := r.fleet.Status(); s[0].Failures != 2 {
			t.Errorf("%d: %d failures", status, s[0].Failures)
		}
		want, failures := 200, uint64(3)
		if status == http.StatusTooEarly {
			want, failures = status, 2
		}
		if res, got := r.post("/v1/chat/completions", chatBody, "Early-Data", "1"); res.StatusCode != want {
			t.Errorf("%d to early data: client got %d %q", status, res.StatusCode, got)
		}
		if s := r.fleet.Status(); s[0].Failures != failures {
			t.Errorf("%d to early data: %d failures", status, s[0].Failures)
		}
	}
}

// TestClientsOwnTimeLimit: 408 to a request whose client says itself how long it may take, as LiteLLM lets it, goes to
// that client at once and does not count against the endpoint, so that no client can eject one.
func TestClientsOwnTimeLimit(t *testing.T) {
	const litellm = `{"error":{"message":"litellm.Timeout: Request timed out.","type":null,"code":"408"}}`
	for name, c := range map[string]struct {
		member string
		header []string
		own    bool
	}{
		"timeout":                    {`,"timeout":0.5`, nil, true},
		"stream_timeout":             {`,"stream_timeout":"2"`, nil, true},
		"a header":                   {"", []string{"X-LiteLLM-Timeout", "1"}, true},
		"a header, of the first":     {"", []string{"x-litellm-stream-timeout", "1"}, true},
		"none":                       {"", nil, false},
		"null":                       {`,"timeout":null`, nil, false},
		"of a tool, as agents' have": {`,"tools":[{"timeout":1}]`, nil, false},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			r := newRig(t, proxy.Config{Retries: 2}, answers(408, litellm), answers(200, chatAnswer))
			res, body := r.post("/v1/chat/completions", `{"model":"m","messages":[]`+c.member+`}`, c.header...)
			s := r.fleet.Status()
			if c.own && (res.StatusCode != 408 || body != litellm || s[0].Failures != 0) ||
				!c.own && (res.StatusCode != 200 || s[0].Failures != 1) {
				t.Errorf("client got %d %q, and the endpoint has %d failures", res.StatusCode, body, s[0].Failures)
			}
		}))
	}
}

// TestNobodyServesAnAPI: where all lack a path the client is told so, and those known to lack it are not all asked
// again.
func TestNobodyServesAnAPI(t *testing.T) {
	asked := 0
	without := func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"Not Found"}`)
	}
	r := newRig(t, proxy.Config{Retries: 2}, without, without, without)
	for want := range 3 {
		res, body := r.post("/api/chat", `{"model":"m","messages":[]}`)
		if res.StatusCode != 404 || !strings.Contains(body, "does not serve /api/chat") {
			t.Errorf("client got %d %q", res.StatusCode, body)
		}
		if asked != 3+want {
			t.Errorf("%d asked, want %d", asked, 3+want)
		}
	}
	r.fleet.Inside(func(_ time.Time, router *route.Router) {
		for _, s := range router.Status(time.Now()) {
			if s.State != fleet.StateUp || s.Failures != 0 {
				t.Errorf("%s is %s after %d failures", s.Endpoint.Name, s.State, s.Failures)
			}
		}
	})
}

// streamed is a body whose length is not known in advance.
func streamed(body string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, body)
	}
}
