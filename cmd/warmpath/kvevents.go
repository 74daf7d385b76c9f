package main

import (
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/route"
)

// placed has the tokens of requests asked for where the configuration says so; nil when nobody asks.
func (r *router) placed(cfg *config.Config) func(*route.Decision, []byte) {
	if !cfg.KVEvents.Tokenize {
		return nil
	}
	return r.events.Placed
}

// eventFigures tells the metrics what the event streams brought.
type eventFigures struct{ f *kvevents.Follower }

// Figures are the counts by endpoint, and how many requests' tokens could not be had.
func (e eventFigures) Figures() (out []metrics.EndpointKV, unasked uint64) {
	for _, x := range e.f.Figures() {
		out = append(out, metrics.EndpointKV{Endpoint: x.Endpoint, Counts: x.Counts})
	}
	return out, e.f.Unasked()
}
