package main

import (
	"context"
	"log/slog"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/lmcache"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/proxy"
)

// lmCache has the parts of the connector lmcache besides HTTP; nil with another connector.
type lmCache struct {
	registry *lmcache.Registry
	socket   *lmcache.Socket // nil if notifications of prefillers are not awaited
}

// newLMCache reads where decoders receive, and opens the socket for prefillers' notifications.
func newLMCache(cfg *config.Config, log *slog.Logger) (*lmCache, error) {
	d := cfg.Disaggregation
	if e, _ := d.Effective(); e.Connector != "lmcache" {
		return nil, nil
	}
	fixed, err := d.Receivers()
	if err != nil {
		return nil, err
	}
	l := &lmCache{}
	if l.registry, err = lmcache.NewRegistry(d.DecoderRegistry, d.DecoderRanks, fixed, log); err != nil {
		return nil, err
	}
	if address := d.NotifyAddress(); address != "" {
		if l.socket, err = lmcache.Listen(address, d.NotifyTimeout, log); err != nil {
			return nil, err
		}
		log.Info("listening for notifications of prefillers", "address", l.socket.Addr())
	}
	return l, nil
}

// extend adds them to the door's configuration.
func (l *lmCache) extend(c proxy.Config) proxy.Config {
	if l == nil {
		return c
	}
	c.Receiver = l.registry.Of
	if l.socket != nil {
		c.Notices = l.socket.Expect
	}
	return c
}

// run watches the registry until ctx ends.
func (l *lmCache) run(ctx context.Context) {
	if l != nil {
		l.registry.Run(ctx)
	}
}

// watch adds the notifications to the metrics.
func (l *lmCache) watch(m *metrics.Metrics) {
	if l != nil && l.socket != nil {
		m.WatchLMCache(func() metrics.Notifications { return metrics.Notifications(l.socket.Counts()) })
	}
}

// close ends the socket.
func (l *lmCache) close() {
	if l != nil && l.socket != nil {
		l.socket.Close()
	}
}
