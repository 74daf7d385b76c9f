package h1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectionIsReused(t *testing.T) {
	for _, row := range []struct {
		name, raw string
		body      func() io.Reader
		want      int // connections for 10 requests
	}{
		{"sized", ok5, func() io.Reader { return nil }, 1},
		{"chunked", chunkedHead + "5\r\nhello\r\n0\r\n\r\n", func() io.Reader { return NewBody([]byte("abc")) }, 1},
		{"empty", "HTTP/1.1 204 No Content\r\n\r\n", func() io.Reader { return NewBody(make([]byte, 1<<20)) }, 1},
		{"streamed request", ok5, func() io.Reader { return io.MultiReader(strings.NewReader("abc")) }, 1},
		{"asks to close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", func() io.Reader {
			return nil
		}, 10},
		{"a byte too many", ok5 + "!", func() io.Reader { return nil }, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := newEngine(t, answer(row.raw))
			c := newClient(t, Config{})
			for i := range 10 {
				resp, _, err := fetch(c, post(t, e.url, row.body()))
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				resp.Body.Close() // fetch has closed it once: this must not give the connection back again
				if n := c.Stats().Idle; n != 1 && row.want == 1 || n > 1 {
					t.Fatalf("request %d: %d idle", i, n)
				}
			}
			if got := e.accepted(); got != row.want {
				t.Errorf("%d connections, want %d", got, row.want)
			}
		})
	}
}

func TestRequestThatAsksToClose(t *testing.T) {
	for _, edit := range []func(*http.Request){
		func(r *http.Request) { r.Close = true },
		func(r *http.Request) { r.Header.Set("Connection", "close") },
	} {
		said := make(chan string, 1)
		e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
			req, _, err := readRequest(r)
			if err != nil {
				t.Error(err)
				return
			}
			said <- fmt.Sprint(req.Close)
			io.WriteString(c, ok5)
		})
		c := newClient(t, Config{})
		req := get(t.Context(), t, e.url)
		edit(req)
		if _, _, err := fetch(c, req); err != nil || <-said != "true" || c.Stats().Open != 0 {
			t.Errorf("%v, %+v", err, c.Stats())
		}
	}
}

func TestBodyClosedEarlyClosesTheConnection(t *testing.T) {
	gone := make(chan error, 1)
	e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
		readRequest(r)
		io.WriteString(c, chunkedHead+"5\r\nhello\r\n")
		_, err := r.ReadByte()
		gone <- err
	})
	c := newClient(t, Config{})
	resp, err := c.RoundTrip(get(t.Context(), t, e.url))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := <-gone; err == nil {
		t.Error("the engine did not see the end")
	}
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("Read after Close: %v", err)
	}
	if s := c.Stats(); s.Open != 0 {
		t.Errorf("got %+v", s)
	}
}

// staleEngine answers one request on its first connection and then ends it as told; later connections work.
func staleEngine(t *testing.T, end func(c net.Conn, r *bufio.Reader)) *engine {
	return newEngine(t, func(n int, c net.Conn, r *bufio.Reader) {
		if n > 0 {
			answer(ok5)(n, c, r)
			return
		}
		if _, _, err := readRequest(r); err == nil {
			io.WriteString(c, ok5)
			end(c, r)
		}
	})
}

func TestStaleConnection(t *testing.T) {
	afterRequest := func(say string) func(net.Conn, *bufio.Reader) {
		return func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, say)
		}
	}
	memory := func() io.Reader { return NewBody([]byte("abc")) }
	for _, row := range []struct {
		name    string
		end     func(net.Conn, *bufio.Reader)
		body    func() io.Reader
		ok      bool
		retried uint64
	}{
		{"closed with the request, no body", afterRequest(""), func() io.Reader { return nil }, false, 0},
		{"closed with the request, body that must go once", afterRequest(""), func() io.Reader {
			return NewBody([]byte("abc")).Once()
		}, false, 0},
		{"closed with the request, body in memory", afterRequest(""), memory, true, 1},
		{"closed with the request, GetBody", afterRequest(""), func() io.Reader {
			return strings.NewReader("abc")
		}, true, 1},
		{"closed with the request, body read once", afterRequest(""), func() io.Reader {
			return io.MultiReader(strings.NewReader("abc"))
		}, false, 0},
		{
			"said to be idle for too long",
			afterRequest("HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"),
			memory, true, 1,
		},
		{"closed after a byte", afterRequest("H"), memory, false, 0},
		{"closed after an informational answer", afterRequest("HTTP/1.1 100 Continue\r\n\r\n"), memory, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := staleEngine(t, row.end)
			c := newClient(t, Config{})
			if _, _, err := fetch(c, get(t.Context(), t, e.url)); err != nil {
				t.Fatal(err)
			}
			_, body, err := fetch(c, post(t, e.url, row.body()))
			if (err == nil) != row.ok || row.ok && body != "hello" {
				t.Errorf("got %q, %v; want ok %v", body, err, row.ok)
			}
			if s := c.Stats(); s.Retried != row.retried || s.Reused != 1 {
				t.Errorf("got %+v, want %d retried", s, row.retried)
			}
		})
	}
}

// TestLostRequestIsNoDialError: a request that was lost with a kept connection may have been seen, though no other
// connection can be opened.
func TestLostRequestIsNoDialError(t *testing.T) {
	boom := errors.New("boom")
	e := staleEngine(t, func(_ net.Conn, r *bufio.Reader) { readRequest(r) })
	var dialed atomic.Bool
	c := newClient(t, Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, boom
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	if _, _, err := fetch(c, get(t.Context(), t, e.url)); err != nil {
		t.Fatal(err)
	}
	_, _, err := fetch(c, post(t, e.url, NewBody([]byte("abc"))))
	var dial *DialError
	if err == nil || errors.As(err, &dial) || errors.Is(err, boom) {
		t.Errorf("got %v, want the loss of the connection", err)
	}
}

// TestTimeoutOfARequest: a 408 is an answer where it cannot be the end of an unused connection, or the request must not
// go twice.
func TestTimeoutOfARequest(t *testing.T) {
	const timeout = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\n\r\nno"
	for _, row := range []struct {
		name  string
		first string
		body  *Body
	}{
		{"on a fresh connection", timeout, NewBody([]byte("abc"))},
		{"for a body that must go once", ok5, NewBody([]byte("abc")).Once()},
	} {
		e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
			for say := row.first; ; say = timeout {
				if _, _, err := readRequest(r); err != nil {
					return
				}
				io.WriteString(c, say)
			}
		})
		c := newClient(t, Config{})
		if row.first == ok5 {
			if _, _, err := fetch(c, get(t.Context(), t, e.url)); err != nil {
				t.Fatal(err)
			}
		}
		resp, body, err := fetch(c, post(t, e.url, row.body))
		if err != nil || resp.StatusCode != http.StatusRequestTimeout || body != "no" || c.Stats().Retried != 0 {
			t.Errorf("%s: got %v %q, %v, %+v", row.name, resp, body, err, c.Stats())
		}
	}
}

// A fresh connection that fails is not tried again: the engine may be at work on the request.
func TestFreshConnectionIsNotRetried(t *testing.T) {
	e := newEngine(t, func(_ int, _ net.Conn, r *bufio.Reader) { readRequest(r) })
	if _, _, err := fetch(newClient(t, Config{}), post(t, e.url, NewBody([]byte("abc")))); !errors.Is(err, io.EOF) {
		t.Errorf("got error %v", err)
	}
	if n := e.accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// pipeClient is a client whose connections are pipes to engines that answer ok5, for tests in a bubble.
func pipeClient(cfg Config) *Client {
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			answer(ok5)(0, far, bufio.NewReader(far))
		}()
		return near, nil
	}
	return New(cfg)
}

func TestIdleConnectionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(Config{IdleTimeout: 10 * time.Second})
		use := func(host string) {
			if _, _, err := fetch(c, get(t.Context(), t, "http://"+host)); err != nil {
				t.Error(err)
			}
		}
		check := func(when string, idle int) {
			t.Helper()
			synctest.Wait()
			if s := c.Stats(); s.Idle != idle || s.Open != idle {
				t.Errorf("%s: got %+v, want %d idle", when, s, idle)
			}
		}
		use("a")
		time.Sleep(4 * time.Second)
		use("b")
		check("4 s", 2)
		time.Sleep(6*time.Second + time.Millisecond)
		check("10 s", 1)
		use("b")
		time.Sleep(5 * time.Second)
		check("15 s", 1)
		time.Sleep(6 * time.Second)
		check("21 s", 0)
		if s := c.Stats(); s.Reused != 1 || s.Dialed != 2 {
			t.Errorf("got %+v", s)
		}
		if c.pool.armed || len(c.pool.hosts) != 0 {
			t.Errorf("pool not at rest: %d hosts", len(c.pool.hosts))
		}
	})
}

// The last used is taken first, the oldest gives way, and late timers do not matter.
func TestPoolOrder(t *testing.T) {
	c := New(Config{MaxIdlePerHost: 2, IdleTimeout: time.Minute})
	now := time.Now()
	conns := make([]*conn, 3)
	for i := range conns {
		conns[i] = newConn(c, "a:1", nopConn{})
		c.pool.put(conns[i], now.Add(time.Duration(i)*time.Second))
	}
	if !conns[0].closed.Load() || c.pool.idle() != 2 {
		t.Errorf("bound not kept: %d idle", c.pool.idle())
	}
	if got := c.pool.take("a:1", now); got != conns[2] {
		t.Error("not the last used")
	}
	if got := c.pool.take("b:1", now); got != nil {
		t.Error("a connection to another address")
	}
	if got := c.pool.take("a:1", now.Add(61*time.Second)); got != nil || !conns[1].closed.Load() || c.pool.idle() != 0 {
		t.Error("an expired connection was kept")
	}
	conns[2].close()
	c.CloseIdleConnections()
	if s := c.Stats(); s.Open != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestManyAtOnce(t *testing.T) {
	e := newEngine(t, answer(chunkedHead+strings.Repeat("5\r\nhello\r\n", 20)+"0\r\n\r\n"))
	c := newClient(t, Config{MaxIdlePerHost: 4})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				var body io.Reader = NewBody([]byte(strings.Repeat("x", 1+i*500)))
				if i%3 == 0 {
					body = io.MultiReader(body)
				}
				resp, err := c.RoundTrip(post(t, e.url, body))
				if err != nil {
					t.Errorf("request %d.%d: %v", g, i, err)
					return
				}
				if i%7 == 0 {
					resp.Body.Close()
					continue
				}
				if got, err := io.ReadAll(resp.Body); err != nil || len(got) != 100 {
					t.Errorf("request %d.%d: %d bytes, %v", g, i, len(got), err)
				}
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Idle > 4 || s.Open != s.Idle {
		t.Errorf("got %+v", s)
	}
}
