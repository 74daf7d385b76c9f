package main

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"

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
	token, err := cfg.Lease.Secret()
	if err != nil {
		r.failed <- err
		return
	}
	s := lease.New(lease.Config{
		Door: &r.doors, Memory: r.doors.current().Budget(), Token: token, Expires: cfg.Lease.Expires, Most: cfg.Lease.Most, Log: r.log,
	})
	r.meter.WatchLeases(s.Open, s.Expired)
	// no time limit on a whole call: one that waits in the queue for an endpoint waits as long as a request may
	at := &http.Server{
		Handler: s, ReadHeaderTimeout: cfg.Timeouts.ReadHeader, IdleTimeout: cfg.Timeouts.KeepAlive, MaxHeaderBytes: int(cfg.Limits.Header),
		ErrorLog:  slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		TLSConfig: r.tlsConfig(func(g *generation) *tls.Config { return g.trafficTLS }),
	}
	r.lessor = &lessor{s, at, urlOf("http", l)}
	serve := at.Serve
	if cfg.TLS.Cert != "" {
		r.lessor.at = strings.Replace(r.lessor.at, "http", "https", 1)
		serve = func(l net.Listener) error { return at.ServeTLS(l, "", "") }
	}
	l = shortage.Proxies(shortage.Listener(l, "leases", r.log))
	r.serve("leases", func() error { return serve(l) })
}

// address is where programs ask, "" where there is no such listener.
func (l *lessor) address() string {
	if l == nil {
		return ""
	}
	return l.at
}

// close ends what is open. The door must have ended its requests.
func (l *lessor) close() {
	if l != nil {
		_ = l.http.Close()
		l.Close()
	}
}
