package proxy_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// is tells the router what kind of engine an endpoint is.
func (r *rig) is(endpoint string, kind fleet.Kind) {
	r.fleet.Observe(route.Probed{Endpoint: endpoint, Report: fleet.Report{Healthy: true, Kind: kind}})
}

// asks is an engine that writes down what it is sent, and sends usage in a stream when it is asked to.
type asks struct {
	mu     sync.Mutex
	bodies []string
	coding []string // Accept-Encoding of each request
	answer engineHandler
}

func (a *asks) serve(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.bodies = append(a.bodies, string(b))
	a.coding = append(a.coding, strings.Join(r.Header.Values("Accept-Encoding"), "|"))
	a.mu.Unlock()
	switch {
	case a.answer != nil:
		a.answer(w, r)
	case strings.Contains(string(b), `"include_usage":true`):
		streams(chunk("one"), usageChunk[:40], usageChunk[40:]+doneChunk)(w, r)
	default:
		streams(chunk("one"), doneChunk)(w, r)
	}
}

func (a *asks) got() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.bodies)
}

const (
	plainStream = `{"model":"m","stream":true}`
	askedStream = `{"stream_options":{"include_usage":true},"model":"m","stream":true}`
	wantStream  = "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\ndata: [DONE]\n\n"
)

// TestUsageIsAskedForAndTakenOut: in front of each kind of engine a client that did not ask gets the bytes that it gets
// when the router does not ask either, and the router knows the usage all the same.
func TestUsageIsAskedForAndTakenOut(t *testing.T) {
	varying := regexp.MustCompile(`"(id|created)":("[^"]*"|\d+)|"timings":\{[^}]*\}`)
	for _, kind := range []fleet.Kind{
		fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama,
	} {
		t.Run(string(kind), func(t *testing.T) {
			e, err := enginetest.New(enginetest.Options{Dialect: kind, Models: []string{"m"}, Seed: 1, Speed: 50})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			r, off := newRig(t, proxy.Config{}, e.ServeHTTP), newRig(t, proxy.Config{NoUsage: true}, e.ServeHTTP)
			r.is("e0", kind)
			off.is("e0", kind)
			text := strings.Repeat("a long prompt of which blocks are cached, ", 40)
			chat := `{"model":"m","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"` + text + `"}]}`
			completion := `{"model":"m","stream":true,"max_tokens":5,"prompt":"` + text + `"}`
			for i, req := range []struct{ path, body string }{
				{"/v1/chat/completions", chat},
				{"/v1/chat/completions", chat},
				{"/v1/completions", completion},
				{"/v1/completions", completion},
			} {
				_, want := off.post(req.path, req.body)
				res, got := r.post(req.path, req.body)
				if res.StatusCode != 200 || varying.ReplaceAllString(got, "") != varying.ReplaceAllString(want, "") ||
					strings.Contains(got, `"usage":{`) {
					t.Errorf("%s: got %d\n%s\nwant\n%s", req.path, res.StatusCode, got, want)
				}
				u := r.last(i + 1).Usage
				if kind == fleet.KindOllama {
					if chatted := i < 2; (u.PromptTokens > 0) != chatted {
						t.Errorf("%s: usage %+v", req.path, u)
					}
					continue
				}
				if u.PromptTokens == 0 || u.OutputTokens != 5 || !u.CachedKnown || u.CachedTokens == 0 {
					t.Errorf("%s: usage %+v, the prompt was sent before", req.path, u)
				}
				if quiet := off.last(i + 1).Usage; kind != fleet.KindLlamaCpp && quiet != (fleet.Usage{}) {
					t.Errorf("%s: nobody asked, and yet the engine says %+v", req.path, quiet)
				}
			}
		})
	}
}

// TestWhatIsAsked: which requests are changed, and how.
func TestWhatIsAsked(t *testing.T) {
	same := ""
	for _, tt := range []struct{ name, path, body, want string }{
		{"a stream", "/v1/chat/completions", plainStream, askedStream},
		{"completions", "/v1/completions", plainStream, askedStream},
		{"no stream", "/v1/chat/completions", `{"model":"m"}`, same},
		{"the client asks", "/v1/chat/completions", streamBody, same},
		{
			"the client says no", "/v1/chat/completions",
			`{"model":"m","stream":true,"stream_options":{"x":1,"include_usage":false}}`,
			`{"model":"m","stream":true,"stream_options":{"x":1,"include_usage":true}}`,
		},
		{
			"null options", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":null}`,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		},
		{
			"empty options, which vLLM takes for yes", "/v1/chat/completions",
			`{"model":"m","stream":true,"stream_options":{}}`, same,
		},
		{"options without it", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"x":1}}`, same},
		{
			"usage in every chunk", "/v1/chat/completions",
			`{"model":"m","stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true}}`, same,
		},
		{
			"what a lax engine takes for true", "/v1/chat/completions",
			`{"model":"m","stream":true,"stream_options":{"include_usage":"yes"}}`, same,
		},
		{"options that are no object", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":[]}`, same},
		{
			"several answers", "/v1/chat/completions", `{"model":"m","stream":true,"n":3}`,
			`{"stream_options":{"include_usage":true},"model":"m","stream":true,"n":3}`,
		},
		{"responses", "/v1/responses", plainStream, same},
		{"messages", "/v1/messages", plainStream, same},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &asks{answer: streams(chunk("one"), doneChunk, "data: {\"type\":\"response.completed\"}\n\n",
				"data: {\"type\":\"message_stop\"}\n\n")}
			r := newRig(t, proxy.Config{}, e.serve)
			r.post(tt.path, tt.body, "Accept-Encoding", "gzip, deflate")
			want := tt.want
			if want == same {
				want = tt.body
			}
			if got := e.got(); len(got) != 1 || got[0] != want || e.coding[0] != "identity" {
				t.Errorf("engine got %q, encodings %q, want %s", got, e.coding, want)
			}
		})
	}
}

// TestAnswersThatAreReadComeUncompressed: an engine, or a proxy before it, compresses for clients that take it, as most
// libraries say; then usage, errors, end marks and ids could not be read. Paths whose answers mean nothing to the
// router may be compressed.
func TestAnswersThatAreReadComeUncompressed(t *testing.T) {
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, "identity"},
		{"POST", "/v1/chat/completions", streamBody, "identity"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"x"}`, "identity"},
		{"POST", "/v1/messages", `{"model":"m","messages":[],"max_tokens":1}`, "identity"},
		{"POST", "/v1/messages/count_tokens", `{"model":"m","messages":[]}`, "identity"},
		{"POST", "/v1/responses", `{"model":"m","input":"x"}`, "identity"},
		{"POST", "/v1/embeddings", `{"model":"m","input":"x"}`, "identity"},
		{"POST", "/api/chat", `{"model":"m","messages":[]}`, "identity"},
		{"POST", "/api/generate", `{"model":"m","prompt":"x"}`, "identity"},
		{"POST", "/generate", `{"text":"x"}`, "identity"},
		{"POST", "/rerank", `{"model":"m","query":"x","documents":[]}`, "gzip, br"},
		{"GET", "/version", "", "gzip, br"},
	} {
		var got string
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			got = strings.Join(req.Header.Values("Accept-Encoding"), "|")
			_, _ = io.WriteString(w, "{}")
		})
		r.do(tt.method, tt.path, tt.body, "Accept-Encoding", "gzip, br")
		if got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}

// TestUsageInPieces: the chunk that comes in pieces is taken out whole; a client that asked gets it, once.
func TestUsageInPieces(t *testing.T) {
	e := &asks{}
	r := newRig(t, proxy.Config{}, e.serve)
	if _, body := r.post("/v1/chat/completions", plainStream); body != wantStream {
		t.Errorf("got %q", body)
	}
	s := r.last(1)
	if s.Usage != (fleet.Usage{PromptTokens: 20, CachedTokens: 16, OutputTokens: 2, CachedKnown: true}) ||
		s.Outcome != fleet.OK || s.FirstByte.IsZero() {
		t.Errorf("told %+v", s)
	}
	if s.BytesOut != int64(len(wantStream)) {
		t.Errorf("%d bytes told, %d sent", s.BytesOut, len(wantStream))
	}
	if _, body := r.post("/v1/chat/completions", streamBody); body != chunk("one")+usageChunk+doneChunk {
		t.Errorf("a client that asked got %q", body)
	}
	if s := r.last(2); s.Usage.CachedTokens != 16 {
		t.Errorf("told %+v", s)
	}
}

// TestUsageAfterARetry: each endpoint is asked according to its own kind.
func TestUsageAfterARetry(t *testing.T) {
	for kind, want := range map[fleet.Kind]string{fleet.KindSGLang: askedStream, fleet.KindOther: plainStream} {
		bad, good := &asks{answer: answers(500, `{}`)}, &asks{}
		r := newRig(t, proxy.Config{}, bad.serve, good.serve)
		r.is("e1", kind)
		if _, body := r.post("/v1/chat/completions", plainStream); body != wantStream {
			t.Errorf("%s: got %q", kind, body)
		}
		if got := good.got(); len(got) != 1 || got[0] != want || len(bad.got()) != 1 || bad.got()[0] != askedStream {
			t.Errorf("%s: engines got %q and %q", kind, bad.got(), got)
		}
		if s := r.last(1); s.Attempts != 2 || s.Usage.CachedKnown != (want == askedStream) {
			t.Errorf("%s: told %+v", kind, s)
		}
	}
}

// TestEngineRefusesStreamOptions: the client of an old engine notices nothing, and the engine is left in peace.
func TestEngineRefusesStreamOptions(t *testing.T) {
	for _, status := range []int{400, 422} {
		e := &asks{}
		e.answer = func(w http.ResponseWriter, req *http.Request) {
			if got := e.got(); strings.Contains(got[len(got)-1], "stream_options") {
				answers(status, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`)(w,
					req)
				return
			}
			streams(chunk("one"), doneChunk)(w, req)
		}
		r := newRig(t, proxy.Config{}, e.serve)
		for i := range 2 {
			if res, body := r.post("/v1/chat/completions", plainStream); res.StatusCode != 200 || body != wantStream {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
			if s := r.last(i + 1); s.Attempts != 1 || s.Outcome != fleet.OK {
				t.Errorf("told %+v", s)
			}
		}
		if got := e.got(); !slices.Equal(got, []string{askedStream, plainStream, plainStream}) {
			t.Errorf("engine got %q", got)
		}
		// A client that asks by itself gets the engine's own answer.
		if res, body := r.post("/v1/chat/completions", streamBody); res.StatusCode != status ||
			!strings.Contains(body, "Unrecognized") {
			t.Errorf("got %d %q", res.StatusCode, body)
		}
	}
}

// TestOtherErrorsOfTheClient: they reach it as they are, and are no reason not to ask.
func TestOtherErrorsOfTheClient(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		calls         int
	}{
		{"of another kind", "max_tokens is too large", 1},
		{"one that quotes the request", "bad request: stream_options and all the rest", 2},
		{"a long one", strings.Repeat("x", 100_000), 1},
	} {
		e := &asks{answer: answers(400, tt.message)}
		r := newRig(t, proxy.Config{}, e.serve)
		if res, body := r.post("/v1/chat/completions", plainStream); res.StatusCode != 400 || body != tt.message {
			t.Errorf("%s: got %d %.80q", tt.name, res.StatusCode, body)
		}
		if s := r.last(1); s.Outcome != fleet.ClientError || s.Attempts != 1 || len(e.got()) != tt.calls {
			t.Errorf("%s: told %+v, %d calls", tt.name, s, len(e.got()))
		}
		e.answer = nil
		if _, body := r.post("/v1/chat/completions", plainStream); body != wantStream ||
			e.got()[tt.calls] != askedStream {
			t.Errorf("%s: afterwards got %q", tt.name, body)
		}
	}
}

// TestEngineOfAnotherKind is asked once it has shown that it can be.
func TestEngineOfAnotherKind(t *testing.T) {
	e := &asks{}
	r := newRig(t, proxy.Config{}, e.serve)
	r.is("e0", fleet.KindOther)
	for i, want := range []string{plainStream, plainStream, streamBody, askedStream} {
		body := plainStream
		if want == streamBody {
			body = streamBody
		}
		_, got := r.post("/v1/chat/completions", body)
		if e.got()[i] != want || body == plainStream && got != wantStream {
			t.Errorf("request %d: engine got %q, client %q", i, e.got()[i], got)
		}
	}
	within := &asks{answer: streams(`data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}`+"\n\n", doneChunk)}
	r = newRig(t, proxy.Config{}, within.serve)
	r.is("e0", fleet.KindOther)
	r.post("/v1/chat/completions", streamBody)
	r.post("/v1/chat/completions", plainStream)
	if got := within.got(); got[1] != plainStream {
		t.Errorf("usage in an ordinary chunk cannot be taken out, and yet the engine got %q", got[1])
	}
}

// TestAnswersThatAreLeftAlone: what is compressed in spite of all, or is no stream.
func TestAnswersThatAreLeftAlone(t *testing.T) {
	stream := chunk("one") + usageChunk + doneChunk
	var zipped strings.Builder
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, stream)
	_ = z.Close()
	for name, answer := range map[string]engineHandler{
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, zipped.String())
		},
		"no stream": answers(200, stream),
	} {
		r := newRig(t, proxy.Config{}, answer)
		want := stream
		if name == "compressed" {
			want = zipped.String()
		}
		if _, got := r.post("/v1/chat/completions", plainStream, "Accept-Encoding", "gzip"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// script is a transport that answers each request at once with a stream, one chunk a read.
type script struct{ chunks []string }

func (s script) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	return &http.Response{
		StatusCode: 200, ContentLength: -1, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: &scriptBody{chunks: s.chunks}, Request: req,
	}, nil
}

type scriptBody struct{ chunks []string }

func (b *scriptBody) Read(p []byte) (int, error) {
	if len(b.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.chunks[0])
	b.chunks = b.chunks[1:]
	return n, nil
}

func (*scriptBody) Close() error { return nil }

// sink is a client that reads everything at no cost.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}

// BenchmarkAsking is one stream of 64 chunks and its usage through the proxy, without sockets.
func BenchmarkAsking(b *testing.B) {
	word := `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	chunks := append(slices.Repeat([]string{word}, 64), usageChunk, doneChunk)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` +
		strings.Repeat("some text ", 100) + `"}]}`
	for name, cfg := range map[string]proxy.Config{"asks": {}, "leaves alone": {NoUsage: true}} {
		b.Run(name, func(b *testing.B) {
			r := newFleet(b, cfg, script{chunks}, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
			b.ReportAllocs()
			for b.Loop() {
				req, _ := http.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
				r.proxy.ServeHTTP(&sink{http.Header{}}, req)
			}
		})
	}
}
