package prompt

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

func newParser(t testing.TB, sources ...Source) *Parser {
	t.Helper()
	p, err := parserOf(sources)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parserOf reads conversation ids from the given places; nil means the default ones, an empty slice none.
func parserOf(sources []Source) (*Parser, error) {
	var c Identity
	if sources != nil {
		c.IDs = []string{}
	}
	for _, src := range sources {
		c.IDs = append(c.IDs, src.String())
	}
	return c.Parser()
}

func TestClassify(t *testing.T) {
	rows := []struct {
		method, path string
		want         API
		name         string
		class        fleet.Class
	}{
		{"POST", "/v1/chat/completions", Chat, "chat", fleet.Turn},
		{"POST", "/v1/completions", Completions, "completions", fleet.Turn},
		{"POST", "/v1/embeddings", Embeddings, "embeddings", fleet.Embed},
		{"POST", "/api/embed", Embeddings, "embeddings", fleet.Embed},
		{"POST", "/api/embeddings", Embeddings, "embeddings", fleet.Embed},
		{"POST", "/v1/responses", Responses, "responses", fleet.Turn},
		{"POST", "/v1/messages", Messages, "messages", fleet.Turn},
		{"POST", "/v1/messages/count_tokens", CountTokens, "count_tokens", fleet.Auxiliary},
		{"POST", "/generate", Generate, "generate", fleet.Turn},
		{"POST", "/api/chat", OllamaChat, "ollama_chat", fleet.Turn},
		{"POST", "/api/generate", OllamaGenerate, "ollama_generate", fleet.Turn},
		{"GET", "/v1/chat/completions", Other, "other", fleet.Auxiliary},
		{"GET", "/v1/responses/resp_1", Other, "other", fleet.Auxiliary},
		{"POST", "/v1/chat/completions/", Other, "other", fleet.Auxiliary},
		{"POST", "", Other, "other", fleet.Auxiliary},
	}
	for _, row := range rows {
		got := Classify(row.method, row.path)
		if got != row.want || got.String() != row.name || got.Class() != row.class {
			t.Errorf("%s %s: got %v (class %d), want %v (class %d)",
				row.method, row.path, got, got.Class(), row.want, row.class)
		}
	}
}

func TestParse(t *testing.T) {
	rows := []struct {
		name string
		api  API
		body string
		want Prompt // without spans
	}{
		{
			"chat", Chat,
			`{"model":"qwen","stream":true,"stream_options":{"include_usage":true},"max_tokens":64,"max_completion_tokens":32,"n":2,` +
				`"messages":[{"role":"system","content":"abcd"},{"role":"user","content":[{"type":"text","text":"x\ny"},` +
				`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"tools":[{"a":1}]}`,
			Prompt{Model: "qwen", Stream: true, IncludeUsage: true, MaxTokens: 32, N: 2, TextBytes: 6 + 4 + 4 + 3 + 9},
		},
		{
			"tool calls", Chat,
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"p\":1}"}}]}]}`,
			Prompt{N: 1, TextBytes: 9 + 2 + 2 + 7},
		},
		{
			"anthropic", Messages,
			`{"model":"claude","max_tokens":10,"system":[{"type":"text","text":"sys","cache_control":{"type":"ephemeral"}}],"messages":[` +
				`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"url":"u"}}]},` +
				`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}],` +
				`"metadata":{"user_id":"u","session_id":"s-1"}}`,
			Prompt{
				Model: "claude", MaxTokens: 10, N: 1, TextBytes: 3 + 4 + 2 + 9 + 1 + 1 + 11 + 4, Session: "s-1",
				SessionFrom: "metadata.session_id",
			},
		},
		{
			"responses", Responses,
			`{"model":"m","input":"hello","instructions":"be brief","text":{"format":{"type":"text","name":"ignored"}},"max_output_tokens":5,` +
				`"previous_response_id":"resp_1","conversation":{"id":"conv_1"}}`,
			Prompt{
				Model: "m", MaxTokens: 5, N: 1, TextBytes: 13, PreviousResponse: "resp_1",
				Session: "conv_1", SessionFrom: "conversation.id",
			},
		},
		{
			"completions with ids", Completions, `{"model":"m","prompt":[[1,2,3],[4]],"suffix":"ab"}`,
			Prompt{Model: "m", N: 1, TokenIDs: 4, TextBytes: 2},
		},
		{"completions with texts", Completions, `{"prompt":["ab","cde"]}`, Prompt{N: 1, TextBytes: 5}},
		{
			"embeddings", Embeddings, `{"model":"e","input":["ab",[7,8]]}`,
			Prompt{Model: "e", N: 1, TextBytes: 2, TokenIDs: 2},
		},
		{
			"generate", Generate,
			`{"text":"abc","input_ids":[1,2],"sampling_params":{"max_new_tokens":9,"n":3},"stream":false}`,
			Prompt{MaxTokens: 9, N: 3, TextBytes: 3, TokenIDs: 2},
		},
		{
			"log probabilities of the prompt", Chat, `{"messages":[{"content":"ab"}],"prompt_logprobs":0}`,
			Prompt{N: 1, TextBytes: 2, ReadsNoCache: true},
		},
		{
			"no cache for the prompt", Chat, `{"messages":[{"content":"ab"}],"cache_prompt":false}`,
			Prompt{N: 1, TextBytes: 2, ReadsNoCache: true},
		},
		{
			"a cache for the prompt", Chat, `{"messages":[{"content":"ab"}],"cache_prompt":true}`,
			Prompt{N: 1, TextBytes: 2},
		},
		{"none of the prompt", Chat, `{"prompt_logprobs":null,"logprobs":true,"echo":false}`, Prompt{N: 1}},
		{
			"an echo with log probabilities", Completions, `{"prompt":"ab","echo":true,"logprobs":1}`,
			Prompt{N: 1, TextBytes: 2, ReadsNoCache: true},
		},
		{"an echo alone", Completions, `{"prompt":"ab","echo":true,"logprobs":null}`, Prompt{N: 1, TextBytes: 2}},
		{
			"generate, log probabilities from the first token on", Generate,
			`{"text":"abc","return_logprob":true,"logprob_start_len":0}`,
			Prompt{N: 1, TextBytes: 3, ReadsNoCache: true},
		},
		{
			"generate, log probabilities of the answer", Generate,
			`{"text":"abc","return_logprob":true,"logprob_start_len":-1}`,
			Prompt{N: 1, TextBytes: 3},
		},
		{
			"ollama chat, context", OllamaChat,
			`{"options":{"num_ctx":1},"model":"l","messages":[{"content":"ab"}],"options":{"num_ctx":8192}}`,
			Prompt{Model: "l", Stream: true, N: 1, TextBytes: 2, Window: 8192},
		},
		{
			"options of another API", Chat, `{"model":"l","messages":[{"content":"ab"}],"options":{"num_ctx":8192}}`,
			Prompt{Model: "l", N: 1, TextBytes: 2},
		},
		{
			"ollama chat", OllamaChat,
			`{"model":"l","messages":[{"content":"ab","images":["AAAA"]}],"options":{"num_predict":7}}`,
			Prompt{Model: "l", Stream: true, MaxTokens: 7, N: 1, TextBytes: 2},
		},
		{
			"ollama generate, no stream", OllamaGenerate, `{"model":"l","prompt":"ab","stream":false}`,
			Prompt{Model: "l", N: 1, TextBytes: 2},
		},
		{"ollama generate, stream null", OllamaGenerate, `{"stream":null}`, Prompt{Stream: true, N: 1}},
		{
			"escaped names and values", Chat, `{"mod\u0065l":"\u0067pt","\u0073tream":true}`,
			Prompt{Model: "gpt", Stream: true, N: 1},
		},
		{"last duplicate wins", Chat, `{"model":"a","stream":true,"stream_options":{"include_usage":true},"messages":["xx"],"model":"b","stream":false,"stream_options":{},"messages":["y"]}`, Prompt{Model: "b", N: 1, TextBytes: 1}},
		{
			"wrong types that are not ours to judge", Chat,
			`{"model":null,"max_tokens":"x","n":[],"messages":7,"stream_options":[1],"tools":null}`,
			Prompt{N: 1, TextBytes: 4},
		},
		{
			"saturating counts", Chat, `{"max_tokens":99999999999999999999,"n":1e400}`,
			Prompt{MaxTokens: 1<<31 - 1, N: 1<<31 - 1},
		},
		{
			"negative and broken counts", Chat, `{"max_tokens":-1,"n":-2.5,"n_predict":12.9}`,
			Prompt{MaxTokens: 12, N: 1},
		},
		{
			"names in other cases are other names", Chat, `{"Model":"x","STREAM":true}`,
			Prompt{N: 1, Folded: &CaseError{"Model", "model"}},
		},
		{"empty object", Chat, ` { } `, Prompt{N: 1, Empty: true}},
	}
	spans := cmpopts.IgnoreFields(Prompt{}, "ModelAt", "StreamAt", "StreamOptionsAt", "InsertAt")
	p := newParser(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.want.API = row.api
			got, err := p.Parse(row.api, []byte(row.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got, spans, cmpopts.IgnoreUnexported(Prompt{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseSpans(t *testing.T) {
	body := ` {"a":[1,{"model":"no"}],"model" : "m\u006f" , "stream":true,"cache_salt":{"x":[1]},"stream_options":{"x":1}} `
	got, err := newParser(t).Parse(Chat, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(s jsonscan.Span) string { return body[s.Start:s.End] }
	if at(got.ModelAt) != `"m\u006f"` || at(got.StreamAt) != "true" || at(got.StreamOptionsAt) != `{"x":1}` ||
		at(got.Field("cache_salt")) != `{"x":[1]}` || got.Field("model") != got.ModelAt || got.InsertAt != 2 {
		t.Errorf("got %+v", got)
	}
	if got.Field("id_slot") != (jsonscan.Span{}) {
		t.Errorf("id_slot is there: %v", got.Field("id_slot"))
	}
}

func TestParseErrors(t *testing.T) {
	rows := []struct {
		body string
		want error
		text string
	}{
		{"", ErrEmpty, "body is empty"},
		{" \n", ErrEmpty, "body is empty"},
		{`hello`, jsonscan.ErrNotJSON, "at byte 0: expected a value"},
		{`{"model":"m"`, jsonscan.ErrNotJSON, "at byte 12: expected a comma or }, found the end of the body"},
		{`{"model"`, jsonscan.ErrNotJSON, "at byte 8"},
		{`{"stream_options":{"a"`, jsonscan.ErrNotJSON, "at byte 22"},
		{`{"messages":[{"url"`, jsonscan.ErrNotJSON, "at byte 19"},
		{`{"messages":[{"input":[`, jsonscan.ErrNotJSON, "at byte 23"},
		{`{} {}`, jsonscan.ErrNotJSON, "at byte 3: expected nothing more"},
		{`[{"model":"m"}]`, ErrNotObject, "must be a JSON object"},
		{`"x"`, ErrNotObject, "must be a JSON object"},
		{`[1,`, jsonscan.ErrNotJSON, "at byte 3"},
		{`{"model":7}`, ErrField, `"model" must be a string, not a number`},
		{`{"model":{"a":1}}`, ErrField, `"model" must be a string, not an object`},
		{`{"stream":"yes"}`, ErrField, `"stream" must be a boolean, not a string`},
	}
	p := newParser(t)
	for _, row := range rows {
		_, err := p.Parse(Chat, []byte(row.body), nil)
		if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%q: got %v, want %v with %q", row.body, err, row.want, row.text)
		}
		for _, other := range []error{ErrEmpty, jsonscan.ErrNotJSON, ErrNotObject, ErrField} {
			if other != row.want && errors.Is(err, other) {
				t.Errorf("%q: %v is also %v", row.body, err, other)
			}
		}
	}
}

func TestPeek(t *testing.T) {
	rows := []struct {
		body, model string
		insertAt    int
		err         error
	}{
		{`{"model":"m","stream":5}`, "m", 1, nil},
		{`{"model":7}`, "", 1, nil},
		{`{"model":"m"`, "", 0, jsonscan.ErrNotJSON},
		{`{"model":NaN}`, "", 0, jsonscan.ErrNotJSON},
		{"\xff\xfe{\x00}\x00", "", 0, jsonscan.ErrNotJSON},
		{`{"model":"m"` + strings.Repeat(`,"model":"m"`, maxEarlier+1) + `}`, "", 0, ErrRepeated},
		{`["model"]`, "", 0, nil},
		{"--boundary\r\nmodel", "", 0, jsonscan.ErrNotJSON},
		{"", "", 0, nil},
	}
	p := newParser(t)
	h := http.Header{"X-Session-Id": {"s"}}
	for _, row := range rows {
		got, err := p.Peek([]byte(row.body), h.Get)
		if !errors.Is(err, row.err) || got.Model != row.model || got.InsertAt != row.insertAt || got.API != Other ||
			got.Session != "s" {
			t.Errorf("%q: got %+v, %v", row.body, got, err)
		}
	}
}

func TestSessionSources(t *testing.T) {
	// Removing the sources from the front one by one leaves the next as the result.
	all := DefaultSources()
	h := http.Header{}
	body := map[string]any{}
	for i, src := range all {
		place, member, within := strings.Cut(src.Header+src.Field, "#")
		value := "f" + strconv.Itoa(i)
		if src.Header != "" {
			value = "h" + strconv.Itoa(i)
		}
		if within {
			value = `{"` + member + `":"` + value + `"}`
		}
		if src.Header != "" {
			h.Set(place, value)
			continue
		}
		if src.Field == "metadata.user_id" {
			value = "user_x_session_" + value
		}
		top, sub, nested := strings.Cut(place, ".")
		if !nested {
			body[top] = value
			continue
		}
		inner, ok := body[top].(map[string]any)
		if !ok {
			if body[top] != nil {
				continue // conversation is a string here
			}
			inner = map[string]any{}
			body[top] = inner
		}
		inner[sub] = value
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	for i, src := range all {
		if src.Field == "conversation.id" {
			continue // absent while conversation is a string
		}
		got, err := newParser(t, all[i:]...).Parse(Chat, text, h.Get)
		if err != nil {
			t.Fatal(err)
		}
		want := "h" + strconv.Itoa(i)
		if src.Field != "" {
			want = "f" + strconv.Itoa(i)
		}
		if got.Session != want || got.SessionFrom != src.Header+src.Field {
			t.Errorf("source %d (%+v): got %q from %q, want %q", i, src, got.Session, got.SessionFrom, want)
		}
	}
}

func TestSessionIDsThatAreNone(t *testing.T) {
	long := strings.Repeat("x", MaxIDBytes)
	rows := []struct{ name, body, want string }{
		{"empty", `{"prompt_cache_key":"","session_id":"s"}`, "s"},
		{"longest", `{"prompt_cache_key":"` + long + `"}`, long},
		{"too long", `{"prompt_cache_key":"` + long + `x","session_id":"s"}`, "s"},
		{"escaped but short enough", `{"prompt_cache_key":"` + strings.Repeat(`\u0078`, MaxIDBytes) + `"}`, long},
		{"line break", `{"prompt_cache_key":"a\r\nX-Evil: 1","session_id":"s"}`, "s"},
		{"wrong type", `{"prompt_cache_key":{"a":1},"session_id":5,"metadata":"x","litellm_session_id":"l"}`, "l"},
		{"null hides an earlier one", `{"session_id":"a","session_id":null}`, ""},
		{"whole object replaced", `{"metadata":{"session_id":"a"},"metadata":{}}`, ""},
		{"not at this depth", `{"x":{"session_id":"a","metadata":{"session_id":"b"}}}`, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := newParser(t).Parse(Chat, []byte(row.body), nil)
			if err != nil || got.Session != row.want {
				t.Errorf("got %q, %v; want %q", got.Session, err, row.want)
			}
		})
	}
	h := http.Header{"X-Session-Id": {long + "x"}, "Thread-Id": {"t"}}
	if got, err := newParser(t).Parse(Chat, []byte(`{"previous_response_id":"`+long+`x"}`), h.Get); err != nil ||
		got.Session != "t" || got.PreviousResponse != "" {
		t.Errorf("got %q, %q, %v", got.Session, got.PreviousResponse, err)
	}
}

func TestParserRefuses(t *testing.T) {
	many := make([]Source, maxBodySources+1)
	for i := range many {
		many[i].Field = "f" + strconv.Itoa(i)
	}
	rows := [][]Source{
		{{}},
		{{Header: "a b"}},
		{{Header: "a:b"}},
		{{Field: "a.b.c"}},
		{{Field: ".a"}},
		{{Field: "a."}},
		{{Field: "messages.id"}},
		{{Field: strings.Repeat("x", maxNameBytes+1)}},
		many,
		make([]Source, maxSources+1),
	}
	for _, row := range rows {
		if _, err := parserOf(row); err == nil || !strings.HasPrefix(err.Error(), "prompt: ") {
			t.Errorf("%+v: got %v", row, err)
		}
	}
	got, err := newParser(t, Source{Field: "user"}, Source{Field: "user"}, Source{Header: "session_id"}).Parse(Chat,
		[]byte(`{"user":"u"}`), nil)
	if err != nil || got.Session != "u" {
		t.Errorf("got %q, %v", got.Session, err)
	}
}

func TestHeaderNamesAreCanonical(t *testing.T) {
	for _, src := range slices.Concat(DefaultSources(), DefaultUsers(), DefaultParents(),
		[]Source{{Header: claudeSession}, {Header: claudeAgent}, {Header: claudeParent}}) {
		if got, want := canonicalHeader(src.Header), http.CanonicalHeaderKey(src.Header); got != want {
			t.Errorf("%s: got %s, want %s", src.Header, got, want)
		}
	}
}

func TestParseAllocates(t *testing.T) {
	p := newParser(t)
	body := chatBody(100_000, codeText)
	h := http.Header{"X-Session-Id": {"s"}}
	get := h.Get
	if n := testing.AllocsPerRun(20, func() {
		if _, err := p.Parse(Chat, body, get); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations, want at most 2", n)
	}
}
