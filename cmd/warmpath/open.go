package main

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// opened is what a router takes hold of before it runs: ports, and files and names that declare endpoints.
type opened struct {
	traffic, admins net.Listener
	workers         net.Listener // where workers register; nil unless they have a listener of their own
	lmcache         *lmCache
	sources         []discovery.Runner
	static          []fleet.Endpoint
}

// open takes hold of all of it, or of nothing.
func open(cfg *config.Config, log *slog.Logger) (o opened, err error) {
	if o.traffic, o.admins, err = listen(cfg); err != nil {
		return o, err
	}
	if c := &cfg.TRTLLM.Cluster; c.Listen != "" && c.Storage() {
		if o.workers, err = net.Listen("tcp", c.Listen); err != nil {
			o.close()
			return o, fmt.Errorf("cannot listen for workers: %w", err)
		}
	}
	if o.lmcache, err = newLMCache(cfg, log); err == nil {
		o.sources, o.static, err = openSources(cfg, log)
	}
	if err != nil {
		o.close()
	}
	return o, err
}

func (o *opened) close() {
	o.lmcache.close()
	closeAll(o.traffic, o.admins, o.workers)
}

// openSources reads what the configuration declares: the static endpoints, and the sources that follow the world.
func openSources(cfg *config.Config, log *slog.Logger) (sources []discovery.Runner, static []fleet.Endpoint, err error) {
	var keys discovery.Keys
	if static, err = discovery.Endpoints(cfg.Endpoints, keys); err != nil {
		return nil, nil, err
	}
	if cfg.Discovery.File != "" {
		f, err := discovery.NewFile(cfg.Discovery.File, keys, log)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, f)
	}
	for _, c := range cfg.Discovery.DNS {
		d, err := discovery.NewDNS(c, net.DefaultResolver, keys, log)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, d)
	}
	return sources, static, nil
}

// listen opens both ports, so that a port in use is an error before anything runs.
func listen(cfg *config.Config) (traffic, admins net.Listener, err error) {
	if traffic, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, nil, fmt.Errorf("cannot listen for traffic: %w", err)
	}
	if cfg.Admin.Listen == "" {
		return traffic, nil, nil
	}
	if err = admin.CheckListen(cfg.Admin.Listen, cfg.Admin.Token); err == nil {
		if admins, err = net.Listen("tcp", cfg.Admin.Listen); err != nil {
			err = fmt.Errorf("cannot listen for admin: %w", err)
		}
	}
	if err != nil {
		closeAll(traffic)
		return nil, nil, err
	}
	return traffic, admins, nil
}

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close()
		}
	}
}
