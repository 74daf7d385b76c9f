package prompt

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// bodies are seeds for the fuzzers: requests of every API, including difficult ones.
var bodies = []string{
	`{"model":"qwen","stream":true,"stream_options":{"include_usage":true},"max_tokens":64,"n":2,"messages":[{"role":"user","content":"x\ny"}],"tools":[{"a":1}]}`,
	`{"model":"claude","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"image","source":{"data":"AAAA"}}]}],"metadata":{"session_id":"s"}}`,
	`{"messages":[{"content":[{"type":"tool_use","input":{"a":[1,{}]}},{"arguments":"{\"a\":1}"}]}]}`,
	`{"input":"hello","instructions":"i","text":{"format":{"type":"text"}},"previous_response_id":"r","conversation":{"id":"c"},"max_output_tokens":5}`,
	`{"prompt":[[1,2],[3]],"suffix":"ab","stream":false}`, `{"prompt":["a",1,{"x":[2,"\ud83d\ude00"]}]}`,
	`{"text":"abc","input_ids":[1,2],"sampling_params":{"max_new_tokens":9,"n":3}}`,
	`{"prompt":"a","echo":true,"logprobs":1,"prompt_logprobs":0,"return_logprob":true,"logprob_start_len":0}`,
	`{"prompt":"a","cache_prompt":false}`,
	`{"model":"l","messages":[{"content":"a","images":["AAAA"]}],"options":{"num_predict":-1,"num_ctx":8192},"stream":null}`,
	`{"mod\u0065l":"\u0067pt","\u0073tream":true,"n":1e2,"max_tokens":1.5e3}`,
	`{"model":"a","model":null,"stream":true,"stream":false,"session_id":"x","session_id":"","conversation_params":{"conversation_id":"a\u0000"}}`,
	`{"conversation_params":{"conversation_id":"id","conversation_id":"id2"},"disaggregated_params":{"conversation_id":"d"},"prompt_cache_key":"k"}`,
	`{"stream_options":{"include_usage":true},"stream_options":null,"metadata":{"session_id":"s"},"metadata":[]}`,
	`{"messages":"s","messages":{"role":"é"},"tools":null,"max_tokens":123456789012,"max_completion_tokens":0}`,
}

// reference reads a body with encoding/json.
type reference map[string]json.RawMessage

func (r reference) str(name string) string {
	var s string
	if v := r[name]; len(v) == 0 || v[0] != '"' || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

func (r reference) sub(name string) reference {
	var m reference
	if json.Unmarshal(r[name], &m) != nil {
		return nil
	}
	return m
}

func (r reference) count(name string) int {
	v := string(r[name])
	if v == "" || (v[0] != '-' && (v[0] < '0' || v[0] > '9')) {
		return 0
	}
	f, _, err := big.ParseFloat(v, 10, 200, big.ToZero)
	if err != nil { // beyond the range of big
		return maxCount
	}
	if f.Cmp(big.NewFloat(maxCount)) > 0 {
		return maxCount
	}
	n, _ := f.Int64()
	return max(0, int(n))
}

// expected is the expected result of Parse; ok is false if it should fail.
func expected(api API, body []byte, h http.Header) (want Prompt, ok bool) {
	var r reference
	if json.Unmarshal(body, &r) != nil || r == nil {
		return want, false
	}
	kind := func(name string) byte { return append(r[name], 0)[0] }
	if k := kind("model"); k != 0 && k != '"' && k != 'n' {
		return want, false
	}
	want = Prompt{API: api, Model: r.str("model"), N: 1, Empty: len(r) == 0}
	switch kind("stream") {
	case 't':
		want.Stream = true
	case 'f':
	case 0, 'n':
		want.Stream = api == OllamaChat || api == OllamaGenerate
	default:
		return want, false
	}
	want.IncludeUsage = string(r.sub("stream_options")["include_usage"]) == "true"
	for _, n := range []int{
		r.count("max_completion_tokens"), r.count("max_tokens"), r.count("max_output_tokens"), r.count("n_predict"),
		r.sub("sampling_params").count("max_new_tokens"), r.sub("options").count("num_predict"),
	} {
		if want.MaxTokens == 0 {
			want.MaxTokens = n
		}
	}
	if api == OllamaChat || api == OllamaGenerate {
		want.Window = r.sub("options").count("num_ctx")
	}
	if n := r.count("n"); n > 0 {
		want.N = n
	} else if n := r.sub("sampling_params").count("n"); n > 0 {
		want.N = n
	}
	number := func(name string) bool { return kind(name) == '-' || kind(name) >= '0' && kind(name) <= '9' }
	want.ReadsNoCache = number("prompt_logprobs") || kind("cache_prompt") == 'f' ||
		kind("echo") == 't' && (number("logprobs") || kind("logprobs") == 't') ||
		kind("return_logprob") == 't' && string(r["logprob_start_len"]) == "0"
	if id := r.str("previous_response_id"); isID(id) {
		want.PreviousResponse = id
	}
	want.Session, want.SessionFrom = expectedSession(r, h)
	return want, true
}

func expectedSession(r reference, h http.Header) (id, from string) {
	for _, src := range DefaultSources() {
		name, id := src.Header+src.Field, ""
		switch top, sub, nested := strings.Cut(src.Field, "."); {
		case src.Header != "":
			id = h.Get(src.Header)
		case !nested:
			id = r.str(top)
		case src.Field == "metadata.user_id":
			var ids map[string]any
			user := r.sub(top).str(sub)
			switch raw := r.sub(top)[sub]; {
			case len(raw) > 0 && raw[0] == '{' && len(raw) <= MaxIDBytes:
				user = string(raw)
			case !isID(user):
				user = ""
			}
			if json.Unmarshal([]byte(user), &ids) == nil {
				id, _ = ids["session_id"].(string)
			} else if at := strings.LastIndex(user, "_session_"); at >= 0 && user[0] != '{' {
				id = user[at+len("_session_"):]
			}
		default:
			id = r.sub(top).str(sub)
		}
		if isID(id) && strings.TrimSpace(id) != "" {
			return strings.TrimSpace(id), name
		}
	}
	return "", ""
}

// expectedText counts text bytes and token ids of decoded values. It cannot see duplicates within messages (a Go map
// keeps the last), so it is only valid without them.
func expectedText(api API, r reference) (text, ids int) {
	for name, raw := range r {
		switch {
		case name == "tools" || name == "functions" || name == "documents":
			text += len(raw)
		case name == "messages" || name == "system" || name == "instructions" || name == "input" || name == "prompt",
			(name == "text" || name == "input_ids") && api == Generate,
			name == "suffix" && (api == Completions || api == OllamaGenerate):
			a, n := expectedAmount(raw)
			text += a
			if raw[0] == '[' {
				ids += n
			}
		}
	}
	return text, ids
}

func expectedAmount(raw json.RawMessage) (text, ids int) {
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return 0, 0
		}
		return len(s), 0
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return 0, 0
		}
		for _, item := range list {
			a, n := expectedAmount(item)
			text, ids = text+a, ids+n
		}
		return text, ids
	case '{':
		var members reference
		if json.Unmarshal(raw, &members) != nil {
			return 0, 0
		}
		for name, v := range members {
			switch {
			case isMedia([]byte(name)):
			case (name == "input" || name == "arguments") && v[0] != '"':
				text += len(v)
			default:
				a, _ := expectedAmount(v)
				text += a
			}
		}
		return text, 0
	case 't', 'f', 'n':
		return 0, 0
	}
	return 0, 1
}

func checkParse(t *testing.T, p *Parser, api API, body []byte, h http.Header) {
	got, err := p.Parse(api, body, h.Get)
	want, ok := expected(api, body, h)
	if ok != (err == nil) {
		t.Fatalf("%v %q: got %v, want accepted %v", api, body, err, ok)
	}
	if err != nil {
		if json.Valid(body) == (errors.Is(err, jsonscan.ErrNotJSON) || errors.Is(err, ErrEmpty)) {
			t.Fatalf("%q: %v", body, err)
		}
		return
	}
	at := func(s jsonscan.Span) string { return string(body[s.Start:s.End]) }
	var r reference
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	for f := range numEditable {
		name := fieldNames[f]
		if text := at(got.Field(name)); text != string(r[name]) {
			t.Fatalf("%q: %s is %q, want %q", body, name, text, r[name])
		}
	}
	if got.Model != "" && at(got.ModelAt) != string(r["model"]) || at(got.StreamAt) != string(r["stream"]) ||
		at(got.StreamOptionsAt) != string(r["stream_options"]) || body[got.InsertAt-1] != '{' {
		t.Fatalf("%q: spans of %+v", body, got)
	}
	text, ids := got.TextBytes, got.TokenIDs
	got = Prompt{
		API: got.API, Model: got.Model, Stream: got.Stream, IncludeUsage: got.IncludeUsage, MaxTokens: got.MaxTokens,
		N: got.N, Window: got.Window, ReadsNoCache: got.ReadsNoCache,
		Session: got.Session, SessionFrom: got.SessionFrom, PreviousResponse: got.PreviousResponse, Empty: got.Empty,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Prompt{})); diff != "" {
		t.Fatalf("%v %q: %s", api, body, diff)
	}
	// Only a re-encoded body has no duplicates and no invalid UTF-8, so that maps can be used.
	var tree map[string]any
	if json.Unmarshal(body, &tree) != nil {
		return
	}
	clean, err := json.Marshal(tree)
	if err != nil || len(clean) == 0 {
		return
	}
	again, err := p.Parse(api, clean, nil)
	if err != nil {
		t.Fatalf("%q: %v", clean, err)
	}
	r = nil
	if err := json.Unmarshal(clean, &r); err != nil {
		t.Fatal(err)
	}
	if wantText, wantIDs := expectedText(api, r); again.TextBytes != wantText || again.TokenIDs != wantIDs {
		t.Fatalf("%v %q: text %d ids %d, want %d and %d",
			api, clean, again.TextBytes, again.TokenIDs, wantText, wantIDs)
	}
	if text < 0 || text > len(body) || ids < 0 || ids > len(body) {
		t.Fatalf("%q: text %d ids %d", body, text, ids)
	}
}

func TestParseAgreesWithEncodingJSON(t *testing.T) {
	p := newParser(t)
	h := http.Header{"X-Session-Id": {""}, "Thread-Id": {"t"}}
	for _, body := range append(bodies, documents...) {
		for api := Other; api <= OllamaGenerate; api++ {
			checkParse(t, p, api, []byte(body), nil)
			checkParse(t, p, api, []byte(body), h)
		}
	}
}

func FuzzParse(f *testing.F) {
	for i, body := range bodies {
		f.Add(uint8(i), []byte(body), "")
	}
	for i, doc := range documents {
		f.Add(uint8(i), []byte(doc), "s")
	}
	p := newParser(f)
	f.Fuzz(func(t *testing.T, api uint8, body []byte, session string) {
		checkParse(t, p, API(api%(uint8(OllamaGenerate)+1)), body, http.Header{"X-Session-Id": {session}})
	})
}
