package main

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// silent keeps the connections that have not asked for anything yet, such as load balancers and browsers open ahead of need. A server
// that stops waits 5 s for the first request on each of them (net/http, Server.Shutdown), although it would be refused.
type silent struct {
	conns sync.Map // of net.Conn
	count atomic.Int64
}

// watch has the server tell of its connections, and closes those when it takes no new ones any more.
func (s *silent) watch(server *http.Server) {
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
