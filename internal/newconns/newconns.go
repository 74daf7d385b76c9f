// Package newconns closes the connections that have not asked for anything yet when an HTTP server stops. It owns the
// set of them, and says what else new ones lack: a place (bound.go), a plain first byte (plain.go), or requests that
// can be read in one way only (ambiguous.go). It promises that no connection is closed from which the head of a request
// has been read before that request is answered. It never stops a server.
package newconns

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// pending is the connections that have not asked for anything yet.
type pending struct {
	conns sync.Map // of net.Conn
	count atomic.Int64
}

// Watch has a server close them when it takes no new ones any more. Load balancers and browsers open connections ahead
// of need; a server that stops waits 5 s for the first request on each of them (net/http, Server.Shutdown), although it
// would be refused.
func Watch(server *http.Server) {
	s := &pending{}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Store(c, nil)
			s.count.Add(1)
		} else if s.count.Load() > 0 { // twice for each request, nearly always of a connection that has asked before
			if _, was := s.conns.LoadAndDelete(c); was {
				s.count.Add(-1)
			}
		}
	}
	server.RegisterOnShutdown(func() {
		s.conns.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close()
			return true
		})
	})
}
