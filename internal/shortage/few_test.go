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

// from is a connection from an address, of which one direction can be ended.
type from struct {
	net.Conn
	addr  *net.TCPAddr
	ended int
}

func (c *from) RemoteAddr() net.Addr { return c.addr }

func (c *from) CloseWrite() error { c.ended++; return nil }

// TestProxies: a listener for proxies takes more connections than one for operators, and more from one address.
func TestProxies(t *testing.T) {
	for name, addr := range map[string]func(int) net.IP{
		"one":  func(int) net.IP { return net.IPv4(10, 0, 0, 1) },
		"many": func(i int) net.IP { return net.IPv4(10, 0, byte(i>>8), byte(i)) },
	} {
		open := map[bool]int{}
		for _, proxies := range []bool{false, true} {
			c := &crowd{}
			for i := range 2000 {
				_, far := net.Pipe()
				c.conns = append(c.conns, &from{Conn: far, addr: &net.TCPAddr{IP: addr(i)}})
			}
			l := shortage.Few(c)
			if proxies {
				l = shortage.Proxies(c)
			}
			for {
				if _, err := l.Accept(); err != nil {
					break
				}
				open[proxies]++
			}
		}
		if open[false] > open[true] || open[true] > 1024 ||
			name == "one" && (open[false] == open[true] || open[true] > 512) {
			t.Errorf("from %s: %d operators and %d proxies", name, open[false], open[true])
		}
	}
}

// TestFew: beyond its number a listener closes connections, and takes others when some have ended, however often they
// are closed.
func TestFew(t *testing.T) {
	c := &crowd{}
	add := func(n int, addr func(int) byte) {
		for i := range n {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close() })
			c.conns = append(c.conns, &from{Conn: far, addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, addr(i))}})
		}
	}
	each, one := func(i int) byte { return byte(i) }, func(int) byte { return 1 }
	add(1000, each)
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
	add(20, each)
	again := all()
	if len(again) != 10 {
		t.Errorf("%d more are open in the place of 10", len(again))
	}
	half, ok := again[0].(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		t.Error("one direction cannot be ended")
	}
	for _, conn := range append(again, open...) {
		_ = conn.Close()
	}
	add(1000, one)
	if mine := all(); len(mine) < 8 || len(mine) > len(open)/2 {
		t.Errorf("one address has %d of %d", len(mine), len(open))
	}
	add(1, each)
	if other := all(); len(other) != 1 {
		t.Error("another address has no place beside one that takes all it can")
	}
}
