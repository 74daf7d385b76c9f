package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// idle is the limit of these tests, and soon is how long after it everything is to be over.
const (
	idle = 20 * time.Second
	soon = 1500 * time.Millisecond
)

// flood is a stream without an end, as quick as it is read.
type flood struct{ ctx context.Context }

func (f flood) Read(p []byte) (int, error) {
	if err := context.Cause(f.ctx); err != nil {
		return 0, err
	}
	return copy(p, chunk(strings.Repeat("x", 1000))), nil
}

func (f flood) Close() error { return nil }

func floods(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
		Body: flood{r.Context()},
	}, nil
}

// pipes is a listener whose clients are in the same process, so that a test can hold the clock still.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// pipeRig serves one client over a pipe. The client's end is returned; end stops all.
func pipeRig(t *testing.T, engines wire) (r *rig, client net.Conn, end func()) {
	t.Helper()
	r = newFleet(t, proxy.Config{Idle: idle}, engines, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
	server := &http.Server{Handler: r.proxy, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	l := make(pipes, 1)
	client, theirs := net.Pipe()
	l <- theirs
	go func() { _ = server.Serve(l) }()
	ctx, stop := context.WithCancel(t.Context())
	go r.proxy.Run(ctx)
	return r, client, func() {
		stop()
		close(l)
		_ = client.Close()
		_ = server.Close()
		synctest.Wait()
		r.booksBalance()
	}
}

// zeroWindow sends n requests over HTTP/2 on a connection that takes no data of any stream, and counts the streams that
// the server resets.
func zeroWindow(t *testing.T, client net.Conn, body string, n int) (resets *atomic.Int32) {
	t.Helper()
	resets = new(atomic.Int32)
	f := http2.NewFramer(client, client)
	go func() {
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := frame.(*http2.RSTStreamFrame); ok {
				resets.Add(1)
			}
		}
	}()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(client, http2.ClientPreface)
	check(err)
	check(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for i := range n {
		head.Reset()
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/v1/chat/completions"}, {
				"content-length", fmt.Sprint(len(body)),
			},
		} {
			check(enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
		}
		id := uint32(2*i + 1)
		check(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true}))
		check(f.WriteData(id, true, []byte(body)))
	}
	return resets
}

// TestClientThatDoesNotRead: it is cut at the limit on silence, whatever it speaks, and nothing of it is left. The
// engine is not blamed.
func TestClientThatDoesNotRead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		engine  wire
		streams int // over HTTP/2; 0 is HTTP/1.1
		// of them, while the client is waited for: net/http keeps back a short answer until its handler has returned
		open int
	}{
		{"HTTP/1.1", floods, 0, 1},
		{"HTTP/2", floods, 50, 50},
		{"HTTP/2, a short answer", func(*http.Request) (*http.Response, error) { return says(chatAnswer) }, 3, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, client, end := pipeRig(t, tt.engine)
				defer end()
				resets := new(atomic.Int32)
				if tt.streams > 0 {
					resets = zeroWindow(t, client, streamBody, tt.streams)
				} else {
					_, _ = fmt.Fprintf(client,
						"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
						len(streamBody), streamBody)
				}
				time.Sleep(idle - time.Second)
				synctest.Wait()
				if leases := r.fleet.Stats().Leases; r.proxy.Open() != tt.open || leases != tt.open ||
					resets.Load() != 0 {
					t.Errorf("before the limit: %d requests are open, %d leases, %d streams reset; want %d, %d, 0",
						r.proxy.Open(), leases, resets.Load(), tt.open, tt.open)
				}
				time.Sleep(time.Second + soon)
				synctest.Wait()
				defer func() {
					time.Sleep(2 * idle)
					synctest.Wait()
					if n := int(resets.Load()); n != tt.streams {
						t.Errorf("%d streams were reset, want each once: %d", n, tt.streams)
					}
				}()
				if leases := r.fleet.Stats().Leases; r.proxy.Open() != 0 || leases != 0 ||
					int(resets.Load()) != tt.streams {
					t.Errorf("after the limit: %d requests are open, %d leases, %d streams reset; want 0, 0, %d",
						r.proxy.Open(), leases, resets.Load(), tt.streams)
				}
				for _, e := range r.ended {
					if tt.open > 0 && e.Outcome != fleet.ClientGone {
						t.Errorf("ended as %s", e.Outcome)
					}
				}
				if e := r.fleet.Status()[0]; e.State != fleet.StateUp || e.Failures != 0 {
					t.Errorf("the engine is %s with %d failures", e.State, e.Failures)
				}
			})
		})
	}
}

// stuck is a client that takes nothing until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	release chan struct{}
	late    chan struct{} // closed by the write deadline
	timer   *time.Timer
}

func newStuck() *stuck {
	s := &stuck{ResponseRecorder: httptest.NewRecorder(), release: make(chan struct{}), late: make(chan struct{})}
	s.timer = time.AfterFunc(1000*time.Hour, sync.OnceFunc(func() { close(s.late) }))
	return s
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case <-s.release:
		return s.ResponseRecorder.Write(p)
	case <-s.late:
		return 0, os.ErrDeadlineExceeded
	}
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.timer.Reset(time.Until(t))
	return nil
}

// slowRig is a router in front of one engine that has been asked once, so that it is known how long an answer takes.
func slowRig(t *testing.T, engine func(n int) wire) (r *rig, send func(http.ResponseWriter), end func()) {
	t.Helper()
	n := 0
	r = newRouter(t, proxy.Config{Idle: idle}, wire(func(req *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, req.Body)
		n++
		return engine(n - 1)(req)
	}), route.Config{Policy: func() pick.Policy { return inOrder{} }}, []fleet.Endpoint{
		{Name: "e0", URL: "http://e0", Weight: 1},
	},
		func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
	ctx, stop := context.WithCancel(t.Context())
	go r.proxy.Run(ctx)
	send = func(w http.ResponseWriter) {
		body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`
		r.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	}
	first := httptest.NewRecorder()
	if send(first); first.Code != 200 {
		t.Fatalf("the first answer was %d %s", first.Code, first.Body)
	}
	return r, send, func() {
		r.proxy.Abort()
		synctest.Wait()
		stop()
		r.booksBalance()
	}
}

// healthy checks that nothing is held against the engine.
func (r *rig) healthy(when string) {
	r.t.Helper()
	synctest.Wait()
	if e := r.fleet.Status()[0]; e.State != fleet.StateUp || e.Failures != 0 || e.Silent {
		r.t.Errorf("%s: the engine is %s with %d failures, %s", when, e.State, e.Failures, e.Detail)
	}
}

// after is an engine whose nth answer is the nth of these, the last one from there on.
func after(answers ...wire) func(int) wire {
	return func(n int) wire { return answers[min(n, len(answers)-1)] }
}

// TestSlowClientIsNoSilence: an engine answers a client that does not read. What it sends is a sign of life although
// the client has not taken it, and while the client is waited for nobody knows that the engine is silent, even if
// another answer is overdue. That ends with the client.
func TestSlowClientIsNoSilence(t *testing.T) {
	pings := func(r *http.Request) (*http.Response, error) {
		res, err := floods(r)
		res.Body = io.NopCloser(io.MultiReader(strings.NewReader(": ping\n\n"), flood{r.Context()}))
		return res, err
	}
	for _, tt := range []struct {
		name    string
		engine  wire
		another bool // a second request waits for its answer in vain
		work    bool // its prompt, or one behind the ping that the client does not take, is still to be computed
	}{
		{"a stream", floods, false, false},
		{"a stream that begins with a ping", pings, false, true},
		{"a stream, and an answer is overdue", floods, true, true},
		{"a stream that begins with a ping, and an answer is overdue", pings, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, send, end := slowRig(t, after(trickles(2), tt.engine, silence))
				defer end()
				go func() {
					defer func() { // the client leaves
						if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value itself
							t.Error(v)
						}
					}()
					send(newStuck())
				}()
				synctest.Wait()
				if tt.another {
					go send(httptest.NewRecorder())
				}
				time.Sleep(idle - time.Second)
				r.healthy("while the client is waited for")
				if load := r.fleet.Status()[0].Load; (load.PrefillTokens > 0) != tt.work {
					t.Errorf("%d tokens of prompts are still to be computed", load.PrefillTokens)
				}
				silent := false
				for range 60 {
					time.Sleep(time.Second)
					synctest.Wait()
					silent = silent || r.fleet.Status()[0].Silent
				}
				if silent != tt.another {
					t.Errorf("in the minute after the client was cut the engine is thought to hang: %v; want %v",
						silent, tt.another)
				}
			})
		})
	}
}

// TestEngineIsNotTimedWhileTheClientIs: the limit on an engine's silence leaves out how long its client was waited for.
func TestEngineIsNotTimedWhileTheClientIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, send, end := slowRig(t, func(int) wire { return trickles(3) })
		defer end()
		w, done := newStuck(), make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // an answer that is cut
			send(w)
		}()
		// the next piece comes after the limit, counted from the last one
		time.Sleep(time.Second + idle - 500*time.Millisecond)
		close(w.release)
		<-done
		r.healthy("at the end")
		if s := r.last(2); s.Outcome != fleet.OK || !strings.HasSuffix(w.Body.String(), doneChunk) {
			t.Errorf("ended as %s with %q", s.Outcome, w.Body)
		}
	})
}

// TestEngineIsTimedAfterTheClient: an engine that is silent once its client has read meets the limit.
func TestEngineIsTimedAfterTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, send, end := slowRig(t, after(trickles(2), func(req *http.Request) (*http.Response, error) {
			res, err := floods(req)
			from, _ := io.Pipe()
			res.Body = io.NopCloser(io.MultiReader(strings.NewReader(chunk("x")), from))
			context.AfterFunc(req.Context(), func() { _ = from.CloseWithError(context.Cause(req.Context())) })
			return res, err
		}))
		defer end()
		w, began := newStuck(), time.Now()
		time.AfterFunc(idle/2, func() { close(w.release) })
		func() {
			defer func() { _ = recover() }() // the answer is cut
			send(w)
		}()
		if took := time.Since(began); took < idle+idle/2 || took > idle+idle/2+soon {
			t.Errorf("given up after %v; want %v", took, idle+idle/2)
		}
		if s := r.last(2); s.Outcome != fleet.TimedOut {
			t.Errorf("ended as %s", s.Outcome)
		}
	})
}

// TestStoppedProcess: a time in which the router did not run is no silence of the engine: what it sent meanwhile has
// not been read, and one that was stopped with the router goes on. Silence after it is.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, theirs := net.Pipe()
		r := newFleet(t, proxy.Config{Idle: idle}, wire(func(req *http.Request) (*http.Response, error) {
			context.AfterFunc(req.Context(), func() { theirs.Close() })
			return &http.Response{StatusCode: 200, ContentLength: -1, Body: theirs, Header: http.Header{
				"Content-Type": {"text/event-stream"},
			}}, nil
		}), []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go r.proxy.Run(ctx)
		w, done := httptest.NewRecorder(), make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // as the server does where an answer is cut
			r.proxy.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(plainStream)))
		}()
		_, _ = io.WriteString(engine, chunk("a"))
		r.proxy.StopOnce(2 * idle)
		time.Sleep(2*idle + idle/2)
		if _, err := io.WriteString(engine, chunk("b")); err != nil {
			t.Error("the stream was cut:", err)
		}
		<-done
		if took := time.Since(began); took < 3*idle+idle/2 || took > 3*idle+idle/2+soon {
			t.Errorf("given up after %v", took)
		}
		if !strings.Contains(w.Body.String(), chunk("b")) {
			t.Errorf("the client got %q", w.Body)
		}
		if s := r.last(1); s.Outcome != fleet.TimedOut {
			t.Errorf("ended as %s", s.Outcome)
		}
	})
}

// TestUpgradeThatIsNotGranted: an engine that answers an upgrade with something else than 101 meets the limit on
// silence, and its client that on reading.
func TestUpgradeThatIsNotGranted(t *testing.T) {
	hangs := func(req *http.Request) (*http.Response, error) {
		res, err := says("{}")
		res.ContentLength, res.Body = 100, io.NopCloser(io.MultiReader(strings.NewReader("{"), hung{req.Context()}))
		return res, err
	}
	long := func(req *http.Request) (*http.Response, error) {
		res, err := floods(req)
		res.ContentLength, res.Header = 1<<40, http.Header{"Content-Type": {"application/octet-stream"}}
		return res, err
	}
	for _, tt := range []struct {
		name   string
		engine wire
		client http.ResponseWriter
		want   fleet.Outcome
	}{
		{"the engine hangs", hangs, httptest.NewRecorder(), fleet.TimedOut},
		{"the client does not read", long, nil, fleet.ClientGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFleet(t, proxy.Config{Idle: idle}, tt.engine,
					[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go r.proxy.Run(ctx)
				req := httptest.NewRequest(http.MethodGet, "/ws", http.NoBody)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "websocket")
				w := tt.client
				if w == nil {
					w = newStuck()
				}
				began, done := time.Now(), make(chan struct{})
				go func() { defer close(done); r.proxy.ServeHTTP(w, req) }()
				time.Sleep(idle + soon)
				synctest.Wait()
				if r.proxy.Open() != 0 {
					t.Errorf("it is still open after %v", time.Since(began))
					r.proxy.Abort()
				}
				<-done
				if s := r.last(1); s.Outcome != tt.want {
					t.Errorf("ended as %s, want %s", s.Outcome, tt.want)
				}
				r.booksBalance()
			})
		})
	}
}

// hung brings nothing until its request ends.
type hung struct{ ctx context.Context }

func (h hung) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, context.Cause(h.ctx)
}

// TestUpgradeMayBeSilent: once an upgrade is granted both ends may be silent for a long time, but not for ever.
func TestUpgradeMayBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, theirs := net.Pipe()
		_, client, end := pipeRig(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
				"Connection": {"Upgrade"}, "Upgrade": {"echo"},
			}, Body: theirs}, nil
		})
		defer end()
		defer engine.Close()
		_, _ = io.WriteString(client, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		got := make([]byte, 4096)
		if n, err := client.Read(got); err != nil || !strings.HasPrefix(string(got[:n]), "HTTP/1.1 101 ") {
			t.Fatalf("%q %v", got[:n], err)
		}
		for range 3 {
			time.Sleep(time.Hour - time.Second)
			go func() { _, _ = io.WriteString(engine, "hello") }()
			if n, err := client.Read(got); err != nil || string(got[:n]) != "hello" {
				t.Errorf("after an hour: %q %v", got[:n], err)
			}
		}
		began := time.Now()
		if n, err := client.Read(got); n != 0 || err == nil || time.Since(began) > time.Hour+time.Minute {
			t.Errorf("after %v of silence: %q %v", time.Since(began), got[:n], err)
		}
	})
}

// TestUpgradeWhoseClientDoesNotRead: a client that takes nothing of an upgraded connection keeps it no longer than one
// on which both ends are silent, whether the engine still sends or has ended.
func TestUpgradeWhoseClientDoesNotRead(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			engine, theirs := net.Pipe()
			r, client, end := pipeRig(t, func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 101, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
					"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
				}, Body: theirs}, nil
			})
			defer end()
			defer engine.Close()
			_, _ = io.WriteString(client,
				"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			if n, err := client.Read(make([]byte, 4096)); n == 0 || err != nil {
				t.Fatal(err)
			}
			go func() {
				for n := 0; !ends || n < 1; n++ {
					if _, err := io.WriteString(engine, "hello"); err != nil {
						return
					}
				}
				_ = engine.Close()
			}()
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			if r.proxy.Open() != 0 {
				t.Errorf("the engine ends %v: it is open after more than an hour", ends)
			}
		})
	}
}
