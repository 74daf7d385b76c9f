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
	for _, say := range []string{"", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
		ended := make(chan struct{})
		e := staleEngine(t, func(c net.Conn, _ *bufio.Reader) {
			io.WriteString(c, say)
			c.Close()
			close(ended)
		})
		c := newClient(t, Config{})
		if _, _, err := fetch(c, get(t.Context(), t, e.url)); err != nil {
			t.Fatal(err)
		}
		<-ended
		waitReadable(t, c)
		_, body, err := fetch(c, post(t, e.url, io.MultiReader(strings.NewReader("abc"))))
		if s := c.Stats(); err != nil || body != "hello" || s.Retried != 0 || s.Reused != 0 || s.Dialed != 2 {
			t.Errorf("got %q, %v, %+v", body, err, s)
		}
	}
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
			err = raw.Read(func(fd uintptr) bool { // waits in the poller; the bytes stay for the probe
				_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
				return !errors.Is(err, syscall.EAGAIN)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
