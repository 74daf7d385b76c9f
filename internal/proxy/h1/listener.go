package h1

import (
	"net"
	"time"
)

// Listener returns l with connections that cost a server less CPU time: they read ahead, their system calls are as cheap as
// those of a Client's connections, and they are Peers. A Write fails if the client has not taken all of it within stall after
// the first wait for the client; 0 is no limit. This also bounds net/http's flush after a handler has returned.
func Listener(l net.Listener, stall time.Duration) net.Listener {
	return &listener{Listener: l, stall: stall}
}

// BoundListener returns l with ordinary connections, but with the same bound on a Write. It serves net/http where the
// connections of Listener are switched off.
func BoundListener(l net.Listener, stall time.Duration) net.Listener {
	return &boundListener{Listener: l, stall: stall}
}

type boundListener struct {
	net.Listener
	stall time.Duration
}

// Accept waits for the next connection.
func (l *boundListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.stall <= 0 {
		return c, err
	}
	return newBoundConn(c, l.stall), nil
}

type listener struct {
	net.Listener
	stall       time.Duration
	disconnects disconnects
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.disconnects.serve(c, l.stall), nil
}

// Close ends accepting. Accepted connections stay open.
func (l *listener) Close() error {
	l.disconnects.close()
	return l.Listener.Close()
}
