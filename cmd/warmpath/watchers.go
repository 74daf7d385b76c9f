package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/internal/trtserve"
	"github.com/warmpath/warmpath/route"
)

// watchers is what looks on without acting, and what stands in for trtllm-serve disaggregated.
type watchers struct {
	why       *why
	events    *kvevents.Follower
	recording recording
	shadows   shadows
	trt       *trtserve.Server // nil unless the router stands in for trtllm-serve disaggregated
	tracer    *tracing.Tracer
	untrace   func(context.Context) error
}

// newWatchers makes all of them but why. observe is given what engines tell of their KV caches.
func newWatchers(ctx context.Context, cfg *config.Config, b build, client *http.Client, observe func(route.Event), log *slog.Logger) (w watchers, err error) {
	if w.events, err = newEvents(cfg, client, observe, log); err != nil {
		return w, err
	}
	if w.recording, err = newRecording(cfg, b, log); err != nil {
		return w, err
	}
	if w.shadows, err = newShadows(cfg, log); err != nil {
		return w, err
	}
	if w.trt, err = newTRTServe(cfg, b, client, log); err != nil {
		return w, err
	}
	if err = w.events.Listen(ctx); err != nil { // late: nothing closes its ports where another fault ends the start
		return w, err
	}
	w.tracer, w.untrace, err = tracing.New(ctx, tracing.Config{
		Endpoint: cfg.Tracing.Endpoint, SampleRatio: cfg.Tracing.SampleRatio, ServiceName: cfg.Tracing.ServiceName, Version: b.Version, Log: log,
	})
	return w, err
}

// watch lets them look on until ctx ends.
func (w *watchers) watch(ctx context.Context, m *metrics.Metrics, wg *sync.WaitGroup, log *slog.Logger) {
	w.why.run(ctx, m)
	w.shadows.run(ctx, m, wg, log)
	w.recording.run(ctx, m)
}
