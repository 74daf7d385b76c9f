package proxy_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

func TestBytesAreSacred(t *testing.T) {
	var got struct {
		body, path, query string
		header            http.Header
	}
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		got.body, got.path, got.query, got.header = string(b), req.URL.EscapedPath(), req.URL.RawQuery, req.Header
		w.Header().Set("X-Engine", "yes")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, chatAnswer)
	})
	body := "{ \"seed\": 9223372036854775807,\n\t\"x_unknown\": {\"a\": [1.0, 1e400, \"\\ud83d\\ude00\"]}, " +
		"\"model\" : \"m\", \"messages\":[] }\n"
	res, answer := r.post("/v1/chat/completions?a=b%20c", body, "X-Custom", "kept", "X-Warmpath-Explain", "1",
		"Authorization", "Bearer k", "Te", "trailers", "X-Request-Id", "req-1")
	if got.body != body || got.query != "a=b%20c" {
		t.Errorf("engine got %q ? %q", got.body, got.query)
	}
	if got.header.Get("X-Custom") != "kept" || got.header.Get("Authorization") != "Bearer k" ||
		got.header.Get("X-Request-Id") != "req-1" {
		t.Errorf("engine got headers %v", got.header)
	}
	if got.header.Get("X-Warmpath-Explain") != "" || got.header.Get("Te") != "" {
		t.Errorf("headers meant for the router went on: %v", got.header)
	}
	if answer != chatAnswer || res.Header.Get("X-Engine") != "yes" || res.Header.Get("X-Request-Id") != "req-1" {
		t.Errorf("client got %q %v", answer, res.Header)
	}
	if res.Header.Get("X-Warmpath-Endpoint") != "e0" || res.Header.Get("X-Warmpath-Reason") == "" {
		t.Errorf("not explained: %v", res.Header)
	}
	if _, err := uuid.Parse(res.Header.Get("X-Session-Id")); err != nil {
		t.Errorf("no minted session id: %v", res.Header)
	}
	s := r.last(1)
	if s.Usage != (fleet.Usage{PromptTokens: 20, CachedTokens: 16, OutputTokens: 3, CachedKnown: true}) {
		t.Errorf("usage = %+v", s.Usage)
	}
	if r.post("/v1/chat/completions", "\ufeff\ufeff"+body); got.body != body { // Windows tools put it in front
		t.Errorf("with a byte order mark: engine got %q", got.body)
	}
	r.post("/odd%2Fpath/x", "not json at all")
	if got.path != "/odd%2Fpath/x" || got.body != "not json at all" {
		t.Errorf("unknown path: engine got %q %q", got.path, got.body)
	}
}

// TestUsageFarFromTheEnd: what an engine counts is learnt also where log probabilities or token ids follow it.
func TestUsageFarFromTheEnd(t *testing.T) {
	much := "[1" + strings.Repeat(",1", 20_000) + "]"
	answers := map[string]string{
		"/generate": `{"text":"x","meta_info":{"prompt_tokens":20,"output_token_logprobs":` + much +
			`,"completion_tokens":3,"cached_tokens":16}}`,
		"/v1/chat/completions": `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":3,` +
			`"prompt_tokens_details":{"cached_tokens":16}},"prompt_token_ids":` + much + "}",
	}
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, q *http.Request) {
		body := answers[q.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if q.Header.Get("X-Told") != "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		io.WriteString(w, body)
	})
	n := 0
	for path := range answers {
		for _, told := range []string{"", "yes"} { // the length of the answer
			r.post(path, `{"model":"m","text":"a","messages":[{"role":"user","content":"a"}]}`, "X-Told", told)
			n++
			if got := r.last(n).Usage; got != (fleet.Usage{
				PromptTokens: 20, CachedTokens: 16, OutputTokens: 3, CachedKnown: true,
			}) {
				t.Errorf("%s, its length told: %q: usage = %+v", path, told, got)
			}
		}
	}
}

func TestSessionStaysAndIsEchoed(t *testing.T) {
	who := func(name string) engineHandler { return answers(200, chatAnswer, "X-Who", name) }
	r := newRig(t, proxy.Config{Pinning: true}, who("e0"), who("e1"))
	res, _ := r.post("/v1/chat/completions", chatBody, "X-Session-Id", "mine", "X-Warmpath-Exclude", "e0")
	if res.Header.Get("X-Who") != "e1" || res.Header.Get("X-Session-Id") != "mine" {
		t.Fatalf("got %v", res.Header)
	}
	for range 5 {
		if res, _ = r.post("/v1/chat/completions", chatBody, "X-Session-Id", "mine"); res.Header.Get("X-Who") != "e1" {
			t.Fatal("the conversation left its endpoint")
		}
	}
	res, _ = r.post("/v1/chat/completions", chatBody, "X-Warmpath-Pin", "e1")
	minted := res.Header.Get("X-Session-Id")
	if res, _ = r.post("/v1/chat/completions", chatBody, "X-Session-Id", minted); res.Header.Get("X-Who") != "e1" {
		t.Fatal("the conversation that adopted its minted id left its endpoint")
	}
	if d := r.last(8).Decision; d.CachedTokens == 0 || d.FirstTurn {
		t.Errorf("the last turn was not predicted to be warm: %+v", d)
	}
}

func TestStreamIsRelayedPieceByPiece(t *testing.T) {
	next := make(chan string)
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush() // the header comes long before the first token, as from vLLM
		for p := range next {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
	})
	go func() { next <- chunk("one") }()
	res, err := r.client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	read := func() string {
		s, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return s + "\n"
	}
	if got := read(); got != chunk("one") {
		t.Fatalf("got %q", got)
	}
	if l := r.fleet.Status()[0].Load; l.Requests != 1 || l.PrefillTokens != 0 || l.DecodeTokens == 0 {
		t.Errorf("while it decodes the books say %+v", l)
	}
	next <- chunk("two") // sent only after the client has read the first
	if got := read(); got != chunk("two") {
		t.Fatalf("got %q", got)
	}
	next <- usageChunk + doneChunk
	close(next)
	if rest, _ := io.ReadAll(lines); string(rest) != usageChunk+doneChunk {
		t.Errorf("got %q", rest)
	}
	s := r.last(1)
	if s.Chunks != 3 || s.Usage.CachedTokens != 16 || s.Outcome != fleet.OK || !s.FirstByte.Before(s.LastByte) {
		t.Errorf("told %+v", s)
	}
}

func TestFirstByteIsDataNotHeaderNotPing(t *testing.T) {
	pinged, data := make(chan bool), make(chan bool)
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": ping\n\n")
		_ = http.NewResponseController(w).Flush()
		close(pinged)
		<-data
		_, _ = io.WriteString(w, chunk("x")+doneChunk)
	})
	res, err := r.client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"`+strings.Repeat("word ", 100)+`"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-pinged
	buf := make([]byte, 8)
	if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != ": ping\n\n" {
		t.Fatalf("the ping was not passed on: %q %v", buf, err)
	}
	if l := r.fleet.Status()[0].Load; l.PrefillTokens == 0 {
		t.Error("a ping ended the prefill")
	}
	close(data)
	if rest, _ := io.ReadAll(res.Body); string(rest) != chunk("x")+doneChunk {
		t.Errorf("got %q", rest)
	}
}

// TestClientThatLeavesAfterTheEnd: OpenAI's Python client closes the connection at "[DONE]", before llama-server ends
// the body.
func TestClientThatLeavesAfterTheEnd(t *testing.T) {
	for _, x := range []struct{ path, media, whole string }{
		{
			"/v1/chat/completions", "text/event-stream",
			chunk("x") + `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n" + doneChunk,
		},
		{
			"/api/chat", "application/x-ndjson", `{"message":{"content":"x"},"done":false}` + "\n" +
				`{"done":true,"prompt_eval_count":7,"eval_count":2}` + "\n",
		},
	} {
		t.Run(x.path, func(t *testing.T) {
			cancelled := make(chan bool)
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				w.Header().Set("Content-Type", x.media)
				_, _ = io.WriteString(w, x.whole)
				_ = http.NewResponseController(w).Flush()
				<-req.Context().Done()
				close(cancelled)
			})
			body := strings.NewReader(`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`)
			res, err := r.client.Post(r.url+x.path, "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(io.LimitReader(res.Body, int64(len(x.whole)))); err != nil ||
				string(got) != x.whole {
				t.Fatalf("got %q %v", got, err)
			}
			res.Body.Close()
			<-cancelled
			if s := r.last(1); s.Outcome != fleet.OK || s.Usage.PromptTokens != 7 || s.Usage.OutputTokens != 2 {
				t.Errorf("told %+v", s)
			}
		})
	}
}

// TestStreamCutInItsLastEvent: the name of the event that ends a stream is not its end.
func TestStreamCutInItsLastEvent(t *testing.T) {
	for _, cut := range []string{
		"event: response.completed\n", "event: response.completed\ndata: {\"type\":\"response.completed\"}\n",
	} {
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: response.output_text.delta\n"+
				"data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"+cut)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		res, err := r.client.Post(r.url+"/v1/responses",
			"application/json", strings.NewReader(`{"model":"m","stream":true,"input":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("after %q the client takes a part for the whole", cut)
		}
		res.Body.Close()
		if s := r.last(1); s.Outcome != fleet.EngineError {
			t.Errorf("after %q: told %v", cut, s.Outcome)
		}
	}
}

func TestModelsAreMerged(t *testing.T) {
	list := func(entries string) engineHandler {
		return func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/v1/models" {
				t.Errorf("asked for %s", req.URL.Path)
			}
			_, _ = io.WriteString(w, `{"object":"list","data":[`+entries+`]}`)
		}
	}
	r := newRig(t, proxy.Config{}, list(`{"id":"m","max_model_len":100000,"x_kept":9223372036854775807}`),
		list(`{"id":"m"},{"id":"hidden"}`))
	_, body := r.do("GET", "/v1/models", "")
	want := `{"data":[{"id":"m","max_model_len":100000,"x_kept":9223372036854775807},{"created":0,"id":"n","object":"model","owned_by":"warmpath"}],"object":"list"}`
	if body != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
	if _, body = r.do("GET", "/models", ""); body != want { // llama.cpp's name of the same, without a key too
		t.Errorf("/models: got %s\nwant %s", body, want)
	}
	if _, body = r.do("GET", "/v1/models/m", ""); !strings.Contains(body, "x_kept") {
		t.Errorf("one model: %s", body)
	}
	if res, body := r.do("GET", "/v1/models/zz", ""); res.StatusCode != 404 ||
		!strings.Contains(body, "known models: m, n") {
		t.Errorf("unknown model: %d %s", res.StatusCode, body)
	}
}

func TestResponsesGoBackToTheirHolder(t *testing.T) {
	who := func(name string) engineHandler {
		return func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header().Set("X-Who", name)
			if req.Method == "POST" && req.URL.Path == "/v1/responses" && req.Header.Get("X-Stream") != "" {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w,
					"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_s_"+name+
						"\"}}\n\n"+"event: response.completed\n"+
						"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_s_"+name+"\"}}\n\n")
				return
			}
			_, _ = io.WriteString(w, `{"id":"resp_`+name+`","object":"response","output":[]}`)
		}
	}
	r := newRig(t, proxy.Config{Pinning: true}, who("e0"), who("e1"))
	r.post("/v1/responses", `{"model":"m","input":"hi"}`, "X-Warmpath-Pin", "e1")
	r.post("/v1/responses", `{"model":"m","input":"hi","stream":true}`, "X-Warmpath-Pin", "e1", "X-Stream", "1")
	for _, call := range [][2]string{
		{"GET", "/v1/responses/resp_e1"},
		{"DELETE", "/v1/responses/resp_e1"},
		{"POST", "/v1/responses/resp_e1/cancel"},
		{"GET", "/v1/responses/resp_s_e1/input_items?limit=2"},
	} {
		if res, _ := r.do(call[0], call[1], ""); res.Header.Get("X-Who") != "e1" {
			t.Errorf("%s %s went to %s", call[0], call[1], res.Header.Get("X-Who"))
		}
	}
	if res, _ := r.post("/v1/responses",
		`{"model":"m","input":"more","previous_response_id":"resp_e1"}`); res.Header.Get("X-Who") != "e1" {
		t.Error("the next turn left the endpoint that holds the response")
	}
}

func TestAliasIsSplicedIn(t *testing.T) {
	var got string
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		got = string(b)
		_, _ = io.WriteString(w, chatAnswer)
	})
	// A declared rank is addressed in the way of its engine.
	e := r.fleet.Status()[0].Endpoint
	e.Part = fleet.Part{Kind: fleet.Rank, Index: 3}
	e.Kind = fleet.KindSGLang
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{e}})
	r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	r.post("/v1/chat/completions", `{"model":"m", "seed":18446744073709551615}`)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got), &fields); err != nil || string(fields["routed_dp_rank"]) != "3" ||
		string(fields["seed"]) != "18446744073709551615" {
		t.Errorf("engine got %s (%v)", got, err)
	}
}
