package enginetest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
)

func TestUsageOfARepeatedPrompt(t *testing.T) {
	t.Parallel()
	for _, kind := range allDialects {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := start(t, enginetest.Options{Dialect: kind})
			body := chatBody(longText, `,"max_tokens":7`)
			first := r.object("/v1/chat/completions", body)
			again := r.object("/v1/chat/completions", body)
			prompt := number(t, first, "usage", "prompt_tokens")
			if got := number(t, first, "usage", "prompt_tokens_details", "cached_tokens"); got != 0 {
				t.Errorf("cold prompt: %d cached tokens", got)
			}
			cached := number(t, again, "usage", "prompt_tokens_details", "cached_tokens")
			if want := (prompt - 1) / 16 * 16; cached != want {
				t.Errorf("repeat: %d cached tokens of %d, want %d", cached, prompt, want)
			}
			if got := number(t, again, "usage", "completion_tokens"); got != 7 {
				t.Errorf("completion tokens = %d, want 7", got)
			}
			if got, want := number(t, again, "usage", "total_tokens"), prompt+7; got != want {
				t.Errorf("total tokens = %d, want %d", got, want)
			}
			if a, b := at(t, first, "choices", 0, "message", "content"), at(t, again, "choices", 0,
				"message", "content"); a != b {
				t.Errorf("the same prompt got two answers: %q, %q", a, b)
			}
			if at(t, first, "system_fingerprint") != "simulated" {
				t.Error("the answer does not say that it is simulated")
			}
		})
	}
}

// A conversation that sends the answer back finds prompt and answer cached.
func TestConversationContinuesTheChain(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	msgs := []map[string]string{{"role": "system", "content": longText}}
	cachable := 0
	for turn := range 5 {
		msgs = append(msgs, map[string]string{"role": "user", "content": longText[turn*64 : 640+turn*64]})
		b, _ := json.Marshal(map[string]any{"model": "m", "messages": msgs, "max_tokens": 40, "ignore_eos": true})
		v := r.object("/v1/chat/completions", string(b))
		prompt, cached := number(t, v, "usage", "prompt_tokens"), number(t, v, "usage", "prompt_tokens_details",
			"cached_tokens")
		if want := cachable / 16 * 16; cached != want {
			t.Errorf("turn %d: %d cached tokens, want %d", turn, cached, want)
		}
		cachable = prompt + 40 - 1 // the last token of an answer is never computed
		msgs = append(msgs, map[string]string{
			"role": "assistant", "content": at(t, v, "choices", 0, "message", "content").(string),
		})
	}
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	for _, kind := range allDialects {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := start(t, enginetest.Options{Dialect: kind})
			want := at(t, r.object("/v1/chat/completions", chatBody(longText, `,"max_tokens":9`)), "choices", 0,
				"message", "content").(string)

			resp, text := r.do("/v1/chat/completions",
				chatBody(longText, `,"max_tokens":9,"stream":true,"stream_options":{"include_usage":true}`))
			if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
				t.Errorf("content type %q", got)
			}
			if resp.Header.Get("X-Simulated") != "warmpath" {
				t.Error("no X-Simulated header")
			}
			evs := events(t, text)
			if len(evs) != 1+9+1+1+1 || evs[len(evs)-1] != "[DONE]" {
				t.Fatalf("%d events, want role, 9 tokens, finish, usage, [DONE]:\n%s", len(evs), text)
			}
			if got := at(t, parse(t, evs[0]), "choices", 0, "delta", "role"); got != "assistant" {
				t.Errorf("first delta has role %v", got)
			}
			var got strings.Builder
			for _, e := range evs[1:10] {
				got.WriteString(at(t, parse(t, e), "choices", 0, "delta", "content").(string))
			}
			if got.String() != want {
				t.Errorf("streamed %q, want %q", got.String(), want)
			}
			if got := at(t, parse(t, evs[10]), "choices", 0, "finish_reason"); got != "length" {
				t.Errorf("finish reason %v", got)
			}
			last := parse(t, evs[11])
			if choices := at(t, last, "choices").([]any); len(choices) != 0 {
				t.Errorf("the usage chunk has choices: %v", choices)
			}
			if number(t, last, "usage", "completion_tokens") != 9 ||
				number(t, last, "usage", "prompt_tokens_details", "cached_tokens")%16 != 0 {
				t.Errorf("usage = %v", last["usage"])
			}

			_, text = r.do("/v1/chat/completions", chatBody(longText, `,"max_tokens":9,"stream":true`))
			if strings.Contains(text, `"usage"`) {
				t.Error("usage in a stream that did not ask for it")
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	vllm := start(t, enginetest.Options{ContextTokens: 500, Ranks: 2, BodyBytes: 100_000})
	sglang := start(t, enginetest.Options{Dialect: fleet.KindSGLang, ContextTokens: 500, Ranks: 2})
	llama := start(t, enginetest.Options{Dialect: fleet.KindLlamaCpp, ContextTokens: 500})
	ollama := start(t, enginetest.Options{Dialect: fleet.KindOllama})
	tests := []struct {
		name, path, body string
		header           []string
		rig              *rig
		status           int
		says             string
	}{
		{"no JSON", "/v1/chat/completions", `{`, nil, vllm, 400, `"error":{`},
		{
			"unknown model", "/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"a"}]}`, nil,
			vllm, 404, "NotFoundError",
		},
		{"no messages", "/v1/chat/completions", `{"model":"m"}`, nil, vllm, 400, "messages"},
		{"no role", "/v1/chat/completions", `{"messages":[{"content":"a"}]}`, nil, vllm, 400, "messages[0]"},
		{
			"content a number", "/v1/chat/completions", `{"messages":[{"role":"user","content":3}]}`, nil,
			vllm, 400, "content",
		},
		{
			"too long", "/v1/chat/completions", chatBody(longText, `,"max_tokens":400`), nil, vllm, 400,
			"maximum context length is 500",
		},
		{
			"too long, flat", "/v1/chat/completions", chatBody(longText, `,"max_tokens":400`), nil, sglang,
			400, `"object":"error"`,
		},
		{"too long for a slot", "/v1/chat/completions", chatBody(longText + longText), nil, llama, 400, `"n_ctx":500`},
		{"max_tokens 0", "/v1/chat/completions", chatBody("a", `,"max_tokens":0`), nil, vllm, 400, "max_tokens"},
		{"two choices", "/v1/chat/completions", chatBody("a", `,"n":2`), nil, vllm, 400, "n=2"},
		{"empty salt", "/v1/chat/completions", chatBody("a", `,"cache_salt":""`), nil, vllm, 400, "cache_salt"},
		{
			"rank out of range", "/v1/chat/completions", chatBody("a"),
			[]string{"X-data-parallel-rank", "2"},
			vllm, 400, "out of range",
		},
		{
			"rank -1", "/v1/chat/completions", chatBody("a"),
			[]string{"X-data-parallel-rank", "-1"},
			vllm, 400, "out of range",
		},
		{
			"rank no number", "/v1/chat/completions", chatBody("a"),
			[]string{"X-data-parallel-rank", "x"},
			vllm, 400, "whole number",
		},
		{"rank in body", "/generate", `{"text":"a","routed_dp_rank":2}`, nil, sglang, 400, "out of range"},
		{"slot out of range", "/completion", `{"prompt":"a","id_slot":99}`, nil, llama, 400, "id_slot"},
		{"no prompt", "/v1/completions", `{"model":"m"}`, nil, vllm, 400, "prompt"},
		{"empty prompt", "/v1/completions", `{"model":"m","prompt":""}`, nil, vllm, 400, "prompt is empty"},
		{"two prompts", "/v1/completions", `{"model":"m","prompt":["a","b"]}`, nil, vllm, 400, "one prompt"},
		{"Anthropic without max_tokens", "/v1/messages", chatBody("a"), nil, vllm, 400, `"invalid_request_error"`},
		{
			"Anthropic unknown model", "/v1/messages", `{"model":"x","max_tokens":3,"messages":[]}`, nil, vllm, 404,
			`"not_found_error"`,
		},
		{
			"unknown previous response", "/v1/responses", `{"model":"m","input":"a","previous_response_id":"resp_x"}`,
			nil, vllm, 404, "resp_x",
		},
		{"Ollama without model", "/api/chat", `{"messages":[]}`, nil, ollama, 400, `{"error":"model is required"}`},
		{"no such path", "/nowhere", "", nil, vllm, 404, "Not Found"},
		{"SGLang has no get_load", "/get_load", "", nil, sglang, 404, "Not Found"},
		{
			"body over the limit", "/v1/chat/completions", chatBody(strings.Repeat("a", 100_000)), nil,
			vllm, 413, "too long",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, text := tt.rig.do(tt.path, tt.body, tt.header...)
			if resp.StatusCode != tt.status || !strings.Contains(text, tt.says) {
				t.Errorf("got %d %s, want %d with %q", resp.StatusCode, text, tt.status, tt.says)
			}
		})
	}
}

func TestSaltsAndAdaptersKeepCachesApart(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Adapters: []string{"lora"}})
	cached := func(body string) int {
		return number(t, r.object("/v1/chat/completions", body), "usage", "prompt_tokens_details", "cached_tokens")
	}
	if cached(chatBody(longText)) != 0 || cached(chatBody(longText)) == 0 {
		t.Error("a repeat is not cached")
	}
	salted := chatBody(longText, `,"cache_salt":"s"`)
	if cached(salted) != 0 || cached(salted) == 0 {
		t.Error("a salt does not have a cache of its own")
	}
	adapted := strings.Replace(chatBody(longText), `"m"`, `"lora"`, 1)
	if cached(adapted) != 0 || cached(adapted) == 0 {
		t.Error("an adapter does not have a cache of its own")
	}
}

func TestRanksHaveCachesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
		r := start(t, enginetest.Options{Dialect: kind, Ranks: 2})
		cached := func(rank string) int {
			v := r.object("/v1/chat/completions", chatBody(longText), "X-data-parallel-rank", rank)
			return number(t, v, "usage", "prompt_tokens_details", "cached_tokens")
		}
		if cached("0") != 0 || cached("1") != 0 || cached("0") == 0 || cached("1") == 0 {
			t.Errorf("%s: the ranks share a cache, or have none", kind)
		}
		if st := r.engine.Stats().Ranks; st[0].Finished != 2 || st[1].Finished != 2 {
			t.Errorf("%s: finished = %d, %d", kind, st[0].Finished, st[1].Finished)
		}
	}
}

func TestAPIKey(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{APIKey: "k"})
	for _, tt := range []struct {
		path, key string
		want      int
	}{{"/health", "", 200}, {"/metrics", "", 200}, {"/v1/models", "", 401}, {"/v1/models", "wrong", 401}, {
		"/v1/models", "k", 200,
	}} {
		resp, _ := r.do(tt.path, "", "Authorization", "Bearer "+tt.key)
		if resp.StatusCode != tt.want {
			t.Errorf("%s with key %q: %d, want %d", tt.path, tt.key, resp.StatusCode, tt.want)
		}
	}
}

func TestNoCacheReport(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{NoCacheReport: true})
	r.object("/v1/chat/completions", chatBody(longText))
	if u := at(t, r.object("/v1/chat/completions", chatBody(longText)),
		"usage").(map[string]any); u["prompt_tokens_details"] != nil {
		t.Errorf("usage = %v", u)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := enginetest.New(enginetest.Options{
		Dialect: "abacus", Ranks: -1, Speed: -1, LoadingFor: -1, Models: []string{""},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"abacus", "ranks", "speed", "loading", "model"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell of %s: %v", want, err)
		}
	}
	if _, err := enginetest.New(enginetest.Options{Dialect: fleet.KindOllama, Ranks: 2}); err == nil {
		t.Error("Ollama with ranks was accepted")
	}
}
