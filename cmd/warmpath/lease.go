package main

import (
	"crypto/tls"
	"net"
	"net/http"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/lease"
	"github.com/warmpath/warmpath/internal/shortage"
)

// lessor is the router's listener for programs that send requests themselves. A nil one has none.
type lessor struct {
	*lease.Server
	http *http.Server
	at   string
}

// serveLeases serves leases on l, if there are to be some.
func (r *router) serveLeases(cfg *config.Config, l net.Listener) {
	if l == nil {
		return
	}
	s := lease.New(lease.Config{
		Door: &r.doors, Memory: r.doors.current().Budget(), Token: func() string { return *r.token.Load() },
		Expires: cfg.Lease.Expires, Patience: cfg.Timeouts.ReadBody, Most: cfg.Lease.Most, Log: r.log,
	})
	r.meter.WatchLeases(s.Open, s.Expired)
	at := r.server(cfg, s) // a call waits in the queue for as long as a request may
	at.TLSConfig = r.tlsConfig(func(g *generation) *tls.Config { return g.trafficTLS })
	r.lessor = &lessor{s, at, urlOf(schemeOf(cfg.TLS), l)}
	r.serveHTTP("leases", at, shortage.Proxies(shortage.Listener(l, "leases", r.log)), cfg.TLS)
}

// address is where programs ask, "" where there is no such listener.
func (l *lessor) address() string {
	if l == nil {
		return ""
	}
	return l.at
}

// drain has no further leases begin, also where the door goes on for those who are connected (router.stop).
func (l *lessor) drain() {
	if l != nil {
		l.Drain()
	}
}

// close ends what is open. The door must have ended its requests.
func (l *lessor) close() {
	if l != nil {
		_ = l.http.Close()
		l.Close()
	}
}
