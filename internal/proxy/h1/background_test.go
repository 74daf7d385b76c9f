package h1

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// noted notes how much each Read wants. While it is watched it does what a leanConn does: a Read of a single byte returns nothing.
type noted struct {
	net.Conn

	mu      sync.Mutex
	wants   []int
	watched bool
}

func (c *noted) Read(p []byte) (int, error) {
	c.mu.Lock()
	c.wants = append(c.wants, len(p))
	nothing := c.watched && len(p) == 1
	c.mu.Unlock()
	if nothing {
		return 0, nil
	}
	return c.Conn.Read(p)
}

// singles is how many of the Reads since the last call wanted a single byte.
func (c *noted) singles() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, want := range c.wants {
		if want == 1 {
			n++
		}
	}
	c.wants = nil
	return n
}

func (c *noted) watch(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = on
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn chan net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.done); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestBackgroundRead holds net/http to what a watched connection and the proxy's watchClient rely on, none of which it documents (net/http
// server.go, connReader):
//
//   - it looks for the client's departure by a Read of a single byte, and nobody else wants one byte;
//   - where there is no body it does so before the handler runs, else when the handler has read the body to its end;
//   - a Read that returns nothing ends the look: it is not repeated, and the request's context does not end;
//   - the connection goes on with the next request, whose bytes have come meanwhile or not.
//
// When it fails with another version of Go, leanConn.Read and call.watchClient have to be thought over, and until then transport: net/http is safe.
func TestBackgroundRead(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	const post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	const chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	for _, tt := range []struct {
		name, sent  string
		watched     bool
		first, read int  // Reads of a single byte before the body is read to its end, and after
		leaves      bool // the client does, while the handler runs
	}{
		{name: "no body", sent: get, first: 1},
		{name: "a body", sent: post, read: 1},
		{name: "a chunked body", sent: chunked, read: 1},
		{name: "a body, watched", sent: post, watched: true, read: 1},
		{name: "a chunked body, watched", sent: chunked, watched: true, read: 1},
		{name: "no body, the client leaves", sent: get, first: 1, leaves: true},
		{name: "a body, the client leaves", sent: post, read: 1, leaves: true},
		{name: "a body, watched, the client leaves", sent: post, watched: true, read: 1, leaves: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				conn := &noted{Conn: far}
				served := make(chan struct{}, 2)
				s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					conn.watch(tt.watched)
					defer conn.watch(false)
					synctest.Wait()
					if n := conn.singles(); n != tt.first {
						t.Errorf("before the body is read %d Reads of a single byte, want %d", n, tt.first)
					}
					if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(tt.sent, "abc") != (string(body) == "abc") {
						t.Errorf("%q, %v", body, err)
					}
					synctest.Wait()
					if n := conn.singles(); n != tt.read {
						t.Errorf("after it %d Reads of a single byte, want %d", n, tt.read)
					}
					if tt.leaves {
						_ = near.Close()
						synctest.Wait()
					}
					if seen := r.Context().Err() != nil; seen != (tt.leaves && !tt.watched) {
						t.Errorf("the context's end is %v", context.Cause(r.Context()))
					}
					if n := conn.singles(); n != 0 {
						t.Errorf("%d more Reads of a single byte", n)
					}
					served <- struct{}{} // nobody else calls Wait before
				})}
				l := &oneConn{make(chan net.Conn, 1), make(chan struct{})}
				l.conn <- conn
				ended := make(chan struct{})
				go func() { defer close(ended); _ = s.Serve(l) }()
				answers := bufio.NewReader(near)
				for range 2 {
					if _, err := io.WriteString(near, tt.sent); err != nil {
						t.Fatal(err)
					}
					<-served
					if tt.leaves {
						break
					}
					res, err := http.ReadResponse(answers, nil)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, res.Body)
					synctest.Wait()
					if n := conn.singles(); n != 0 {
						t.Errorf("%d Reads of a single byte between requests", n)
					}
				}
				_ = near.Close()
				_ = s.Close()
				<-ended
			})
		})
	}
}
