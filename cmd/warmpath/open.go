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
	if o.lmcache, err = newLMCache(cfg, log); err != nil {
		o.close()
	}
	return o, err
}

func (o *opened) close() {
	o.lmcache.close()
	closeAll(o.traffic, o.admins, o.workers, o.replicas, o.extproc)
}

// listen opens both ports, so that a port in use is an error before the router runs.
func listen(cfg *config.Config, held sockets) (traffic, admins net.Listener, err error) {
	if traffic, err = held.listen("traffic", cfg.Listen); err != nil {
		return nil, nil, fmt.Errorf("cannot listen for traffic: %w%s", err, another(err, "--listen (listen in the file)"))
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
			err = fmt.Errorf("cannot listen for admin: %w%s", err, another(err, "--admin (admin.listen in the file; off for none)"))
		}
	}
	if err != nil {
		closeAll(traffic)
		return nil, nil, err
	}
	return traffic, admins, nil
}

// another names the setting that chooses another port, where one is in use.
func another(err error, setting string) string {
	if errors.Is(err, syscall.EADDRINUSE) {
		return ": choose another with " + setting
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
