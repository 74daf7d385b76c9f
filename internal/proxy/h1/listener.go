package h1

import "net"

// Listener returns l with connections that cost a server less CPU time: they read ahead, and their system calls are as
// cheap as those of a Client's connections.
func Listener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lean(c, true), nil
}
