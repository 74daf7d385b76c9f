package newconns_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/warmpath/warmpath/internal/newconns"
)

// place is a connection's, and says when it ends.
type place struct{ end func() }

func (p place) Close() { p.end() }

func (p place) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, place{}.key(), p)
}

func (place) key() any { return "place" }

// tooMany is a refusal with a status of its own.
type tooMany struct{}

func (tooMany) Error() string { return `2 of "b" are open` }
func (tooMany) Status() int   { return http.StatusTooManyRequests }

// TestBound: a connection for which there is no place is told so and closed, and one that ends makes room.
func TestBound(t *testing.T) {
	for name, row := range map[string]struct {
		full   error
		status int
	}{
		"no status":      {errors.New("no room"), http.StatusServiceUnavailable},
		"too many of it": {fmt.Errorf("wrapped: %w", tooMany{}), http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testBound(t, row.full, row.status) })
		})
	}
}

func testBound(t *testing.T, full error, want int) {
	var open, placed atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Value(place{}.key()).(place); ok {
			placed.Add(1)
		}
	})}
	newconns.Watch(server)
	newconns.Bound(server, func(net.Conn) (newconns.Place, error) { // one call at a time
		if open.Load() == 2 {
			return nil, full
		}
		open.Add(1)
		return place{func() { open.Add(-1) }}, nil
	})
	l := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	dial := func() net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close() })
		l.come <- far
		return near
	}
	answer := func(c net.Conn, asks bool) (int, string) {
		if asks {
			go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	first, second, third := dial(), dial(), dial()
	got, body := answer(third, true)
	var said struct {
		Error struct{ Message, Code string }
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil || got != want || said.Error.Message != full.Error() ||
		said.Error.Code != "too_many_connections" {
		t.Errorf("the third is answered %d %s", got, body)
	}
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("the third stays open")
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil { // after a second of the test's clock
		t.Error("one that is refused and does not ask stays open")
	}
	if open.Load() != 2 {
		t.Errorf("%d places are taken, want 2", open.Load())
	}
	for _, c := range []net.Conn{first, second} {
		if got, _ := answer(c, true); got != 200 {
			t.Errorf("another is answered %d", got)
		}
	}
	_ = first.Close()
	synctest.Wait()
	if got, _ := answer(dial(), true); got != 200 {
		t.Errorf("in the place of one that has ended: %d", got)
	}
	_ = server.Close()
	<-done
	synctest.Wait()
	if open.Load() != 0 || placed.Load() != 3 {
		t.Errorf("%d places are left; %d of 3 requests knew theirs", open.Load(), placed.Load())
	}
}

// TestTakenOver: a connection that a handler takes over, as for a WebSocket, has its place until the handler has done,
// however that ends.
func TestTakenOver(t *testing.T) {
	for name, fails := range map[string]bool{"returns": false, "panics": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTakenOver(t, fails) })
		})
	}
}

func testTakenOver(t *testing.T, fails bool) {
	var open atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws" {
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.Copy(io.Discard, c)
		if fails {
			panic(http.ErrAbortHandler)
		}
	})}
	newconns.Bound(server, func(net.Conn) (newconns.Place, error) {
		open.Add(1)
		return place{func() { open.Add(-1) }}, nil
	})
	l := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	var ends [2]net.Conn
	for i, path := range []string{"/ws", "/"} {
		near, far := net.Pipe()
		l.come <- far
		ends[i] = near
		go func() { _, _ = io.WriteString(near, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n") }()
		if path == "/" {
			if res, err := http.ReadResponse(bufio.NewReader(near), nil); err != nil || res.StatusCode != 200 {
				t.Errorf("another request: %v, %v", res, err)
			}
		}
	}
	for i, want := range []int32{2, 1, 0} {
		if synctest.Wait(); open.Load() != want {
			t.Errorf("%d ended: %d places are taken, want %d", i, open.Load(), want)
		}
		if i < len(ends) {
			_ = ends[i].Close()
		}
	}
	_ = server.Close()
	<-done
}
