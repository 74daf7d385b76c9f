package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/tracing"
)

// watchers makes what looks on without acting: the KV events, the recording, shadows, what stands in for
// trtllm-serve, and traces.
func (r *router) watchers(ctx context.Context, cfg *config.Config, b build, log *slog.Logger) (tracer *tracing.Tracer, err error) {
	if r.events, err = r.newEvents(cfg); err != nil {
		return nil, err
	}
	if r.recording, err = newRecording(cfg, b, log); err != nil {
		return nil, err
	}
	if r.shadow, err = newShadow(cfg, log); err != nil {
		return nil, err
	}
	if r.trt, err = newTRTServe(cfg, b, &http.Client{Transport: r.transport}, log); err != nil {
		return nil, err
	}
	tracer, r.untrace, err = tracing.New(ctx, tracing.Config{
		Endpoint: cfg.Tracing.Endpoint, SampleRatio: cfg.Tracing.SampleRatio, ServiceName: cfg.Tracing.ServiceName, Version: b.Version, Log: log,
	})
	return tracer, err
}

// watch lets it look on until ctx ends.
func (r *router) watch(ctx context.Context, m *metrics.Metrics) {
	r.why.run(ctx, m)
	r.runShadow(ctx, m)
	r.recording.run(ctx, m)
}
