package h1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// lender counts how often it gets its memory back.
type lender struct{ times atomic.Int32 }

func (l *lender) Returned() { l.times.Add(1) }

// TestBodyIsGivenBack: the owner of a body in memory is told once, as soon as nothing refers to it any more, on every
// path.
func TestBodyIsGivenBack(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	var left chan struct{} // closed at the end of each case
	for _, row := range []struct {
		name   string
		size   int
		engine func(int, net.Conn, *bufio.Reader)
		during int32 // what is known when the header has come
		fails  bool
	}{
		{"short", 100, answer(ok + "hi"), 1, false},
		{"gathered", 12 << 10, answer(ok + "hi"), 1, false},
		{"by a goroutine, not taken", 32 << 20, func(_ int, c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = io.WriteString(c, ok+"hi")
			<-left // neither reads nor closes
		}, 0, false},
		{"no answer", 100, func(_ int, _ net.Conn, r *bufio.Reader) { _, _ = http.ReadRequest(r) }, 0, true},
		{"no answer to a long one", 32 << 20, func(_ int, _ net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
		}, 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			left = make(chan struct{})
			e := newEngine(t, row.engine)
			defer close(left)
			var owner lender
			body := NewBody(make([]byte, row.size)).Of(&owner)
			resp, err := newClient(t, Config{}).RoundTrip(post(t, e.url, body))
			switch {
			case row.fails != (err != nil):
				t.Fatalf("got error %v", err)
			case err == nil:
				if n := owner.times.Load(); n != row.during {
					t.Errorf("given back %d times when the header had come, want %d", n, row.during)
				}
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if n := owner.times.Load(); n != 1 || body.Len() != 0 {
				t.Errorf("given back %d times at the end, %d bytes are referred to; want once, none", n, body.Len())
			}
		})
	}
}

// TestBodyIsGivenBackDuringTheAnswer: an engine that begins to answer before it has read a long body does not keep its
// memory once it has read it, however long it goes on answering.
func TestBodyIsGivenBackDuringTheAnswer(t *testing.T) {
	read, end := make(chan struct{}), make(chan struct{})
	e := newEngine(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		<-read
		_, _ = io.Copy(io.Discard, req.Body)
		<-end
		_, _ = io.WriteString(c, "hi")
	})
	var owner lender
	resp, err := newClient(t, Config{}).RoundTrip(post(t, e.url, NewBody(make([]byte, 32<<20)).Of(&owner)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := owner.times.Load(); n != 0 {
		t.Errorf("given back %d times while it is written", n)
	}
	close(read)
	for range 1000 {
		if owner.times.Load() > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := owner.times.Load(); n != 1 {
		t.Errorf("given back %d times while the answer goes on, want once", n)
	}
	close(end)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hi" || owner.times.Load() != 1 {
		t.Errorf("%q, %v, given back %d times", b, err, owner.times.Load())
	}
}
