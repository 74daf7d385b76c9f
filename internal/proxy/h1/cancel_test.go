package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Cancelling must wake the caller and close the connection, whatever the request is doing. The engine's view of it
// (a read that fails) is what stops it from computing for nobody.
func TestCancel(t *testing.T) {
	boom := errors.New("client left")
	block := func(_ net.Conn, r *bufio.Reader) { readRequest(r) }
	for _, row := range []struct {
		name  string
		body  func() io.Reader
		serve func(net.Conn, *bufio.Reader)
		head  bool // the head arrives, cancelling comes while the body is read
	}{
		{"waiting for the head", func() io.Reader { return nil }, block, false},
		{"after an informational answer", func() io.Reader { return nil }, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}, false},
		{"in the middle of the head", func() io.Reader { return nil }, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConte")
		}, false},
		{
			"writing a body from memory", func() io.Reader { return NewBody(make([]byte, 64<<20)) },
			func(_ net.Conn, r *bufio.Reader) { http.ReadRequest(r) }, false,
		},
		{"writing a stream", func() io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat("x", 64<<20)))
		}, func(_ net.Conn, r *bufio.Reader) { http.ReadRequest(r) }, false},
		{"reading a sized body", func() io.Reader { return nil }, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		}, true},
		{"reading chunks", func() io.Reader { return nil }, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, chunkedHead+"5\r\nhello\r\n")
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := make(chan struct{})
			e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
				row.serve(c, r)
				if !row.head {
					cancel(boom)
				}
				io.Copy(io.Discard, r) // returns when the connection has ended
				close(gone)
			})
			req := post(t, e.url, row.body()).WithContext(ctx)
			c := newClient(t, Config{})
			resp, err := c.RoundTrip(req)
			if row.head {
				if err != nil {
					t.Fatal(err)
				}
				cancel(boom)
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, boom) {
				t.Errorf("got error %v, want the context's cause", err)
			}
			<-gone
			if s := c.Stats(); s.Open != 0 || s.Retried != 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestCancelWhileDialing(t *testing.T) {
	boom := errors.New("client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := newClient(t, Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel(boom)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	_, err := c.RoundTrip(get(ctx, t, "http://engine:1"))
	var dial *DialError
	if !errors.Is(err, boom) || errors.As(err, &dial) {
		t.Errorf("got error %v, want the context's cause", err)
	}
	if _, err := c.RoundTrip(get(ctx, t, "http://engine:1")); !errors.Is(err, boom) {
		t.Errorf("already cancelled: got error %v", err)
	}
}

func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{DialTimeout: 3 * time.Second, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		start := time.Now()
		_, err := c.RoundTrip(get(t.Context(), t, "http://engine:1"))
		var dial *DialError
		if !errors.As(err, &dial) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("got error %v after %v", err, time.Since(start))
		}
	})
}

// A context that ends after the answer is complete must not close the connection that others use by then.
func TestCancelAfterTheEnd(t *testing.T) {
	e := newEngine(t, answer(ok5))
	c := newClient(t, Config{})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, _, err := fetch(c, get(ctx, t, e.url)); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if s := c.Stats(); s.Dialed != 1 || s.Idle != 1 {
		t.Errorf("got %+v", s)
	}
}

// Cancelling races with the end of the answer: whoever wins, the connection is kept or closed, never both.
func TestCancelRacesWithTheEnd(t *testing.T) {
	e := newEngine(t, answer(ok5))
	c := newClient(t, Config{})
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := c.RoundTrip(get(ctx, t, e.url))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { cancel(); close(done) }()
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		<-done
		if err == nil && string(body) != "hello" {
			t.Fatalf("got %q without an error", body)
		}
		if s := c.Stats(); s.Idle > 1 || s.Open < s.Idle {
			t.Fatalf("got %+v", s)
		}
	}
}

// Close may come from another goroutine while Read waits; Read must return and nothing may be kept.
func TestCloseWakesRead(t *testing.T) {
	e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
		readRequest(r)
		io.WriteString(c, chunkedHead+"5\r\nhello\r\n")
		io.Copy(io.Discard, r)
	})
	c := newClient(t, Config{})
	resp, err := c.RoundTrip(get(t.Context(), t, e.url))
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := resp.Body.Read(buf); string(buf[:n]) != "hello" || err != nil {
		t.Fatal(n, err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := resp.Body.Read(buf)
		result <- err
	}()
	resp.Body.Close()
	if err := <-result; !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("got error %v", err)
	}
}

// An engine that dies long after a kept connection has taken the request was at work on it: no second try.
func TestLateFailureIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := New(Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			dials++
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				r := bufio.NewReader(far)
				readRequest(r)
				io.WriteString(far, ok5)
				readRequest(r)
				time.Sleep(time.Minute)
			}()
			return near, nil
		}})
		if _, _, err := fetch(c, get(t.Context(), t, "http://engine")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := fetch(c, get(t.Context(), t, "http://engine")); !errors.Is(err, io.EOF) {
			t.Errorf("got error %v", err)
		}
		if s := c.Stats(); dials != 1 || s.Retried != 0 || s.Open != 0 {
			t.Errorf("%d dials, %+v", dials, s)
		}
	})
}
