package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// until waits for a condition, for ten seconds at most.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range patience {
		if ok() {
			return
		}
		time.Sleep(pause)
	}
	t.Fatalf("waited in vain: %s", what)
}

// stall opens a connection that claims so many bytes of body and sends only these.
func (r *rig) stall(claim int, sent string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", claim, sent); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// TestClaimedLengthIsNotAllocated: what clients say about the length of their bodies costs nothing until the bytes
// come.
func TestClaimedLengthIsNotAllocated(t *testing.T) {
	const clients, most = 200, 64 << 20
	r := newRig(t, proxy.Config{}, answers(200, chatAnswer))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range clients {
		defer r.stall(most, "{").Close()
	}
	until(t, "all bodies are awaited", func() bool {
		return r.proxy.Open() == clients && r.proxy.BodyMemory().Held >= clients
	})
	runtime.ReadMemStats(&after)
	if held := r.proxy.BodyMemory().Held; held > clients*512 {
		t.Errorf("%d bytes held for %d bytes of bodies", held, clients)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > clients*most/100 {
		t.Errorf("%d MB allocated for %d bytes of bodies", grown>>20, clients)
	}
}

// TestMemoryLimit: beyond limits.memory requests are refused, as their API says it, and taken again when there is room.
func TestMemoryLimit(t *testing.T) {
	r := newRig(t, proxy.Config{MemoryBytes: 3 * 1024, BodyBytes: 1 << 20}, answers(200, chatAnswer))
	first, second, third := r.stall(1000, "{"), r.stall(1000, "{"), r.stall(1000, "{")
	defer first.Close()
	defer second.Close()
	until(t, "three bodies are held", func() bool { return r.proxy.BodyMemory().Held == 3*1024 })
	for path, shape := range map[string]string{
		"/v1/chat/completions": `"code":"overloaded"`, "/v1/messages": `"type":"overloaded_error"`,
		"/api/chat": `{"error":"`,
	} {
		res, body := r.post(path, chatBody)
		if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || !strings.Contains(body, shape) ||
			!strings.Contains(body, "limits.memory") {
			t.Errorf("%s: %d %v %s", path, res.StatusCode, res.Header, body)
		}
	}
	if res, body := r.do("GET", "/v1/models", ""); res.StatusCode != 200 {
		t.Errorf("a request without a body: %d %s", res.StatusCode, body)
	}
	third.Close()
	until(t, "one of them is let go of", func() bool { return r.proxy.BodyMemory().Held == 2*1024 })
	if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 {
		t.Errorf("with room again: %d %s", res.StatusCode, body)
	}
	res, body := r.post("/v1/chat/completions", chatOf(strings.Repeat("x", 100<<10), ""))
	if res.StatusCode != 503 || !res.Close {
		t.Errorf("a body that outgrows the room: %d %s, the connection is kept: %v", res.StatusCode, body, !res.Close)
	}
	if m := r.proxy.BodyMemory(); m.Refused != 4 || m.Limit != 3*1024 || m.Held != 2*1024 {
		t.Errorf("figures %+v", m)
	}
}

// panics is a transport with a mistake in it.
type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("broken") }

// TestBodiesAreReleased: on every path the memory of a body is given back, once. bodiesGone and booksBalance look at it
// at the end.
func TestBodiesAreReleased(t *testing.T) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	long := chatOf(strings.Repeat("x", 200<<10), "")
	failing := answers(500, `{"error":{}}`)
	hangs := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	for _, row := range []struct {
		name    string
		cfg     proxy.Config
		engines []engineHandler
		do      func(*rig)
		status  int // of the request told of; 0 when it is none
	}{
		{"success", proxy.Config{}, []engineHandler{answers(200, chatAnswer)}, func(r *rig) {
			r.post("/v1/chat/completions", long)
		}, 200},
		{"nothing to read", proxy.Config{}, []engineHandler{answers(200, chatAnswer)}, func(r *rig) {
			r.post("/v1/chat/completions", "")
		}, 400},
		{"the engine's errors, with retries", proxy.Config{}, []engineHandler{failing, failing, failing}, func(r *rig) {
			r.post("/v1/chat/completions", long)
		}, 500},
		{"a retry that succeeds", proxy.Config{}, []engineHandler{failing, answers(200, chatAnswer)}, func(r *rig) {
			r.post("/v1/chat/completions", long)
		}, 200},
		{"an engine that breaks off", proxy.Config{Retries: -1}, []engineHandler{cuts()}, func(r *rig) {
			r.post("/v1/chat/completions", long)
		}, 502},
		{
			"an engine that breaks off in its answer",
			proxy.Config{Retries: -1},
			[]engineHandler{cuts(chunk("a"))},
			func(r *rig) { r.post("/v1/chat/completions", streamBody) }, 200,
		},
		{
			"an engine that does not answer",
			proxy.Config{Retries: -1, Answer: 50 * time.Millisecond},
			[]engineHandler{hangs},
			func(r *rig) { r.post("/v1/chat/completions", long) }, 504,
		},
		{
			"an engine that does not read",
			proxy.Config{Retries: -1, Answer: 50 * time.Millisecond},
			[]engineHandler{func(w http.ResponseWriter, _ *http.Request) {
				if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
					go func() { <-over; conn.Close() }()
				}
			}},
			func(r *rig) { r.post("/v1/chat/completions", chatOf(strings.Repeat("x", 16<<20), "")) }, 504,
		},
		{
			"an engine that answers before it has read",
			proxy.Config{},
			[]engineHandler{func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Connection", "close")
				_, _ = io.WriteString(w, chatAnswer)
			}},
			func(r *rig) { r.post("/v1/chat/completions", chatOf(strings.Repeat("x", 16<<20), "")) }, 0,
		},
		{"not JSON", proxy.Config{}, []engineHandler{failing}, func(r *rig) {
			r.post("/v1/chat/completions", long[1:])
		}, 400},
		{"no such model", proxy.Config{}, []engineHandler{failing}, func(r *rig) {
			r.post("/v1/chat/completions", strings.Replace(long, `"m"`, `"z"`, 1))
		}, 404},
		{"too large", proxy.Config{BodyBytes: 1000}, []engineHandler{failing}, func(r *rig) {
			r.post("/v1/chat/completions", long)
		}, 413},
		{"too large, length unknown", proxy.Config{BodyBytes: 100 << 10}, []engineHandler{failing}, func(r *rig) {
			r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
				fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long))
		}, 413},
		{"a slow client", proxy.Config{ReadBody: 50 * time.Millisecond}, []engineHandler{failing}, func(r *rig) {
			r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + long[:50_000])
		}, 408},
		{"a client that leaves in its body", proxy.Config{}, []engineHandler{failing}, func(r *rig) {
			conn := r.stall(100_000, long[:50_000])
			until(r.t, "a part has come", func() bool { return r.proxy.BodyMemory().Held > 0 })
			conn.Close()
		}, 0},
		{"a client that leaves before the answer", proxy.Config{}, []engineHandler{hangs}, func(r *rig) {
			conn := r.stall(len(long), long)
			until(r.t, "the engine has it", func() bool { return r.fleet.Stats().Leases == 1 })
			conn.Close()
		}, 499},
		{"an unknown path", proxy.Config{}, []engineHandler{answers(200, "{}")}, func(r *rig) {
			r.post("/unknown", long)
		}, 200},
		{"shutdown", proxy.Config{}, []engineHandler{hangs}, func(r *rig) {
			conn := r.stall(len(long), long)
			defer conn.Close()
			until(r.t, "the engine has it", func() bool { return r.fleet.Stats().Leases == 1 })
			r.proxy.Abort()
			if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 503 {
				r.t.Errorf("got %v, %v", res, err)
			}
		}, 503},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, row.cfg, row.engines...)
			row.do(r)
			if s := r.last(1); row.status != 0 && s.Status != row.status {
				t.Errorf("told as %d (%s), want %d", s.Status, s.Error, row.status)
			}
			r.bodiesGone()
		})
	}
	t.Run("a panic", func(t *testing.T) {
		r := newFleet(t, proxy.Config{}, panics{}, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
		r.listen(t)
		if res, err := r.client.Post(r.url+"/v1/chat/completions",
			"application/json", strings.NewReader(long)); err == nil {
			res.Body.Close()
			t.Errorf("answered %d", res.StatusCode)
		}
		r.bodiesGone()
	})
}

// bodyScheme is an engine over HTTP or TLS, and the transport to it.
func bodyScheme(t *testing.T, scheme string, h engineHandler) (url string, transport http.RoundTripper) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if scheme == "http" {
		s.Start()
		t.Cleanup(s.Close)
		return s.URL, transportOf(t)
	}
	s.EnableHTTP2 = scheme == "h2"
	s.StartTLS()
	t.Cleanup(s.Close)
	tr := s.Client().Transport.(*http.Transport).Clone()
	if scheme == "https" {
		tr.ForceAttemptHTTP2, tr.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	closeIdle(t, tr)
	return s.URL, tr
}

// TestBodiesAreLetGoOf: when an answer has begun, and the engine has the whole request, nothing of the request is kept,
// however long the answer lasts; until then it is kept once, also where it is changed on the way.
func TestBodiesAreLetGoOf(t *testing.T) {
	const streams, size = 8, 3 << 20
	content := strings.Repeat("x", size)
	for _, row := range []struct{ name, body, sent string }{
		{"as it is", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"` + content + `"}]}`, ""},
		{"changed", `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + content + `"}]}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true,"messages":[{"role":"user","content":"` +
			content + `"}]}`},
	} {
		if row.sent == "" {
			row.sent = row.body
		}
		for _, scheme := range []string{"http", "https", "h2"} {
			t.Run(row.name+", "+scheme, func(t *testing.T) {
				begin, end := make(chan struct{}), make(chan struct{})
				letBegin, letEnd := sync.OnceFunc(func() { close(begin) }), sync.OnceFunc(func() { close(end) })
				var asked, wrong atomic.Int32
				url, transport := bodyScheme(t, scheme, func(w http.ResponseWriter, r *http.Request) {
					if b, err := io.ReadAll(r.Body); err != nil || string(b) != row.sent {
						wrong.Add(1)
					}
					asked.Add(1)
					<-begin
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, chunk("a"))
					_ = http.NewResponseController(w).Flush()
					<-end
					_, _ = io.WriteString(w, usageChunk+doneChunk)
				})
				r := newFleet(t, proxy.Config{}, transport, []fleet.Endpoint{{Name: "e0", URL: url, Weight: 1}})
				r.listen(t)
				defer letEnd()
				defer letBegin()
				var wg sync.WaitGroup
				var began, right atomic.Int32
				for range streams {
					wg.Go(func() {
						res, err := r.client.Post(r.url+"/v1/chat/completions", "application/json",
							strings.NewReader(row.body))
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						first := make([]byte, len(chunk("a")))
						_, err = io.ReadFull(res.Body, first)
						began.Add(1)
						if rest, err2 := io.ReadAll(res.Body); err == nil && err2 == nil &&
							string(first) == chunk("a") && strings.HasSuffix(string(rest), doneChunk) {
							right.Add(1)
						}
					})
				}
				until(t, "all engines have read", func() bool { return asked.Load() == streams })
				if held := r.proxy.BodyMemory().Held; held < streams*size || held > streams*(size+size/8) {
					t.Errorf("%d bytes held of %d bodies of %d bytes", held, streams, size)
				}
				letBegin()
				until(t, "all answers have begun", func() bool { return began.Load() == streams })
				until(t, "nothing is held while answers go on", func() bool { return r.proxy.BodyMemory().Held == 0 })
				if s := r.fleet.Stats(); s.Leases != streams {
					t.Errorf("%d leases while answers go on", s.Leases)
				}
				letEnd()
				wg.Wait()
				if wrong.Load() != 0 || right.Load() != streams {
					t.Errorf("%d requests came changed, %d of %d answers were whole",
						wrong.Load(), right.Load(), streams)
				}
			})
		}
	}
}

// longAllocations counts the live pieces of memory of at least so many bytes, which are all in the memory profile. The
// size of the heap tells less: tests before this one leave garbage.
func longAllocations(size int64) (n int64) {
	runtime.GC() // the profile is that of the collection before the last
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 4096)
	have, ok := runtime.MemProfile(records, false)
	for !ok {
		records = make([]runtime.MemProfileRecord, 2*have)
		have, ok = runtime.MemProfile(records, false)
	}
	for _, r := range records[:have] {
		if r.InUseObjects() > 0 && r.InUseBytes()/r.InUseObjects() >= size {
			n += r.InUseObjects()
		}
	}
	return n
}

// TestLetGoBodyIsGarbage: what was let go of can be collected while the answer goes on; nothing that lasts as long as
// the answer refers to it.
func TestLetGoBodyIsGarbage(t *testing.T) {
	const size = 48 << 20
	for _, scheme := range []string{"http", "https"} {
		for name, head := range map[string]string{
			"changed":  `{"model":"m","stream":true,`,
			"as it is": `{"model":"m","stream":true,"stream_options":{"include_usage":true},`,
		} {
			t.Run(scheme+", "+name, func(t *testing.T) {
				begin, end := make(chan struct{}), make(chan struct{})
				letBegin, letEnd := sync.OnceFunc(func() { close(begin) }), sync.OnceFunc(func() { close(end) })
				url, transport := bodyScheme(t, scheme, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					<-begin
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, chunk("a"))
					_ = http.NewResponseController(w).Flush()
					<-end
					_, _ = io.WriteString(w, usageChunk+doneChunk)
				})
				r := newFleet(t, proxy.Config{}, transport, []fleet.Endpoint{{Name: "e0", URL: url, Weight: 1}})
				r.listen(t)
				defer letEnd()
				defer letBegin()
				until(t, "what tests before have left is collected", func() bool { return longAllocations(size) == 0 })
				head += `"messages":[{"role":"user","content":"`
				const tail = `"}]}`
				conn := r.stall(len(head)+size+len(tail), head)
				defer conn.Close()
				some := bytes.Repeat([]byte("x"), 1<<20)
				for range size / len(some) {
					if _, err := conn.Write(some); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := io.WriteString(conn, tail); err != nil {
					t.Fatal(err)
				}
				until(t, "the engine is asked", func() bool { return r.fleet.Stats().Leases == 1 })
				if longAllocations(size) == 0 {
					t.Errorf("a body of %d bytes is not held", size)
				}
				letBegin()
				answer := bufio.NewReader(conn)
				res, err := http.ReadResponse(answer, nil)
				if err != nil {
					t.Fatal(err)
				}
				until(t, "nothing of it is live", func() bool { return longAllocations(size) == 0 })
				letEnd()
				if b, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(b), doneChunk) {
					t.Errorf("%q, %v", b, err)
				}
			})
		}
	}
}
