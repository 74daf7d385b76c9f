package h1

import (
	"net"
	"time"
)

// BoundListener returns l with connections whose Write fails if the client has not taken all of it within stall; 0 is
// no limit. This also bounds net/http's flush after a handler has returned. On Linux a client whose machine or network
// is gone is noticed within stall too: what was written to it lies in the kernel, which tries for a quarter of an hour.
func BoundListener(l net.Listener, stall time.Duration) net.Listener {
	return &listener{Listener: l, stall: stall, of: bound}
}

// LeanListener is a BoundListener with connections that cost a server less CPU time: they read ahead, and their system
// calls are as cheap as those of a Client's connections. Its stall begins with the first wait of a Write for the
// client.
func LeanListener(l net.Listener, stall time.Duration) net.Listener {
	return &listener{Listener: l, stall: stall, of: serve}
}

type listener struct {
	net.Listener
	stall time.Duration
	of    func(c net.Conn, stall time.Duration) net.Conn // makes a server's connection of one that was accepted
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok && l.stall > 0 {
		boundAcks(tcp, l.stall)
	}
	return l.of(c, l.stall), nil
}
