package shortage_test

import (
	"errors"
	"net"
	"testing"

	"github.com/warmpath/warmpath/internal/shortage"
)

// crowd is a listener at which connections wait.
type crowd struct {
	net.Listener
	conns []net.Conn
}

func (c *crowd) Accept() (net.Conn, error) {
	if len(c.conns) == 0 {
		return nil, net.ErrClosed
	}
	next := c.conns[0]
	c.conns = c.conns[1:]
	return next, nil
}

// TestFew: beyond its number a listener closes connections, and takes others when some have ended, however often they are closed.
func TestFew(t *testing.T) {
	c := &crowd{}
	add := func(n int) {
		for range n {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close() })
			c.conns = append(c.conns, far)
		}
	}
	add(1000)
	l := shortage.Few(c)
	all := func() (open []net.Conn) {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return open
			}
			open = append(open, conn)
		}
	}
	open := all()
	if len(open) < 16 || len(open) > 256 {
		t.Fatalf("%d of 1000 are open", len(open))
	}
	for _, conn := range open[:10] {
		_ = conn.Close()
		_ = conn.Close()
	}
	add(20)
	if again := all(); len(again) != 10 {
		t.Errorf("%d more are open in the place of 10", len(again))
	}
}
