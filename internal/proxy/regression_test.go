package proxy_test

// Regression tests of the door. Each shows one way in which it went wrong; see the comment of each.

import (
	"compress/gzip"
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
	"github.com/warmpath/warmpath/route"
)

// open sends bytes as they are and leaves the connection open.
func (r *rig) open(request string) net.Conn {
	r.t.Helper()
	conn, err := dialTo(r.t, strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// unblamed checks that no endpoint's books hold a failure.
func (r *rig) unblamed() {
	r.t.Helper()
	for _, e := range r.fleet.Status() {
		if e.Failures != 0 || e.State != fleet.StateUp {
			r.t.Errorf("%s: %d failures, %s (%s); want none: the client was at fault",
				e.Endpoint.Name, e.Failures, e.State, e.Detail)
		}
	}
}

// eventually polls for a condition.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for range patience {
		if ok() {
			return
		}
		time.Sleep(pause)
	}
	r.t.Errorf("it never came about: %s", what)
}

// TestForeignRequestsAreNotTheEndpointsFault: what only the client got wrong was blamed on every endpoint tried, so
// that three such requests ejected the fleet.
func TestForeignRequestsAreNotTheEndpointsFault(t *testing.T) {
	for name, request := range map[string]string{
		"bytes above 0x7f in the query": "GET /x?q=\xc3\xa9 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"and on a known path": fmt.Sprintf("POST /v1/chat/completions?q=\xc3\xa9 HTTP/1.1\r\nHost: x\r\n"+
			"Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody),
		"CONNECT":                    "CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n",
		"broken chunks in an upload": "POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"an unprintable upgrade": "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n" +
			"Upgrade: \xc3\xa9\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, proxy.Config{}, answers(200, chatAnswer), answers(200, chatAnswer), answers(200, chatAnswer))
			for range 3 {
				if res, body := r.raw(request); res == nil || res.StatusCode >= 500 {
					t.Errorf("answered %v %s", res, body)
				}
			}
			r.unblamed()
		})
	}
}

// TestUpgradeToH2CIsIgnored: Java's HttpClient and curl --http2 offer h2c on every first request. A server that does
// not take the offer must treat the request as any other (RFC 9110, section 7.8); it went past parsing, sessions and
// models.
func TestUpgradeToH2CIsIgnored(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(200, chatAnswer))
	post := func(body string) (*http.Response, string) {
		return r.raw(fmt.Sprintf(
			"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
				"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n%s",
			len(body), body))
	}
	if res, body := post("{{{{"); res == nil || res.StatusCode != 400 {
		t.Errorf("bad JSON reached the engine: %v %s", res, body)
	}
	post(chatBody)
	if s := r.last(2); s.Decision.Pool != "m" || s.Usage.PromptTokens == 0 {
		t.Errorf("not treated as a turn: pool %q, usage %+v", s.Decision.Pool, s.Usage)
	}
}

// TestEarlyAnswerToAnUpload: net/http holds an answer back until the request body has been read, unless told otherwise.
// The handler then hung in Flush, out of reach of every limit and of Abort, with its lease open.
func TestEarlyAnswerToAnUpload(t *testing.T) { bubble(t, earlyAnswerToAnUpload) }

func earlyAnswerToAnUpload(t *testing.T) {
	limit := 200 * time.Millisecond
	r := newRig(t, proxy.Config{
		Idle: limit, Answer: limit, FirstByte: limit,
	}, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
	})
	c := r.open("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	if n, err := c.Read(make([]byte, 100)); n == 0 {
		t.Errorf("the answer is held back while the client uploads: %v", err)
	}
	r.proxy.Abort()
	r.eventually("the lease is released", func() bool { return r.fleet.Stats().Leases == 0 && r.proxy.Open() == 0 })
}

// TestStalledUpload: a client that stops in the middle of an upload is not the endpoint's fault.
func TestStalledUpload(t *testing.T) { bubble(t, stalledUpload) }

func stalledUpload(t *testing.T) {
	limit := 100 * time.Millisecond
	r := newRig(t, proxy.Config{Answer: limit, ReadBody: limit}, answers(200, "{}"))
	c := r.open("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: audio/wav\r\nContent-Length: 1000\r\n\r\nabc")
	if n, err := c.Read(make([]byte, 100)); n == 0 {
		t.Errorf("no answer: %v", err)
	}
	_ = c.Close()
	r.last(1)
	r.unblamed()
}

// TestClientErrorWithinAStream: vLLM reports some faults of the request (a grammar that does not compile) as an event
// with code 400. It was retried on every endpoint, blamed on each, and the client was told another error.
func TestClientErrorWithinAStream(t *testing.T) {
	bad := streams(
		`data: {"error":{"message":"the grammar is invalid","type":"BadRequestError","param":null,"code":400}}`+"\n\n",
		doneChunk)
	r := newRig(t, proxy.Config{}, bad, bad)
	for range 3 {
		if res, body := r.post("/v1/chat/completions", `{"model":"m","stream":true}`); !strings.Contains(body,
			"the grammar is invalid") {
			t.Errorf("told %d %s", res.StatusCode, body)
		}
	}
	r.unblamed()
}

// TestCompressedStream: a stream with a Content-Encoding cannot be scanned, so it must not be judged cut.
func TestCompressedStream(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, chunk("a")+usageChunk+doneChunk)
		_ = z.Close()
	})
	_, body := r.post("/v1/chat/completions", `{"model":"m","stream":true}`, "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !strings.HasSuffix(string(text), doneChunk) {
		t.Errorf("got %q, %v", text, err)
	}
	r.unblamed()
}

// TestNoInventedContentType: net/http guesses a type where none is set.
func TestNoInventedContentType(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	})
	if res, _ := r.do("GET", "/x", ""); len(res.Header["Content-Type"]) != 0 {
		t.Errorf("Content-Type %q was invented", res.Header["Content-Type"])
	}
}

// TestAbortBeforeTheFirstAttempt: Abort reached only attempts already under way.
func TestAbortBeforeTheFirstAttempt(t *testing.T) { bubble(t, abortBeforeTheFirstAttempt) }

func abortBeforeTheFirstAttempt(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(200, chatAnswer))
	c := r.open(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{",
		len(chatBody)))
	r.eventually("the call is open", func() bool { return r.proxy.Open() == 1 })
	r.proxy.Drain()
	r.proxy.Abort()
	_, _ = io.WriteString(c, chatBody[1:])
	b := make([]byte, 300)
	if n, _ := c.Read(b); strings.Contains(string(b[:n]), " 200 ") {
		t.Errorf("served after Abort: %s", b[:n])
	}
}

// TestLongPrefillAfterAnAnnouncement: response.created comes at once; the wait for the first data after it is the
// prefill, which has the limit FirstByte, not Idle.
func TestLongPrefillAfterAnAnnouncement(t *testing.T) { bubble(t, longPrefillAfterAnAnnouncement) }

func longPrefillAfterAnAnnouncement(t *testing.T) {
	r := newRig(t, proxy.Config{
		FirstByte: 5 * time.Second, Idle: 50 * time.Millisecond,
	}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w,
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(300 * time.Millisecond)
		_, _ = io.WriteString(w,
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n")
	})
	_, body := r.post("/v1/responses", `{"model":"m","stream":true,"input":"x"}`)
	if s := r.last(1); s.Outcome != fleet.OK {
		t.Errorf("%v %s: %s", s.Outcome, s.Error, body)
	}
}

// TestPingsAreNotData: an engine that only pings (a hung scheduler behind a living server) must meet FirstByte.
func TestPingsAreNotData(t *testing.T) {
	t.Parallel()
	bubble(t, pingsAreNotData)
}

func pingsAreNotData(t *testing.T) {
	r := newRig(t, proxy.Config{
		FirstByte: 100 * time.Millisecond, Idle: 2 * time.Second,
	}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 40 {
			_, _ = io.WriteString(w, ": ping\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	})
	r.post("/v1/chat/completions", `{"model":"m","stream":true}`)
	if s := r.last(1); s.Outcome != fleet.TimedOut {
		t.Errorf("0.8 s of pings against a limit of 0.1 s: %s", s.Outcome)
	}
}

// TestUpgradeLimitsAndBlame: 503 to an upgrade is back-pressure too, and an upgrade that nobody answers ends.
func TestUpgradeLimitsAndBlame(t *testing.T) { bubble(t, upgradeLimitsAndBlame) }

func upgradeLimitsAndBlame(t *testing.T) {
	const ask = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	r := newRig(t, proxy.Config{}, answers(503, "{}"))
	for range 3 {
		_, _ = r.raw(ask)
	}
	if e := r.fleet.Status()[0]; e.Failures != 0 || e.State != fleet.StateBusy {
		t.Errorf("after 503: %d failures, %s", e.Failures, e.State)
	}
	limit := 100 * time.Millisecond
	r = newRig(t, proxy.Config{FirstByte: limit, Answer: limit}, func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
	})
	r.open(ask)
	r.last(1)
}

// TestNothingIsSentTwice: package h1 repeats a POST in memory on a fresh connection when a kept one ends without an
// answer, also where a repetition has side effects and the engine did take the request.
func TestNothingIsSentTwice(t *testing.T) {
	var hits atomic.Int32
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if req.URL.Path == "/side" {
			hits.Add(1)
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "{}")
	})
	r.post("/warm", `{}`)
	if r.post("/side", `{}`); hits.Load() != 1 {
		t.Errorf("one POST to an unknown path reached the engine %d times", hits.Load())
	}
}

// TestModelInChunkedJSON: JSON of unknown length on an unknown path names a model all the same.
func TestModelInChunkedJSON(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(200, "{}"))
	res, err := r.client.Post(r.url+"/v1/rerank",
		"application/json", io.MultiReader(strings.NewReader(`{"model":"n","query":"q"}`)))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if s := r.last(1); s.Decision.Pool != "n" {
		t.Errorf("pool %q", s.Decision.Pool)
	}
}

// TestStories: what operators are told must be so.
func TestStories(t *testing.T) {
	r := newRig(t, proxy.Config{}, answers(500, strings.Repeat("x", 200<<10)))
	_, body := r.post("/v1/chat/completions", chatBody)
	if len(body) != 200<<10 {
		t.Errorf("an error of %d bytes was cut to %d", 200<<10, len(body))
	}
	r.last(1)
	if len(r.retry) != 0 {
		t.Errorf("a retry was told that nobody could make: %v", r.retry)
	}
	if r.post("/v1/chat/completions", "{{"); r.last(2).Outcome == fleet.OK {
		t.Error("a refused request has the outcome ok")
	}
	_, body = r.post("/v1/chat/completions", `{"model":"`+strings.Repeat("x", 1<<20)+`"}`)
	if len(body) > 10_000 {
		t.Errorf("an unknown model's name is echoed in %d bytes", len(body))
	}
	r.proxy.Drain()
	r.post("/v1/chat/completions", chatBody)
	r.last(4)
}

// TestEngineThatGoesDownWhileWeWait: a request that waits for the first byte of an engine found down, or asleep, goes
// elsewhere. Sleep is no fault of the engine.
func TestEngineThatGoesDownWhileWeWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		engineThatGoesDownWhileWeWait(t, fleet.Report{Detail: "GET /health: no answer within 2s"}, 1)
	})
	bubble(t, func(t *testing.T) {
		engineThatGoesDownWhileWeWait(t, fleet.Report{Healthy: true, Sleep: fleet.Asleep, Rests: "asleep"}, 0)
	})
}

func engineThatGoesDownWhileWeWait(t *testing.T, report fleet.Report, failures uint64) {
	waiting := make(chan bool)
	r := newRig(t, proxy.Config{Refusing: 100 * time.Millisecond}, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		close(waiting)
		<-req.Context().Done()
	}, answers(200, chatAnswer))
	go func() {
		<-waiting
		r.fleet.Observe(route.Probed{Endpoint: "e0", Report: report})
	}()
	if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || body != chatAnswer {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	if s := r.last(1); s.Attempts != 2 || s.Outcome != fleet.OK {
		t.Errorf("told %+v", s)
	}
	if s := r.fleet.Status()[0]; s.Failures != failures {
		t.Errorf("%d failures, want %d", s.Failures, failures)
	}
}

// TestUpgradeAnswerSaysUpgradeOnly: net/http added "Connection: close" to an answer of unknown length.
func TestUpgradeAnswerSaysUpgradeOnly(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(conn,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = conn.Close()
	})
	res, _ := r.raw("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if got := res.Header.Values("Connection"); len(got) != 1 || got[0] != "Upgrade" {
		t.Errorf("Connection: %q", got)
	}
}

// TestUnreadBodyIsNotWaitedFor: a client that stops in a body that the answer does not depend on gets its answer, and
// its connection does not stay for ever.
func TestUnreadBodyIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	bubble(t, unreadBodyIsNotWaitedFor)
}

func unreadBodyIsNotWaitedFor(t *testing.T) {
	for _, tt := range []struct{ request, want string }{
		{"POST /v1/chat/completions HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1000", "415"},
		{"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked", "413"},
		{"GET /v1/models HTTP/1.1\r\nContent-Length: 1000", "200"},
		{"GET /healthz HTTP/1.1\r\nContent-Length: 1000", "200"},
		{"GET /readyz HTTP/1.1\r\nContent-Length: 1000", "200"},
		{"GET /metrics HTTP/1.1\r\nContent-Length: 1000", "404"},
		{"CONNECT x:1 HTTP/1.1\r\nContent-Length: 1000", "405"},
	} {
		r := newRig(t, proxy.Config{ReadBody: 50 * time.Millisecond, BodyBytes: 4}, answers(200, `{"data":[]}`))
		c := r.open(tt.request + "\r\nHost: x\r\n\r\n9\r\nabcdefghi\r\n")
		if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 "+tt.want) {
			t.Errorf("%s: answered %q and ended with %v", tt.request, b, err)
		}
	}
	slow := func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(150 * time.Millisecond)
		answers(200, chatAnswer)(w, req)
	}
	r := newRig(t, proxy.Config{ReadBody: 50 * time.Millisecond}, slow) // the limit is not on the next request's answer
	c := r.open("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na" +
		fmt.Sprintf(
			"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			len(chatBody), chatBody))
	if b, err := io.ReadAll(c); err != nil || strings.Count(string(b), "HTTP/1.1 200 OK") != 2 ||
		!strings.HasSuffix(string(b), chatAnswer) {
		t.Errorf("two requests on one connection: %q, %v", b, err)
	}
}

// TestHeadersOfOneHop: what either side names in Connection is for the router, and goes no further.
func TestHeadersOfOneHop(t *testing.T) {
	for _, connection := range [...]string{"X-Hop, keep-alive", "close, x-hop"} {
		var seen http.Header
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
			seen = req.Header
			answers(200, chatAnswer, "Connection", connection, "X-Hop", "engine", "X-End", "engine",
				"Keep-Alive", "timeout=5")(w, req)
		})
		res, _ := r.post("/v1/chat/completions", chatBody, "Connection", connection, "X-Hop", "client", "X-End",
			"client", "TE", "trailers")
		if netHTTP() && strings.HasPrefix(connection, "close") {
			res.Header.Del("X-Hop") // its client drops the header that names it
		}
		for side, h := range map[string]http.Header{"engine": res.Header, "client": seen} {
			if h.Get("X-End") != side || h.Get("X-Hop") != "" || h.Get("Keep-Alive") != "" || h.Get("Te") != "" {
				t.Errorf("%s: of what the %s said there came %v", connection, side, h)
			}
		}
	}
}

// TestOrdersToProxies: what an engine orders the proxy to do that gets its answer is not passed on to the one before
// the router, neither with answers nor where an upgrade is refused.
func TestOrdersToProxies(t *testing.T) {
	orders := []string{
		"X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Sendfile", "X-Lighttpd-Send-File", "Alt-Svc",
		"X-Envoy-Immediate-Health-Check-Fail",
	}
	says := []string{"X-Accel-Buffering", "yes", "X-Envoy-Upstream-Service-Time", "5"}
	for _, name := range orders {
		says = append(says, name, "/etc/passwd")
	}
	r := newRig(t, proxy.Config{}, answers(400, chatAnswer, says...))
	for _, header := range [][]string{nil, {"Connection", "Upgrade", "Upgrade", "websocket"}} {
		method, path := "POST", "/v1/chat/completions"
		if header != nil {
			method, path = "GET", "/v1/realtime"
		}
		res, _ := r.do(method, path, chatBody, header...)
		for _, name := range orders {
			if got := res.Header.Get(name); res.StatusCode != 400 || got != "" {
				t.Errorf("%s %s: %d with %s: %q", method, path, res.StatusCode, name, got)
			}
		}
		if res.Header.Get("X-Accel-Buffering") != "yes" || res.Header.Get("X-Envoy-Upstream-Service-Time") != "5" {
			t.Errorf("%s %s: %v", method, path, res.Header)
		}
	}
}

// TestStalledUploadIsLetGo: where the handler ended while the client was still read from, net/http took the deadline
// off and waited for the rest of the body, which a client that has its answer may never send.
func TestStalledUploadIsLetGo(t *testing.T) {
	for i := range 20 { // it is a race
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel() // each client is listened to for a while after its answer
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				w.Header().Set("Connection", "close")
				w.WriteHeader(404)
			})
			c := r.open("POST /upload HTTP/1.1\r\nHost: x\r\n" +
				"Content-Type: audio/wav\r\nContent-Length: 1000\r\n\r\nabc")
			if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 404 ") {
				t.Fatalf("the connection answered %q and ended with %v", b, err)
			}
		})
	}
}

// TestRestOfAnUploadIsNoRequest: an engine answered before it had read the body, and what the client sent of it
// afterwards was taken for its next request.
func TestRestOfAnUploadIsNoRequest(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		// or net/http would read on in the rest of the body, and panic (full duplex)
		w.Header().Set("Connection", "close")
		w.WriteHeader(404)
	})
	const hidden = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	c := r.open(fmt.Sprintf(
		"POST /other HTTP/1.1\r\nHost: x\r\nContent-Type: audio/wav\r\nContent-Length: %d\r\n\r\nabc", 3+len(hidden)))
	first := make([]byte, 4096)
	n, _ := c.Read(first)
	_, _ = io.WriteString(c, hidden)
	rest, _ := io.ReadAll(c)
	if answers := string(first[:n]) + string(rest); strings.Contains(answers, "ok\n") ||
		strings.Count(answers, "HTTP/1.1 ") != 1 {
		t.Errorf("the connection answered %q", answers)
	}
}

// TestUploadOverHTTP2OutlivesItsHandler: the goroutine that writes an upload to the engine may still read when the
// answer is over.
func TestUploadOverHTTP2OutlivesItsHandler(t *testing.T) {
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	for range 30 {
		body, in := io.Pipe()
		go func() {
			_, _ = in.Write(make([]byte, 1000))
			time.Sleep(2 * time.Millisecond)
			_, _ = in.Write(make([]byte, 1000))
			_ = in.Close()
		}()
		req, _ := http.NewRequest("POST", r.url+"/upload", body)
		if res, err := transport.RoundTrip(req); err == nil {
			_ = res.Body.Close()
		}
		_ = body.Close()
	}
}

// TestDownEndpointIsWaitedForWhenNobodyElseServes: only an endpoint that serves the same model is a reason not to wait.
func TestDownEndpointIsWaitedForWhenNobodyElseServes(t *testing.T) {
	bubble(t, downEndpointIsWaitedForWhenNobodyElseServes)
}

func downEndpointIsWaitedForWhenNobodyElseServes(t *testing.T) {
	waiting, answer := make(chan bool), make(chan bool)
	r := newRig(t, proxy.Config{Refusing: 50 * time.Millisecond}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		close(waiting)
		select {
		case <-answer:
			_, _ = io.WriteString(w, chatAnswer)
		case <-req.Context().Done():
		}
	}, answers(200, chatAnswer))
	r.fleet.Observe(route.Probed{Endpoint: "e1", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "n"}}}})
	go func() {
		<-waiting
		r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Detail: "GET /health: no answer within 2s"}})
		time.Sleep(300 * time.Millisecond) // several times Refusing
		close(answer)
	}()
	if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || r.last(1).Attempts != 1 {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}
