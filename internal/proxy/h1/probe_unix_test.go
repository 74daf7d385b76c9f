//go:build unix

package h1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// A connection that the engine closed while it was idle is recognised before anything is sent on it, so that a body
// which can be read only once survives.
func TestClosedIdleConnectionIsPassedOver(t *testing.T) {
	short, long := strings.Repeat("abc", 3000), strings.Repeat("abc", 10_000)
	for _, row := range []struct {
		say  string
		body func() io.Reader
	}{
		{"", func() io.Reader { return io.MultiReader(strings.NewReader("abc")) }},
		{"", func() io.Reader { return onlyOnce("abc") }},
		{"", func() io.Reader { return onlyOnce(short) }},
		{"", func() io.Reader { return onlyOnce(long) }},
		{"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", func() io.Reader {
			return io.MultiReader(strings.NewReader("abc"))
		}},
		{"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", func() io.Reader { return onlyOnce("abc") }},
	} {
		ended := make(chan struct{})
		e := staleEngine(t, func(c net.Conn, _ *bufio.Reader) {
			io.WriteString(c, row.say)
			c.Close()
			close(ended)
		})
		c := newClient(t, Config{})
		if _, _, err := fetch(c, get(t.Context(), t, e.url)); err != nil {
			t.Fatal(err)
		}
		<-ended
		waitReadable(t, c)
		_, body, err := fetch(c, post(t, e.url, row.body()))
		if s := c.Stats(); err != nil || body != "hello" || s.Retried != 0 || s.Reused != 0 || s.Dialed != 2 {
			t.Errorf("got %q, %v, %+v", body, err, s)
		}
	}
}

func onlyOnce(body string) io.Reader {
	b := NewBody([]byte(body))
	b.Once()
	return b
}

// waitReadable waits until the end of the only idle connection has travelled through the kernel.
func waitReadable(t *testing.T, c *Client) {
	t.Helper()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	for _, stack := range c.pool.hosts {
		for _, cn := range stack {
			raw, err := cn.nc.(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			err = raw.Read(peeks) // waits in the poller; the bytes stay for the probe
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// peeks reports whether there is something to read, and leaves it there.
func peeks(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
	return !errors.Is(err, syscall.EAGAIN)
}
