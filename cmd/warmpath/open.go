package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
)

// opened has the listeners that a router opens before it runs.
type opened struct {
	traffic, admins net.Listener
	workers         net.Listener // where workers register; nil without a listener of their own
	replicas        net.Listener // for other routers; nil without any
	extproc         net.Listener // for Envoy; nil without external processing
	leases          net.Listener // for programs that send requests themselves; nil without
	lmcache         *lmCache
}

// open opens all listeners, or none, so that a port in use is an error before the router runs.
func open(cfg *config.Config, held sockets, log *slog.Logger) (o opened, err error) {
	admins := cfg.Admin.Listen
	if l := held["admin"]; l != nil && admins != "" {
		admins = strings.TrimPrefix(urlOf("", l), "://")
	}
	where := func(on bool, at string) string {
		if on {
			return at
		}
		return ""
	}
	cluster := &cfg.TRTLLM.Cluster
	if admins != "" {
		if err = admin.CheckListen(admins, cfg.Admin.Token); err != nil {
			return o, err
		}
	}
	for _, l := range []struct {
		into             *net.Listener
		name, at         string
		whom             string
		setting, example string
	}{
		{&o.traffic, "traffic", cfg.Listen, "traffic", "--listen (listen in the file)", "127.0.0.1:8080"},
		{&o.admins, "admin", admins, "admin", "--admin (admin.listen in the file; off for none)", "127.0.0.1:9190"},
		{
			&o.workers, "workers", where(cluster.Storage(), cluster.Listen), "workers", "trtllm.cluster.listen",
			"127.0.0.1:8333",
		},
		{
			&o.replicas, "peers", cfg.Peers.Listen, "other routers", "--peer-listen (peers.listen in the file)",
			"127.0.0.1:7946",
		},
		{
			&o.extproc, "extproc", where(cfg.ExtProc.On(), cfg.ExtProc.Listen), "external processing",
			"--extproc (extproc.listen in the file)", pickerAddress,
		},
		{&o.leases, "lease", where(cfg.Lease.On(), cfg.Lease.Listen), "leases", "lease.listen", "127.0.0.1:8090"},
	} {
		if l.at == "" {
			continue
		}
		if *l.into, err = held.listen(l.name, l.at); err != nil {
			o.close()
			return o, fmt.Errorf("cannot listen for %s: %w%s", l.whom, err, listenHint(err, l.setting, l.example))
		}
	}
	if o.lmcache, err = newLMCache(cfg, log); err != nil {
		o.close()
	}
	return o, err
}

func (o *opened) close() {
	o.lmcache.close()
	closeAll(o.traffic, o.admins, o.workers, o.replicas, o.extproc, o.leases)
}

// listenHint says what to do about an address that cannot be listened on, with the setting that names it and a good
// value.
func listenHint(err error, setting, example string) string {
	var address *net.AddrError
	var name *net.DNSError
	var socket *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return ": choose another with " + setting
	case errors.Is(err, syscall.EACCES) && errors.As(err, &socket) && strings.HasPrefix(socket.Net, "tcp"):
		return ": ports below 1024 need the capability CAP_NET_BIND_SERVICE; choose another with " + setting
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &name):
		return ": " + setting + " must name an address of this machine, or 0.0.0.0 for all of them"
	case errors.As(err, &address):
		return ": " + setting + " is HOST:PORT, such as " + example
	}
	return ""
}

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close()
		}
	}
}
