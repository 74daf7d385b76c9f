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

// open opens all listeners, or none.
func open(cfg *config.Config, held sockets, log *slog.Logger) (o opened, err error) {
	if o.traffic, o.admins, err = listen(cfg, held); err != nil {
		return o, err
	}
	if c := &cfg.TRTLLM.Cluster; c.Listen != "" && c.Storage() {
		if o.workers, err = held.listen("workers", c.Listen); err != nil {
			o.close()
			return o, fmt.Errorf("cannot listen for workers: %w", err)
		}
	}
	if cfg.Peers.Listen != "" {
		if o.replicas, err = held.listen("peers", cfg.Peers.Listen); err != nil {
			o.close()
			return o, fmt.Errorf("cannot listen for other routers: %w", err)
		}
	}
	if cfg.ExtProc.On() {
		if o.extproc, err = held.listen("extproc", cfg.ExtProc.Listen); err != nil {
			o.close()
			return o, fmt.Errorf("cannot listen for external processing: %w", err)
		}
	}
	if cfg.Lease.On() {
		if o.leases, err = held.listen("lease", cfg.Lease.Listen); err != nil {
			o.close()
			return o, fmt.Errorf("cannot listen for leases: %w", err)
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

// listen opens both ports, so that a port in use is an error before the router runs.
func listen(cfg *config.Config, held sockets) (traffic, admins net.Listener, err error) {
	if traffic, err = held.listen("traffic", cfg.Listen); err != nil {
		return nil, nil, fmt.Errorf("cannot listen for traffic: %w%s",
			err, listenHint(err, "--listen (listen in the file)", "127.0.0.1:8080"))
	}
	if cfg.Admin.Listen == "" {
		return traffic, nil, nil
	}
	at := cfg.Admin.Listen
	if l := held["admin"]; l != nil {
		at = strings.TrimPrefix(urlOf("", l), "://")
	}
	if err = admin.CheckListen(at, cfg.Admin.Token); err == nil {
		if admins, err = held.listen("admin", at); err != nil {
			err = fmt.Errorf("cannot listen for admin: %w%s",
				err, listenHint(err, "--admin (admin.listen in the file; off for none)", "127.0.0.1:9190"))
		}
	}
	if err != nil {
		closeAll(traffic)
		return nil, nil, err
	}
	return traffic, admins, nil
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
