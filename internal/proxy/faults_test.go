package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// TestFailuresBeforeTheFirstByte: another endpoint answers, the client notices nothing, and blame goes where it
// belongs.
func TestFailuresBeforeTheFirstByte(t *testing.T) {
	hang := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
	}
	headerThenHang := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		hang(w, req)
	}
	garbage := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(conn, "this is no HTTP\r\n\r\n")
		conn.Close()
	}
	good := streams(chunk("hi"), usageChunk, doneChunk)
	for _, tt := range []struct {
		name string
		bad  engineHandler
		want fleet.Outcome
	}{
		{"500", answers(500, `{"error":"boom"}`), fleet.EngineError},
		{"502", answers(502, ``), fleet.EngineError},
		{"503", answers(503, `{}`), fleet.Busy},
		{
			"529", answers(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			fleet.Busy,
		},
		{"529 within status 200", answers(200, `{"error":{"message":"Overloaded","code":529}}`), fleet.Busy},
		{"429 with Retry-After", answers(429, `{}`, "Retry-After", "7"), fleet.Busy},
		{"closed before an answer", cuts(), fleet.EngineError},
		{"closed after the header", cuts(""), fleet.EngineError},
		{"no HTTP", garbage, fleet.EngineError},
		{"no first byte in time", hang, fleet.TimedOut},
		{"a header and no first byte in time", headerThenHang, fleet.TimedOut},
		{
			"a stream that starts with an error",
			streams("data: {\"error\":{\"message\":\"died\",\"code\":500}}\n\n", doneChunk), fleet.EngineError,
		},
		{"an empty stream", streams(), fleet.EngineError},
		{"nothing at all with status 200", answers(200, ``), fleet.EngineError},
		{"an error with status 200", answers(200, `{"error":{"message":"died","code":500}}`), fleet.EngineError},
		{"an error of unknown length with status 200", streamed(`{"error":"died"}`), fleet.EngineError},
		{
			"a flat error with status 200", answers(200, `{"object":"error","message":"queue is full","code":503}`),
			fleet.Busy,
		},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			r := newRig(t, proxy.Config{FirstByte: 100 * time.Millisecond}, tt.bad, good)
			res, body := r.post("/v1/chat/completions", streamBody)
			if res.StatusCode != 200 || body != chunk("hi")+usageChunk+doneChunk {
				t.Fatalf("client got %d %q", res.StatusCode, body)
			}
			s := r.last(1)
			if s.Attempts != 2 || s.Outcome != fleet.OK || s.Decision.Endpoint.Name != "e1" {
				t.Errorf("told %+v", s)
			}
			if got := r.retry; len(got) != 1 || got[0] != "e0 "+tt.want.String() {
				t.Errorf("retries %v, want e0 %s", got, tt.want)
			}
		}))
	}
}

func TestRefusedConnectionIsRetriedElsewhere(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(200, chatAnswer), answers(200, chatAnswer))
	e := r.fleet.Status()[0].Endpoint
	e.URL = refuses(t)
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{e, r.fleet.Status()[1].Endpoint}})
	r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || body != chatAnswer {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	if got := r.retry; len(got) != 1 || got[0] != "e0 connect_failed" {
		t.Errorf("retries %v", got)
	}
	if s := r.fleet.Status()[0]; s.State != fleet.StateEjected {
		t.Errorf("e0 is %s", s.State)
	}
}

// TestWhenAllFail: the client gets what the last engine said, or an error that says what happened.
func TestWhenAllFail(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(500, `{"error":{"message":"first"}}`),
		answers(503, `{"error":{"message":"full"}}`))
	res, body := r.post("/v1/chat/completions", chatBody)
	if res.StatusCode != 503 || body != `{"error":{"message":"full"}}` || res.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s %v", res.StatusCode, body, res.Header)
	}
	r = newRig(t, proxy.Config{}, cuts(), cuts())
	res, body = r.post("/v1/chat/completions", chatBody)
	if res.StatusCode != 502 || !isOpenAIError(body) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	var calls atomic.Int32
	count := func(w http.ResponseWriter, req *http.Request) {
		calls.Add(1)
		answers(500, "{}")(w, req)
	}
	r = newRig(t, proxy.Config{Retries: 2}, count, count, count, count, count, count)
	if res, _ = r.post("/v1/chat/completions", chatBody); res.StatusCode != 500 || calls.Load() != 3 {
		t.Errorf("got %d after %d attempts, want 3", res.StatusCode, calls.Load())
	}
}

func TestClientErrorsAreNotRetried(t *testing.T) {
	for _, status := range []int{400, 401, 404, 409, 413, 422, 501} {
		r := newRig(t, proxy.Config{}, answers(status, `{"error":{"message":"yours"}}`), answers(200, chatAnswer))
		res, body := r.post("/v1/chat/completions", chatBody)
		if res.StatusCode != status || body != `{"error":{"message":"yours"}}` || r.last(1).Attempts != 1 {
			t.Errorf("%d: got %d %s", status, res.StatusCode, body)
		}
		if s := r.fleet.Status()[0]; s.Failures != 0 || s.State != fleet.StateUp {
			t.Errorf("%d: blamed on the engine: %+v", status, s)
		}
	}
}

// TestNothingIsRetriedAfterTheFirstByte: the client is told in the stream, and its connection is cut.
func TestNothingIsRetriedAfterTheFirstByte(t *testing.T) {
	silent := func(w http.ResponseWriter, req *http.Request) {
		streams(chunk("one"))(w, req)
		<-req.Context().Done()
	}
	for _, tt := range []struct {
		name string
		bad  engineHandler
		want fleet.Outcome
		told bool
	}{
		{"cut between events", cuts(chunk("one")), fleet.EngineError, true},
		{"cut within an event", cuts(chunk("one"), "data: {\"choices\":[{"), fleet.EngineError, false},
		{"cut within what may be the usage chunk", cuts(chunk("one"), "data: {\"choices\":["), fleet.EngineError, true},
		{
			"cut between events of other line ends", cuts(chunk("one"), "data: {\"choices\":[{}]}\r\n", "\r", "\n"),
			fleet.EngineError, true,
		},
		{"cut before an empty line", cuts(chunk("one"), "data: {\"choices\":[{}]}\r\n"), fleet.EngineError, true},
		{"cut between events of lone carriage returns", cuts(lone(chunk("one"))), fleet.EngineError, true},
		{
			"cut before an empty line of one", cuts(lone(chunk("one")), "data: {\"choices\":[{}]}\r"),
			fleet.EngineError, true,
		},
		{"cut within a line end", cuts(chunk("one"), "data: {\"choices\":[{}]}\r\n\r"), fleet.EngineError, true},
		{"ended without [DONE]", streams(chunk("one")), fleet.EngineError, true},
		{"silent", silent, fleet.TimedOut, true},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			var second atomic.Int32
			r := newRig(t, proxy.Config{Idle: 100 * time.Millisecond}, tt.bad,
				func(http.ResponseWriter, *http.Request) { second.Add(1) })
			res, body := r.post("/v1/chat/completions", `{"model":"m","stream":true}`)
			if res.StatusCode != 200 || !strings.HasPrefix(strings.ReplaceAll(body, "\r", "\n"), chunk("one")) ||
				!strings.Contains(body, "!") {
				t.Errorf("client got %d %q, want the first piece and a broken end", res.StatusCode, body)
			}
			// as all clients read line ends, also those that take none for a lone carriage return
			as := strings.ReplaceAll(body, "\r\n", "\n")
			if strings.Contains(body, "\r\r") {
				as = strings.ReplaceAll(as, "\r", "\n")
			}
			if told := strings.Contains(as, "\n\ndata: {\"error\":"); told != tt.told {
				t.Errorf("told in the stream: %t, want %t: %q", told, tt.told, body)
			}
			if s := r.last(1); second.Load() != 0 || s.Attempts != 1 || s.Outcome != tt.want {
				t.Errorf("told %+v, second endpoint asked %d times", s, second.Load())
			}
			said := r.log.String()
			if !strings.Contains(said, "attempt failed") || strings.Contains(said, "context canceled") ||
				(tt.want == fleet.TimedOut) != strings.Contains(said, timeouts.ErrIdle.Error()) {
				t.Errorf("the log does not say why: %s", said)
			}
		}))
	}
	t.Run("an error event and [DONE]", func(t *testing.T) {
		stream := []string{chunk("one"), "data: {\"error\":{\"message\":\"EngineDead\",\"code\":500}}\n\n", doneChunk}
		r := newRig(t, proxy.Config{}, streams(stream...))
		if _, body := r.post("/v1/chat/completions", `{"model":"m","stream":true}`); body != strings.Join(stream, "") {
			t.Errorf("the engine's own words were changed: %q", body)
		}
		if s := r.last(1); s.Outcome != fleet.EngineError {
			t.Errorf("outcome %s", s.Outcome)
		}
	})
}

// lone makes each line end a carriage return alone, which the standard of event streams allows.
func lone(stream string) string { return strings.ReplaceAll(stream, "\n", "\r") }

func TestAnswerShorterThanItsLength(t *testing.T) {
	short := func(length, sent int) engineHandler {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(length))
			_, _ = io.WriteString(w, strings.Repeat("x", sent))
		}
	}
	r := newRig(t, proxy.Config{}, short(100, 50), answers(200, chatAnswer))
	if _, body := r.post("/v1/chat/completions", chatBody); body != chatAnswer {
		t.Errorf("a short answer that broke off was not asked for elsewhere: %q", body)
	}
	r = newRig(t, proxy.Config{}, short(100_000, 50_000), answers(200, chatAnswer))
	if _, body := r.post("/v1/chat/completions", chatBody); !strings.Contains(body, "!") {
		t.Errorf("client took a part for the whole: %d bytes", len(body))
	}
}

// TestAnswerOfUnknownLengthThatIsCut: where the end of the connection is that of the answer, a server that dies ends it
// as one that is ready does. What is no whole JSON value is not taken for it.
func TestAnswerOfUnknownLengthThatIsCut(t *testing.T) {
	closes := func(body string) engineHandler {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // to close with something unread resets the connection
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"+body)
			_ = conn.Close()
		}
	}
	for body, whole := range map[string]bool{
		chatAnswer: true, chatAnswer + "\r\n\r\n": true, `[{"embedding":[1]}]`: true,
		`{"choices":[{"message":{"content":"so`: false, `{"choices":[{"text":"so far ` + "\n": false,
		`{"choices":[{"message":{"content":"so"}}]`:            false,
		`{"choices":[{"logprobs":NaN}]} `:                      true,
		"{\"choices\":[\n{\"message\":{\"content\":\"so\"}}]}": true, // its last line ends more than it begins
	} {
		r := newRig(t, proxy.Config{}, closes(body))
		_, got := r.post("/v1/chat/completions", chatBody)
		if cut := got != body; cut == whole {
			t.Errorf("%q: the client got %q", body, got)
		}
		if o := r.last(1).Outcome; (o == fleet.OK) != whole {
			t.Errorf("%q: outcome %s", body, o)
		}
	}
}

// TestEngineThatRefusesAndIsSilent: vLLM after SIGTERM closes its port and leaves open requests hanging.
func TestEngineThatRefusesAndIsSilent(t *testing.T) { bubble(t, engineThatRefusesAndIsSilent) }

func engineThatRefusesAndIsSilent(t *testing.T) {
	silent := func(w http.ResponseWriter, req *http.Request) {
		streams(chunk("one"))(w, req)
		<-req.Context().Done()
	}
	r := newRig(t, proxy.Config{Refusing: 100 * time.Millisecond, Idle: time.Hour}, silent)
	go func() {
		r.waitForLoad("e0")
		r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Refused: true, Detail: "connection refused"}})
	}()
	if _, body := r.post("/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user",`+
		`"content":"some words to prefill"}]}`); !strings.Contains(body, "refuses connections") {
		t.Errorf("got %q", body)
	}
}

func (r *rig) waitForLoad(endpoint string) {
	for range patience {
		for _, s := range r.fleet.Status() {
			if s.Endpoint.Name == endpoint && s.Load.Requests > 0 && s.Load.PrefillTokens == 0 {
				return
			}
		}
		time.Sleep(pause)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	r := newRig(t, proxy.Config{BodyBytes: 1000}, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	long := strings.Repeat("x", 2000)
	for _, tt := range []struct {
		name, body string
		header     []string
		status     int
		code       string
	}{
		{"not JSON", `hello`, nil, 400, "invalid_json"},
		{"cut JSON", `{"model":"m"`, nil, 400, "invalid_json"},
		{"two values", `{} {}`, nil, 400, "invalid_json"},
		{"an array", `[]`, nil, 400, "invalid_body"},
		{"null", `null`, nil, 400, "invalid_body"},
		{"nothing", ``, nil, 400, "empty_body"},
		{"a model that is no string", `{"model":1}`, nil, 400, "invalid_field"},
		{"a stream that is no boolean", `{"model":"m","stream":"yes"}`, nil, 400, "invalid_field"},
		{"too large", `{"x":"` + long + `"}`, nil, 413, "request_too_large"},
		{"gzip", chatBody, []string{"Content-Encoding", "gzip"}, 415, "unsupported_encoding"},
		{"unknown model", `{"model":"gpt-4"}`, nil, 404, "model_not_found"},
		{"no model, several served", `{"messages":[]}`, nil, 400, "model_required"},
		{"pin while pinning is off", chatBody, []string{"X-Warmpath-Pin", "e0"}, 400, "pinning_off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, body := r.post("/v1/chat/completions", tt.body, tt.header...)
			var e struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil || res.StatusCode != tt.status ||
				e.Error.Code != tt.code || e.Error.Message == "" || e.Error.Type == "" {
				t.Errorf("got %d %s (%v), want %d %s", res.StatusCode, body, err, tt.status, tt.code)
			}
		})
	}
	t.Run("too large, length unknown", func(t *testing.T) {
		res, body := r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + long + "\r\n0\r\n\r\n")
		if res == nil || res.StatusCode != 413 {
			t.Errorf("got %v %s", res, body)
		}
	})
	t.Run("a slow client", bubbled(func(t *testing.T) {
		r := newRig(t, proxy.Config{BodyBytes: 1000, ReadBody: 200 * time.Millisecond},
			func(http.ResponseWriter, *http.Request) { reached.Add(1) })
		res, body := r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
		if res == nil || res.StatusCode != 408 || !isOpenAIError(body) {
			t.Errorf("got %v %s", res, body)
		}
	}))
	t.Run("an upload that breaks off", func(t *testing.T) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"mod")
		conn.Close()
	})
	t.Run("a header bomb", func(t *testing.T) {
		res, _ := r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Bomb: " +
			strings.Repeat("y", 2<<20) + "\r\n\r\n")
		if res != nil && res.StatusCode != 431 {
			t.Errorf("got %v", res.Status)
		}
	})
	if reached.Load() != 0 {
		t.Errorf("bad input reached an engine %d times", reached.Load())
	}
	if res, body := r.post("/v1/messages", "nope"); res.StatusCode != 400 || !strings.Contains(body, `"type":"error"`) {
		t.Errorf("Anthropic shape: %d %s", res.StatusCode, body)
	}
	if res, body := r.post("/api/chat", "nope"); res.StatusCode != 400 || !strings.HasPrefix(body, `{"error":"`) {
		t.Errorf("Ollama shape: %d %s", res.StatusCode, body)
	}
}

func TestNoEndpoint(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(200, chatAnswer))
	if res, _ := r.do("GET", "/readyz", ""); res.StatusCode != 200 {
		t.Errorf("readyz %d", res.StatusCode)
	}
	r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Detail: "health answered 500"}})
	res, body := r.post("/v1/chat/completions", chatBody)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "health answered 500") ||
		!isOpenAIError(body) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	if res, body := r.do("GET", "/readyz", ""); res.StatusCode != 503 ||
		!strings.Contains(body, "health answered 500") {
		t.Errorf("readyz %d %s", res.StatusCode, body)
	}
	if res, _ := r.do("GET", "/healthz", ""); res.StatusCode != 200 {
		t.Errorf("healthz %d", res.StatusCode)
	}
}

func TestShutdownEndsStreamsAtTheDeadline(t *testing.T) {
	started := make(chan bool)
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		streams(chunk("one"))(w, req)
		close(started)
		<-req.Context().Done()
	})
	go func() {
		<-started
		r.waitForLoad("e0")
		r.proxy.Drain()
		if res, _ := r.post("/v1/chat/completions", chatBody); res.StatusCode != 503 {
			t.Errorf("a new request during drain: %d", res.StatusCode)
		}
		r.proxy.Abort()
	}()
	_, body := r.post("/v1/chat/completions",
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"some words to prefill"}]}`)
	if !strings.HasPrefix(body, chunk("one")) || !strings.Contains(body, "shutting down") {
		t.Errorf("got %q", body)
	}
}

func TestUpgradeIsPassedThrough(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "echo" {
			t.Errorf("engine got %v", req.Header)
		}
		conn, rw, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "you said "+line)
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn,
		"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v %v", res, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, _ := in.ReadString('\n'); line != "you said hello\n" {
		t.Errorf("got %q", line)
	}
}

// TestManyClientsLeaveAtRandom: whatever happens, all books return to zero (checked when the rig ends).
func TestManyClientsLeaveAtRandom(t *testing.T) {
	engine := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 20 {
			if _, err := io.WriteString(w, chunk("x")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, doneChunk)
	}
	r := newRig(t, proxy.Config{}, engine, cuts(chunk("x")), answers(503, "{}"), engine)
	const clients, each = 16, 25
	done := make(chan bool)
	for c := range clients {
		go func() {
			defer func() { done <- true }()
			for i := range each {
				ctx, leave := context.WithCancel(context.Background())
				req, _ := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/chat/completions",
					strings.NewReader(fmt.Sprintf(`{"model":"m","stream":true,"session_id":"s%d-%d"}`, c, i)))
				res, err := r.client.Do(req)
				if err == nil {
					buf := make([]byte, 64*(i%7))
					_, _ = io.ReadFull(res.Body, buf)
					res.Body.Close()
				}
				leave()
			}
		}()
	}
	for range clients {
		<-done
	}
}

func isOpenAIError(body string) bool {
	var e struct {
		Error *struct{ Message, Type, Code string }
	}
	return json.Unmarshal([]byte(body), &e) == nil && e.Error != nil && e.Error.Message != "" && e.Error.Type != "" &&
		e.Error.Code != ""
}

// TestWorkThatLeavesNothingIsRepeated: what has no API of its own here and only computes goes to another engine too,
// when one fails, in whatever way; what may leave something behind, or is not known, does not.
func TestWorkThatLeavesNothingIsRepeated(t *testing.T) {
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n"
	fails := map[string]engineHandler{
		"500":              answers(500, `{"error":{"message":"died"}}`),
		"503":              answers(503, `{"error":{"message":"full"}}`),
		"breaks off":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a page":           answersAs("text/html", "<html></html>"),
		"an empty object":  answers(200, "{}"),
		"no content":       answers(200, ""),
		"an error and 200": answers(200, `{"error":{"message":"died","code":500}}`),
	}
	for _, path := range []string{
		"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/classify", "/pooling", "/tokenize",
		"/detokenize", "/v1/moderations", "/v1/images/generations", "/v1/images/edits", "/v1/audio/speech",
		"/v1/audio/transcriptions", "/v1/audio/translations", "/completion", "/infill", "/embedding",
		"/apply-template", "/encode", "/api/show", "/v1/realtime/client_secrets", "/v1/files",
	} {
		repeats := path != "/v1/realtime/client_secrets" && path != "/v1/files"
		for name, fail := range fails {
			t.Run(path+" "+name, func(t *testing.T) {
				var asked atomic.Int32
				r := newRig(t, proxy.Config{Paths: paths(t, "POST /v1/files")}, fail,
					func(w http.ResponseWriter, req *http.Request) {
						asked.Add(1)
						answers(200, chatAnswer)(w, req)
					})
				body, media := `{"model":"m","input":"a"}`, "application/json"
				if strings.HasPrefix(path, "/v1/audio/tr") || path == "/v1/images/edits" {
					body, media = form, "multipart/form-data; boundary=b"
				}
				for range 4 {
					res, got := r.post(path, body, "Content-Type", media)
					if repeats && (res.StatusCode != 200 || got != chatAnswer) {
						t.Fatalf("client got %d %s", res.StatusCode, got)
					}
				}
				if n := asked.Load(); !repeats && name != "503" && n == 4 {
					t.Errorf("all %d requests were answered elsewhere", n)
				}
				r.booksBalance()
			})
		}
	}
}

// answersAs replies with a whole answer of a media type.
func answersAs(media, body string) engineHandler {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	}
}
