package h1

import "net"

// Listener returns l with connections that cost a server less CPU time: they read ahead, their system calls are as cheap as those of a
// Client's connections, and they are Peers.
func Listener(l net.Listener) net.Listener { return &listener{Listener: l} }

type listener struct {
	net.Listener
	departures departures
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.departures.serve(c), nil
}

// Close ends accepting. The connections go on.
func (l *listener) Close() error {
	l.departures.close()
	return l.Listener.Close()
}
