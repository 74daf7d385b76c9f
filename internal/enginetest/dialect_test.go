package enginetest_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
)

var endpointTests = []struct {
	kind       fleet.Kind
	path, body string
	says       []string // parts of a 200 answer
}{
	{fleet.KindVLLM, "/health", "", nil},
	{fleet.KindVLLM, "/ping", "", nil},
	{fleet.KindVLLM, "/version", "", []string{`"version":"0.32.0+simulated"`}},
	{fleet.KindVLLM, "/load", "", []string{`"server_load":0`}},
	{
		fleet.KindVLLM, "/v1/models", "",
		[]string{`"owned_by":"vllm"`, `"max_model_len":32768`, `"id":"lora"`, `"parent":"m"`, `"permission":[`},
	},
	{fleet.KindVLLM, "/metrics", "", []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 0`,
		`vllm:num_requests_waiting{engine="1",model_name="m"} 0`, `vllm:kv_cache_usage_perc{`,
		`vllm:prefix_cache_queries_total{`, `vllm:prefix_cache_hits_total{`, `block_size="16"`, `num_gpu_blocks="7500"`,
		`kv_cache_size_tokens="120000"`, `vllm:num_preemptions_total{`, `running_lora_adapters="lora"`,
	}},
	{fleet.KindVLLM, "/tokenize", `{"model":"m","prompt":"eight by"}`, []string{`"count":2`, `"max_model_len":32768`}},
	{fleet.KindVLLM, "/detokenize", `{"model":"m","tokens":[1751607653]}`, []string{`"prompt":"eigh"`}},
	{
		fleet.KindVLLM, "/v1/embeddings", `{"model":"m","input":"hello"}`,
		[]string{`"object":"embedding"`, `"prompt_tokens":2`},
	},
	{
		fleet.KindVLLM, "/v1/completions", `{"model":"m","prompt":[1,2,3],"max_tokens":2}`,
		[]string{`"object":"text_completion"`, `"prompt_tokens":3`, `"text":`},
	},
	{
		fleet.KindVLLM, "/v1/completions", `{"model":"m","prompt":[[1,2,3]],"max_tokens":2}`,
		[]string{`"prompt_tokens":3`},
	},
	{fleet.KindVLLM, "/v1/messages/count_tokens", chatBody("hello"), []string{`"input_tokens":`}},
	{fleet.KindSGLang, "/health", "", nil},
	{fleet.KindSGLang, "/ready", "", nil},
	{fleet.KindSGLang, "/v1/models", "", []string{`"owned_by":"sglang"`, `"max_model_len":32768`}},
	{fleet.KindSGLang, "/model_info", "", []string{`"is_generation":true`}},
	{fleet.KindSGLang, "/get_model_info", "", []string{`"is_generation":true`}},
	{fleet.KindSGLang, "/server_info", "", []string{
		`"page_size":16`, `"dp_size":2`, `"max_total_num_tokens":120000`, `"max_running_requests":16`,
		`"enable_cache_report":true`,
	}},
	{fleet.KindSGLang, "/get_server_info", "", []string{`"dp_size":2`}},
	{fleet.KindSGLang, "/v1/loads", "", []string{`"dp_rank":0`, `"dp_rank":1`, `"num_running_reqs":0`}},
	{fleet.KindSGLang, "/v1/loads?dp_rank=1", "", []string{`"loads":[{"cache_hit_rate"`, `"dp_rank":1`}},
	{fleet.KindSGLang, "/metrics", "", []string{
		`sglang:num_running_reqs{engine_type="unified",model_name="m"`, `dp_rank="1"`, `sglang:token_usage{`,
		`sglang:max_total_num_tokens{`,
	}},
	{
		fleet.KindSGLang, "/v1/chat/completions", `{"model":"another","messages":[{"role":"user","content":"a"}]}`,
		[]string{`"model":"another"`},
	},
	{fleet.KindTRTLLM, "/health", "", nil},
	{fleet.KindTRTLLM, "/version", "", []string{`simulated`}},
	{fleet.KindTRTLLM, "/v1/models", "", []string{`"id":"m"`}},
	{
		fleet.KindTRTLLM, "/server_info", "",
		[]string{`"disaggregated_params":null`, `"tokens_per_block":16`, `"kv_cache_hash_algo"`},
	},
	{fleet.KindTRTLLM, "/prometheus/metrics", "", []string{
		`trtllm_kv_cache_hit_rate`, `trtllm_num_requests_running{engine_type="simulated",model_name="m",pid="1"} 0`,
		`trtllm_num_requests_waiting{`,
		`trtllm_kv_cache_max_blocks{engine_type="simulated",model_name="m",pid="1"} 7500`,
		`trtllm_kv_cache_tokens_per_block{engine_type="simulated",model_name="m",pid="1"} 16`,
	}},
	{fleet.KindLlamaCpp, "/health", "", []string{`{"status":"ok"}`}},
	{fleet.KindLlamaCpp, "/props", "", []string{`"total_slots":16`, `"n_ctx":32768`}},
	{fleet.KindLlamaCpp, "/slots", "", []string{`"id":15`, `"is_processing":false`}},
	{fleet.KindLlamaCpp, "/metrics", "", []string{"llamacpp:requests_processing 0", "llamacpp:requests_deferred 0"}},
	{fleet.KindLlamaCpp, "/v1/models", "", []string{`"owned_by":"llamacpp"`, `"n_ctx":32768`}},
	{fleet.KindLlamaCpp, "/tokenize", `{"content":"eigh"}`, []string{`{"tokens":[1751607653]}`}},
	{
		fleet.KindLlamaCpp, "/completion", `{"prompt":"hello","n_predict":3}`,
		[]string{`"tokens_predicted":3`, `"stop_type":"limit"`, `"timings":{`},
	},
	{fleet.KindOllama, "/api/version", "", []string{`"version":"0.33.3+simulated"`}},
	{fleet.KindOllama, "/api/tags", "", []string{`"name":"m"`}},
	{fleet.KindOllama, "/api/ps", "", []string{`"name":"m"`, `"expires_at"`}},
	{fleet.KindOllama, "/v1/models", "", []string{`"id":"m"`}},
}

func TestEndpointsOfEachDialect(t *testing.T) {
	t.Parallel()
	rigs := map[fleet.Kind]*rig{}
	for _, k := range allDialects {
		o := enginetest.Options{Dialect: k, Adapters: []string{"lora"}}
		if k == fleet.KindVLLM || k == fleet.KindSGLang {
			o.Ranks = 2
		}
		rigs[k] = start(t, o)
	}
	for _, tt := range endpointTests {
		t.Run(string(tt.kind)+tt.path, func(t *testing.T) {
			resp, text := rigs[tt.kind].do(tt.path, tt.body)
			if resp.StatusCode != 200 {
				t.Fatalf("status %d: %s", resp.StatusCode, text)
			}
			if tt.says == nil && text != "" {
				t.Errorf("body %q, want none", text)
			}
			for _, s := range tt.says {
				if !strings.Contains(text, s) {
					t.Errorf("%s is not in %s", s, text)
				}
			}
			if resp.Header.Get("X-Simulated") != "warmpath" {
				t.Error("it does not say that it is simulated")
			}
		})
	}
}

// TestTRTLLMRefuses: TensorRT-LLM's two shapes of errors: of the body, before its handlers see it, and of what they
// say.
func TestTRTLLMRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindTRTLLM})
	const chat, invalid, flat = `"model":"m","messages":[{"role":"user","content":"a"}]`, `{"error":"[{'type': '`,
		`"object":"error"`
	for _, tt := range []struct{ path, body, says string }{
		{
			"chat/completions", `{` + chat + `,"prompt_cache_key":"k"}`,
			invalid + `extra_forbidden', 'loc': ('body', 'prompt_cache_key')`,
		},
		{"chat/completions", `{` + chat + `,"max_tokens":2,"max_completion_tokens":2}`, invalid + "extra_forbidden"},
		{"chat/completions", `{"messages":[{"role":"user","content":"a"}]}`, invalid + "missing"},
		{"chat/completions", `{` + chat + `,"stream_options":{"include_usage":true}}`, invalid + "value_error"},
		{
			"completions", `{"model":"m","prompt":"a","cache_salt":"s"}`,
			invalid + `extra_forbidden', 'loc': ('body', 'cache_salt')`,
		},
		{"chat/completions", `{` + chat + `,"max_tokens":1000000}`, flat},
		{"chat/completions", `{` + chat +
			`,"max_completion_tokens":2,"cache_salt":"s","stream":true,"stream_options":{"include_usage":true}}`, ""},
		{"completions", `{"model":"another","prompt":[1,2],"max_tokens":2}`, ""},
	} {
		res, text := r.do("/v1/"+tt.path, tt.body)
		if want := map[bool]int{true: 200, false: 400}[tt.says == ""]; res.StatusCode != want ||
			!strings.Contains(text, tt.says) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, res.StatusCode, text)
		}
	}
}

// TestTRTLLMRefusesAsCaptured: the simulated engine refuses in the words of the real server's HTTP layer, which goes on
// with what is wrong.
func TestTRTLLMRefusesAsCaptured(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindTRTLLM})
	for file, ask := range map[string][2]string{
		"no_model.json": {"chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`},
		"unknown_field.json": {
			"chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],"prompt_cache_key":"k"}`,
		},
		"completions_salt.json": {"completions", `{"model":"m","prompt":"a","cache_salt":"s"}`},
		"stream_options.json": {
			"chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}`,
		},
		"no_path.json": {"messages", `{"model":"m"}`},
	} {
		want, err := os.ReadFile("../../engine/testdata/trtllm/0076e939/" + file)
		if err != nil {
			t.Fatal(err)
		}
		res, text := r.do("/v1/"+ask[0], ask[1])
		if res.StatusCode/100 != 4 || !strings.HasPrefix(string(want), strings.TrimSuffix(text, `}]"}`)) {
			t.Errorf("%s: %d %s, captured %s", file, res.StatusCode, text, want)
		}
	}
}

// The figures of /metrics equal the usage sent to clients.
func TestMetricsAgreeWithUsage(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	r.object("/v1/chat/completions", chatBody(longText))
	v := r.object("/v1/chat/completions", chatBody(longText))
	prompt, cached := number(t, v, "usage", "prompt_tokens"), number(t, v, "usage", "prompt_tokens_details",
		"cached_tokens")
	_, text := r.do("/metrics", "")
	for name, want := range map[string]int{
		"prefix_cache_queries_total": 2 * prompt, "prefix_cache_hits_total": cached, "prompt_tokens_total": 2 * prompt,
		"prompt_tokens_cached_total": cached, "generation_tokens_total": 2 * number(t, v, "usage", "completion_tokens"),
	} {
		line := "vllm:" + name + `{engine="0",model_name="m"} ` + strconv.Itoa(want) + "\n"
		if !strings.Contains(text, line) {
			t.Errorf("%s is not in %s", line, text)
		}
	}
}

func TestLoading(t *testing.T) {
	t.Parallel()
	for kind, path := range map[fleet.Kind]string{
		fleet.KindVLLM: "/health", fleet.KindSGLang: "/ready", fleet.KindTRTLLM: "/health",
		fleet.KindLlamaCpp: "/health",
	} {
		r := start(t, enginetest.Options{Dialect: kind, LoadingFor: time.Hour})
		if resp, _ := r.do(path, ""); resp.StatusCode != 503 {
			t.Errorf("%s %s: %d while loading", kind, path, resp.StatusCode)
		}
	}
}

func TestSGLangHealthCostsAGeneration(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindSGLang})
	r.do("/health", "")
	r.do("/ready", "")
	if got := r.engine.Stats().Ranks[0].Finished; got != 1 {
		t.Errorf("%d generations, want 1", got)
	}
}

func TestSGLangGenerate(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindSGLang, Ranks: 2})
	body := `{"text":` + quote(longText) +
		`,"routed_dp_rank":1,"rid":"r7","sampling_params":{"max_new_tokens":4,"ignore_eos":true}`
	first := r.object("/generate", body+"}")
	if number(t, first, "meta_info", "dp_rank") != 1 || at(t, first, "meta_info", "id") != "r7" ||
		at(t, first, "meta_info", "cached_tokens_details") != nil {
		t.Errorf("meta_info = %v", first["meta_info"])
	}
	_, text := r.do("/generate", body+`,"stream":true}`)
	evs := events(t, text)
	if len(evs) != 5 || evs[4] != "[DONE]" {
		t.Fatalf("stream: %s", text)
	}
	last := parse(t, evs[3])
	if last["text"] != first["text"] || !strings.HasPrefix(last["text"].(string), parse(t, evs[1])["text"].(string)) {
		t.Errorf("the text does not grow to the whole: %s", text)
	}
	// 400 tokens: 24 whole blocks before the last token
	if got := number(t, last, "meta_info", "cached_tokens"); got != 384 {
		t.Errorf("cached tokens = %d, want 384", got)
	}
}

func TestTRTLLMMetricsClearOnRead(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindTRTLLM})
	if _, text := r.do("/metrics", ""); text != "[]" {
		t.Errorf("idle: %s", text)
	}
	r.object("/v1/chat/completions", chatBody(longText))
	var its []map[string]any
	_, text := r.do("/metrics", "")
	if err := json.Unmarshal([]byte(text), &its); err != nil || len(its) != 1 ||
		number(t, its[0], "numCompletedRequests") != 1 {
		t.Errorf("after one request: %s (%v)", text, err)
	}
	if _, text := r.do("/metrics", ""); text != "[]" {
		t.Errorf("read again: %s", text)
	}
}

func TestLlamaCppSlots(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindLlamaCpp})
	cached := func(more string) int {
		v := r.object("/v1/chat/completions", chatBody(longText, more))
		return number(t, v, "timings", "cache_n")
	}
	if got := cached(`,"id_slot":3`); got != 0 {
		t.Errorf("cold slot: %d cached", got)
	}
	if got := cached(`,"id_slot":3`); got == 0 {
		t.Error("the same slot again has nothing cached")
	}
	if got := cached(`,"id_slot":4`); got != 0 {
		t.Errorf("another slot: %d cached", got)
	}
	if got := cached(``); got == 0 {
		t.Error("without a slot the most similar one was not taken")
	}
}

func TestOllamaNative(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Dialect: fleet.KindOllama})
	body := `{"model":"m","messages":[{"role":"user","content":` + quote(longText) + `}],"options":{"num_predict":5}`
	resp, text := r.do("/api/chat", body+"}")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 6 || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%s: %s", resp.Header.Get("Content-Type"), text)
	}
	end := parse(t, lines[5])
	if end["done"] != true || number(t, end, "eval_count") != 5 || number(t, end, "prompt_eval_cached_count") != 0 {
		t.Errorf("last line: %v", end)
	}
	whole := r.object("/api/chat", body+`,"stream":false}`)
	if number(t, whole, "prompt_eval_cached_count") == 0 || number(t, whole, "prompt_eval_duration") <= 0 {
		t.Errorf("repeat: %v", whole)
	}
	if v := r.object("/api/generate", `{"model":"m","prompt":"hello","stream":false}`); v["response"] == "" ||
		v["done"] != true {
		t.Errorf("generate: %v", v)
	}
	if resp, text := r.do("/api/chat", `{"model":"x","messages":[]}`); resp.StatusCode != 404 ||
		!strings.HasPrefix(text, `{"error":"`) {
		t.Errorf("unknown model: %d %s", resp.StatusCode, text)
	}
}

func TestAnthropicMessages(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	body := `{"model":"m","max_tokens":6,"system":[{"type":"text","text":"be brief"}],"messages":[{"role":"user","content":` + quote(longText) + `}]`
	count := number(t, r.object("/v1/messages/count_tokens", body+"}"), "input_tokens")
	first := r.object("/v1/messages", body+"}")
	if got := number(t, first, "usage", "input_tokens"); got != count {
		t.Errorf("input tokens %d, counted %d", got, count)
	}
	if at(t, first, "stop_reason") != "max_tokens" || at(t, first, "content", 0, "type") != "text" {
		t.Errorf("message: %v", first)
	}
	_, text := r.do("/v1/messages", body+`,"stream":true}`)
	evs := events(t, text)
	if len(evs) != 2+6+3 {
		t.Fatalf("%d events: %s", len(evs), text)
	}
	for i, want := range map[int]string{
		0: "message_start", 1: "content_block_start", 2: "content_block_delta", 8: "content_block_stop",
		9: "message_delta", 10: "message_stop",
	} {
		if got := parse(t, evs[i])["type"]; got != want {
			t.Errorf("event %d is %v, want %s", i, got, want)
		}
	}
	u := parse(t, evs[9])
	read, fresh := number(t, u, "usage", "cache_read_input_tokens"), number(t, u, "usage", "input_tokens")
	if read == 0 || read%16 != 0 || read+fresh != count {
		t.Errorf("usage of the repeat: %v, counted %d", u["usage"], count)
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	first := r.object("/v1/responses",
		`{"model":"m","input":`+quote(longText)+`,"max_output_tokens":40,"ignore_eos":true}`)
	id := first["id"].(string)
	prompt := number(t, first, "usage", "input_tokens")
	if got := r.object("/v1/responses/"+id, ""); got["id"] != id ||
		at(t, got, "output", 0, "content", 0, "text") != at(t, first, "output", 0, "content", 0, "text") {
		t.Errorf("stored: %v", got)
	}
	_, text := r.do("/v1/responses", `{"model":"m","input":"and then?","previous_response_id":"`+id+`","stream":true}`)
	evs := events(t, text)
	last := parse(t, evs[len(evs)-1])
	if last["type"] != "response.completed" || parse(t, evs[0])["type"] != "response.created" {
		t.Fatalf("stream: %s", text)
	}
	if got, want := number(t, last, "response", "usage", "input_tokens_details", "cached_tokens"),
		(prompt+39)/16*16; got != want {
		t.Errorf("the next turn has %d cached tokens, want %d", got, want)
	}
	if resp, _ := r.do("/v1/responses/"+id+"/cancel", "{}"); resp.StatusCode != 400 {
		t.Errorf("cancel of a finished response: %d", resp.StatusCode)
	}
	if got := r.object("DELETE /v1/responses/"+id, ""); got["deleted"] != true {
		t.Errorf("delete: %v", got)
	}
	for _, path := range []string{"GET /v1/responses/", "DELETE /v1/responses/"} {
		if resp, _ := r.do(path+id, ""); resp.StatusCode != 404 {
			t.Errorf("%s after delete: %d", path, resp.StatusCode)
		}
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
