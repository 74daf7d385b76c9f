package proxy_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/external"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

const comment = ": held\n\n"

// commentsEvery is the interval of comments in these tests, and blocked how long a request stands in the queue.
const (
	commentsEvery = 10 * time.Second
	blocked       = 35 * time.Second
)

// newBlocked is a router of two engines, whose only tenant may have one request under way, and has: it ends after a
// time.
func newBlocked(t *testing.T, cfg proxy.Config, engine wire) *rig {
	t.Helper()
	cfg.Quota = quota.New(time.Now(), quota.Config{
		Tenant: true, Each: quota.Limits{QueueClass: fleet.QueueClass{MaxRunning: 1}},
	})
	cfg.Tenants = &identity.Tenants{Header: "X-Tenant-Id"}
	r := newRouter(t, cfg, wire(func(q *http.Request) (*http.Response, error) {
		if q.Header.Get("X-Session-Id") != "blocks" {
			return engine(q)
		}
		time.Sleep(blocked)
		return says(chatAnswer)
	}), route.Config{Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10},
		[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1}},
		func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
	go func() {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
			strings.NewReader(chatBody))
		req.Header.Set("X-Session-Id", "blocks")
		r.proxy.ServeHTTP(httptest.NewRecorder(), req)
	}()
	synctest.Wait()
	return r
}

// waits are the ways in which a request waits at the router, each with an interval of comments of which the wait has
// three.
var waits = []struct {
	name  string
	rig   func(t *testing.T, cfg proxy.Config, engine wire) *rig
	every time.Duration
}{{"queued", newBlocked, commentsEvery}, {"held", newShort, 300 * time.Millisecond}}

// replies is an engine's answer.
func replies(status int, media, body string, header ...string) (*http.Response, error) {
	h := http.Header{"Content-Type": {media}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// streamingAPIs are those whose streams have events, with a stream of each.
func streamingAPIs() []struct{ path, body, stream string } {
	long := strings.Repeat("abc ", 30_000)
	return []struct{ path, body, stream string }{
		{
			"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + long + `"}]}`,
			chunk("hi") + doneChunk,
		},
		{
			"/v1/completions", `{"model":"m","stream":true,"prompt":"` + long + `"}`,
			"data: {\"choices\":[{\"index\":0,\"text\":\"hi\"}]}\n\n" + doneChunk,
		},
		{
			"/v1/responses", `{"model":"m","stream":true,"input":"` + long + `"}`,
			strings.Join(responsesForm.data, "") + responsesForm.mark,
		},
		{
			"/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"` + long +
				`"}]}`, strings.Join(messagesForm.data, "") + messagesForm.mark,
		},
		{"/generate", `{"stream":true,"text":"` + long + `"}`, strings.Join(generateForm.data, "") + generateForm.mark},
	}
}

// isErrorEvent checks that a text is one event, the error of an API's streams, and returns its data.
func isErrorEvent(t *testing.T, path, text string) string {
	t.Helper()
	data, ok := text, true
	if path == "/v1/messages" || path == "/v1/responses" {
		data, ok = strings.CutPrefix(text, "event: error\n")
	}
	data, is := strings.CutPrefix(data, "data: ")
	data, ends := strings.CutSuffix(data, "\n\n")
	var v struct {
		Type     string
		Sequence *int `json:"sequence_number"`
		Message  string
		Error    struct{ Message, Type string }
	}
	err := json.Unmarshal([]byte(data), &v)
	if !ok || !is || !ends || strings.Contains(data, "\n") || err != nil || v.Error.Message == "" ||
		v.Error.Type == "" {
		t.Errorf("%s got %q, %v; want an error as one event", path, text, err)
	}
	if path == "/v1/messages" && v.Type != "error" ||
		path == "/v1/responses" && (v.Type != "error" || v.Sequence == nil || v.Message != v.Error.Message) {
		t.Errorf("%s got %q, which is not its form of an error", path, text)
	}
	return data
}

// TestComments: a client of an event stream whose request waits at the router gets comments at an interval, and then
// the engine's stream, or an event with the error, whatever ends the wait and whatever the engine says. Its place is
// given back once.
func TestComments(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, chunk("hi"))
	_ = z.Close()
	const vllm = `{"error": {"message": "too long",
		"type": "BadRequestError", "param": null, "code": "context_length_exceeded"}}`
	for _, tt := range []struct {
		name   string
		engine func(stream string, first bool) (*http.Response, error)
		header string // and its value, "" for none
		leaves bool   // the client, or else the router shuts down
		stops  bool
		says   []string // in the error; none wants the stream
		wait   string   // in which it can happen, "" for both
	}{
		{name: "placed", engine: func(stream string, _ bool) (*http.Response, error) {
			return replies(200, "text/event-stream", stream)
		}},
		{
			name: "placed after an engine failed", wait: "queued",
			engine: func(stream string, first bool) (*http.Response, error) {
				if first {
					return replies(500, "application/json", `{"error":{"message":"out of memory"}}`)
				}
				return replies(200, "text/event-stream", stream)
			},
		},
		{
			name: "placed after an engine failed with status 200", wait: "queued",
			engine: func(stream string, first bool) (*http.Response, error) {
				if first {
					return replies(200, "application/json", `{"error":{"message":"out of memory","code":500}}`)
				}
				return replies(200, "text/event-stream", stream)
			},
		},
		{
			name: "an engine that dislikes it", says: []string{"too long", "context_length_exceeded"},
			engine: func(string, bool) (*http.Response, error) { return replies(400, "application/json", vllm) },
		},
		{
			name: "an engine that dislikes it in other words", says: []string{"no such field", "invalid_request_error"},
			engine: func(string, bool) (*http.Response, error) {
				return replies(422, "application/json",
					`{"object":"error","message":"no such field","type":"x","code":422}`)
			},
		},
		{name: "engines that fail", says: []string{"CUDA"}, engine: func(string, bool) (*http.Response, error) {
			return replies(500, "text/plain", "CUDA\nerror")
		}},
		{name: "engines that are full", says: []string{"full"}, engine: func(string, bool) (*http.Response, error) {
			return replies(503, "application/json", `{"error":{"message":"full","type":"x","code":503}}`)
		}},
		{
			name: "engines that break off", says: []string{"endpoint_failed", "api_error"},
			engine: func(string, bool) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		},
		{
			name: "an engine that does not stream", says: []string{"no event stream"},
			engine: func(string, bool) (*http.Response, error) { return replies(200, "application/json", chatAnswer) },
		},
		{
			name: "an engine that compresses", says: []string{"no event stream"},
			engine: func(string, bool) (*http.Response, error) {
				return replies(200, "text/event-stream", zipped.String(), "Content-Encoding", "gzip")
			},
		},
		{name: "queue timeout", wait: "queued", header: "X-Warmpath-Wait 25", says: []string{"longest wait"}},
		{name: "deadline", wait: "queued", header: "X-Warmpath-Deadline 25", says: []string{"X-Warmpath-Deadline"}},
		{name: "shut down", stops: true, says: []string{"shutting down"}},
		{name: "left", leaves: true},
	} {
		for _, api := range streamingAPIs() {
			for _, wait := range waits {
				if tt.wait != "" && tt.wait != wait.name {
					continue
				}
				t.Run(strings.Join([]string{tt.name, api.path, wait.name}, " "), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var calls atomic.Int32
						r := wait.rig(t, proxy.Config{
							Comments: wait.every, Details: true,
						}, func(q *http.Request) (*http.Response, error) {
							_, _ = io.Copy(io.Discard, q.Body)
							if e := q.Header.Get("Accept-Encoding"); e != "" && e != "identity" {
								t.Errorf("the engine may compress its answer: Accept-Encoding %s", e)
							}
							return tt.engine(api.stream, calls.Add(1) == 1)
						})
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						run, stop := context.WithCancel(t.Context())
						go r.proxy.Run(run)
						req := httptest.NewRequestWithContext(ctx, http.MethodPost, api.path,
							strings.NewReader(api.body))
						req.Header.Set("X-Session-Id", "d")
						req.Header.Set("Accept-Encoding", "gzip")
						if name, value, ok := strings.Cut(tt.header, " "); ok {
							req.Header.Set(name, value)
						}
						w, over := httptest.NewRecorder(), make(chan any)
						go func() {
							defer func() { over <- recover() }()
							r.proxy.ServeHTTP(w, req)
						}()
						if tt.leaves || tt.stops {
							time.Sleep(wait.every * 5 / 2)
							if tt.leaves {
								leave()
							} else {
								r.proxy.Drain()
								r.proxy.Abort()
							}
						}
						if failed := <-over; (failed != nil) != tt.leaves {
							t.Errorf("the handler ended with %v", failed)
						}
						time.Sleep(time.Minute) // the request that blocked ends
						stop()
						synctest.Wait()
						r.booksBalance()
						served := r.servedAs("d")
						n := int(served.Queued / wait.every)
						if n < 2 {
							t.Fatalf("it waited %v only", served.Queued)
						}
						rest, ok := strings.CutPrefix(w.Body.String(), strings.Repeat(comment, n))
						if !ok || w.Code != 200 ||
							!strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
							t.Errorf("after %v the client has %d %v %q, want %d comments",
								served.Queued, w.Code, w.Header(), w.Body, n)
						}
						if tt.leaves {
							if rest != "" || served.Outcome != fleet.ClientGone || served.Status != 499 {
								t.Errorf("a client that left got %q, and counts as %v %d",
									rest, served.Outcome, served.Status)
							}
							return
						}
						if served.Status != 200 || served.BytesOut != int64(w.Body.Len()) {
							t.Errorf("status %d and %d bytes are logged, want 200 and %d",
								served.Status, served.BytesOut, w.Body.Len())
						}
						if len(tt.says) == 0 {
							if rest != api.stream {
								t.Errorf("the client got %q, want %q", rest, api.stream)
							}
							return
						}
						data := isErrorEvent(t, api.path, rest)
						for _, s := range tt.says {
							if !strings.Contains(data, s) &&
								(s != "endpoint_failed" && s != "context_length_exceeded" ||
									api.path != "/v1/messages") {
								t.Errorf("the client got %s, want %q in it", data, s)
							}
						}
					})
				})
			}
		}
	}
}

// servedAs is the story of the request of a session.
func (r *rig) servedAs(session string) (found struct {
	Queued   time.Duration
	Outcome  fleet.Outcome
	Status   int
	BytesOut int64
},
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.served {
		if s.Decision.Session == session {
			found.Queued, found.Outcome, found.Status, found.BytesOut = s.Queued, s.Outcome, s.Status, s.BytesOut
			return found
		}
	}
	r.t.Fatalf("no request of %s was served", session)
	return found
}

// TestNoComments: who must not be told status 200 before the engine answers is not: nothing is configured, the wait is
// shorter, the answer is no event stream, or another carries it. What refuses a request at once does so with its own
// status.
func TestNoComments(t *testing.T) {
	chat := streamingAPIs()[0].body
	for _, tt := range []struct {
		name       string
		every      time.Duration
		path, body string
		header     string
		carried    bool
		status     int
	}{
		{"not configured", 0, "/v1/chat/completions", chat, "", false, 400},
		{"a shorter wait", time.Hour, "/v1/chat/completions", chat, "", false, 400},
		{
			"no stream", 100 * time.Millisecond, "/v1/chat/completions",
			strings.Replace(chat, `"stream":true`, `"stream":false`, 1), "", false, 400,
		},
		{"Ollama", 100 * time.Millisecond, "/api/chat", chat, "", false, 400},
		{
			"Ollama's completions", 100 * time.Millisecond, "/api/generate",
			`{"model":"m","prompt":"` + strings.Repeat("abc ", 30_000) + `"}`, "", false, 400,
		},
		{"carried by another", 100 * time.Millisecond, "/v1/chat/completions", chat, "", true, 502},
		{
			"would be held too long", 100 * time.Millisecond, "/v1/chat/completions", chat,
			"X-Warmpath-Wait 10", false, 429,
		},
	} {
		for _, wait := range waits {
			if tt.status == 429 && wait.name != "held" {
				continue
			}
			t.Run(tt.name+" "+wait.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := wait.rig(t, proxy.Config{Comments: tt.every}, func(*http.Request) (*http.Response, error) {
						return replies(400, "application/json", `{"error":{"message":"too long"}}`)
					})
					ctx := t.Context()
					if tt.carried {
						ctx = external.With(ctx, timed{})
					}
					req := httptest.NewRequestWithContext(ctx, http.MethodPost, tt.path, strings.NewReader(tt.body))
					req.Header.Set("X-Session-Id", "d")
					if name, value, ok := strings.Cut(tt.header, " "); ok {
						req.Header.Set(name, value)
					}
					run, stop := context.WithCancel(t.Context())
					go r.proxy.Run(run)
					w := httptest.NewRecorder()
					r.proxy.ServeHTTP(w, req)
					stop()
					if w.Code != tt.status || strings.Contains(w.Body.String(), comment) {
						t.Errorf("the client got %d %q, want %d without a comment", w.Code, w.Body, tt.status)
					}
					time.Sleep(time.Minute)
					r.booksBalance()
				})
			})
		}
	}
}

// TestNoCommentForAnUpload: a client that sends its prompt for longer than the interval of comments is told no status
// 200 for that, and gets the engine's refusal as it is.
func TestNoCommentForAnUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const refusal = `{"error":{"message":"too long"}}`
		r := newRouter(t, proxy.Config{Comments: commentsEvery}, wire(func(*http.Request) (*http.Response, error) {
			time.Sleep(commentsEvery / 2)
			return replies(400, "application/json", refusal)
		}), route.Config{Policy: func() pick.Policy { return inOrder{} }},
			[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}},
			func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
		w := httptest.NewRecorder()
		r.proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
			&late{strings.NewReader(streamBody), 3 * commentsEvery}))
		if w.Code != 400 || w.Body.String() != refusal {
			t.Errorf("the client got %d %q, want 400 %s", w.Code, w.Body, refusal)
		}
		r.booksBalance()
	})
}

// late is a body whose beginning takes a while.
type late struct {
	io.Reader
	after time.Duration
}

func (l *late) Read(p []byte) (int, error) {
	time.Sleep(l.after)
	l.after = 0
	return l.Reader.Read(p)
}

// TestCommentsWhileTheEngineComputes: comments come too while an engine has the request and sends nothing of an answer,
// with or without its head, at the next one after it has failed as well. None come into an answer that is no stream.
func TestCommentsWhileTheEngineComputes(t *testing.T) {
	const silence = commentsEvery * 12 / 5
	const failed = "CUDA out of memory"
	failure := func() (*http.Response, error) {
		return replies(500, "application/json", `{"error":{"message":"`+failed+`","type":"x"}}`)
	}
	for _, tt := range []struct {
		name     string
		engine   func(stream string, n int32) (*http.Response, error)
		comments int
		says     string // "" for the stream, failed for the error as an event
	}{
		{"before its head", func(stream string, _ int32) (*http.Response, error) {
			time.Sleep(silence)
			return replies(200, "text/event-stream", stream)
		}, 2, ""},
		{"after its head", func(stream string, _ int32) (*http.Response, error) {
			res, err := replies(200, "text/event-stream", "")
			res.Body = io.NopCloser(&late{strings.NewReader(stream), silence})
			return res, err
		}, 2, ""},
		{"and fails, and another takes as long", func(stream string, n int32) (*http.Response, error) {
			time.Sleep(silence)
			if n == 1 {
				return failure()
			}
			return replies(200, "text/event-stream", stream)
		}, 4, ""},
		{"and fails with status 200, and another takes as long", func(stream string, n int32) (*http.Response, error) {
			time.Sleep(silence)
			if n == 1 {
				return replies(200, "application/json", `{"error":{"message":"`+failed+`","type":"x","code":500}}`)
			}
			return replies(200, "text/event-stream", stream)
		}, 4, ""},
		{"and fails, as do all", func(string, int32) (*http.Response, error) {
			time.Sleep(silence)
			return failure()
		}, 4, failed},
		{"and breaks off after its head", func(stream string, n int32) (*http.Response, error) {
			if n > 1 {
				return replies(200, "text/event-stream", stream)
			}
			res, err := replies(200, "text/event-stream", "")
			res.Body = io.NopCloser(&late{iotest.ErrReader(io.ErrUnexpectedEOF), silence})
			return res, err
		}, 2, ""},
		{"after a head that is no stream's", func(string, int32) (*http.Response, error) {
			res, err := replies(200, "application/json", "")
			res.Body = io.NopCloser(&late{strings.NewReader(chatAnswer), silence})
			return res, err
		}, 0, chatAnswer},
	} {
		for _, api := range streamingAPIs() {
			t.Run(tt.name+" "+api.path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var calls atomic.Int32
					engine := func(q *http.Request) (*http.Response, error) {
						_, _ = io.Copy(io.Discard, q.Body)
						return tt.engine(api.stream, calls.Add(1))
					}
					r := newRouter(t, proxy.Config{Comments: commentsEvery}, wire(engine),
						route.Config{Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10}, []fleet.Endpoint{
							{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
						}, func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
					w := httptest.NewRecorder()
					r.proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.path,
						strings.NewReader(api.body)))
					time.Sleep(time.Minute) // none comes after the end
					text := w.Body.String()
					rest, ok := strings.CutPrefix(text, strings.Repeat(comment, tt.comments))
					if !ok || w.Code != 200 || strings.Contains(rest, comment) {
						t.Fatalf("the client got %d %q, want %d comments", w.Code, text, tt.comments)
					}
					if tt.says == failed {
						rest = isErrorEvent(t, api.path, rest)
					}
					want := cmp.Or(tt.says, api.stream)
					if rest != want && (want != failed || !strings.Contains(rest, want)) {
						t.Errorf("the client got %q, want %q", rest, want)
					}
					if got := r.last(1).BytesOut; got != int64(len(text)) {
						t.Errorf("%d bytes are logged, want %d", got, len(text))
					}
					r.booksBalance()
				})
			})
		}
	}
}

// TestCommentsOnTheWire: over a connection comments come while the request waits. A client that leaves then gives its
// place back, and its endpoint is not blamed; for one that stays the connection serves another request afterwards.
func TestCommentsOnTheWire(t *testing.T) {
	ask := func(session string) string {
		return fmt.Sprintf(
			"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
			session, len(streamBody), streamBody)
	}
	for _, leaves := range []bool{false, true} {
		t.Run(fmt.Sprint("leaves ", leaves), bubbled(func(t *testing.T) {
			table := quota.New(time.Now(), quota.Config{
				Tenant: true, Each: quota.Limits{QueueClass: fleet.QueueClass{MaxRunning: 1}},
			})
			var asked atomic.Int32
			r := newRig(t, proxy.Config{
				Comments: commentsEvery, Quota: table, Tenants: &identity.Tenants{Header: "X-Tenant-Id"},
			}, func(w http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				if asked.Add(1) == 1 {
					time.Sleep(blocked)
				}
				streams(chunk("hi"), doneChunk)(w, q)
			})
			go r.post("/v1/chat/completions", streamBody)
			synctest.Wait()
			c := r.open(ask("d"))
			in := bufio.NewReader(c)
			for left := 1; left >= 0; left-- { // two answers on one connection
				began, comments := time.Now(), 0
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("%v %v", res, err)
				}
				lines := bufio.NewReader(res.Body)
				var text string
				for !strings.HasSuffix(text, doneChunk) {
					line, err := lines.ReadString('\n')
					if err != nil {
						t.Fatalf("%v after %q", err, text)
					}
					if text += line; line == ": held\n" {
						if comments++; time.Since(began) > time.Duration(comments)*commentsEvery {
							t.Errorf("comment %d has come after %v", comments, time.Since(began))
						}
					}
					if leaves && comments == 2 {
						_ = c.Close()
						r.eventually("its place is given back",
							func() bool { return r.proxy.Open() == 1 && r.fleet.Stats().Leases == 1 })
						if s := r.fleet.Status()[0]; s.Failures != 0 {
							t.Errorf("its endpoint is blamed for %d failures", s.Failures)
						}
						return
					}
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if want := chunk("hi") + doneChunk; strings.TrimPrefix(text,
					strings.Repeat(comment, comments)) != want {
					t.Errorf("the client got %q, want %q after %d comments", text, want, comments)
				}
				if left > 0 {
					_, _ = io.WriteString(c, ask("e"))
				}
			}
			_ = c.Close()
		}))
	}
}
