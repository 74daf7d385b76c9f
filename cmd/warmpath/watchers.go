package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/otlp"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/internal/trtserve"
)

// watchers are the parts that observe without deciding, and the replacement of trtllm-serve disaggregated.
type watchers struct {
	why       *why
	events    *kvevents.Follower
	recording *recording
	salts     map[string]version // the file of the recording's salt, as it was read
	access    *access
	shadows   *shadows
	trt       *trtserve.Server // nil unless the router replaces trtllm-serve disaggregated
	tracer    *tracing.Tracer
	untrace   func(context.Context) error

	collector      *otlp.Collector // of spans and metrics
	collectorFiles map[string]version
	measured       bool // metrics are on their way to it, if they are wanted

	hearing *task // subscription to events
}

// make makes all of them, or takes over those of the previous generation with the same settings.
func (w *watchers) make(
	ctx context.Context, r *router, g, before *generation, same func(func(*config.Config) any) bool,
) (err error) {
	cfg := g.cfg
	if before != nil {
		*w = before.watchers
	}
	if !same(func(c *config.Config) any { return []any{c.Explain, c.Sessions.HashOnly} }) {
		if w.why, err = newWhy(cfg, r.log); err != nil {
			return err
		}
	}
	if before == nil || g.transport != before.transport ||
		!same(func(c *config.Config) any { return []any{c.KVEvents, c.Tokenizer()} }) {
		w.hearing = nil
		if w.events, err = newEvents(cfg, g.client, r.observe, r.log); err != nil {
			return err
		}
	}
	salts := versions([]string{cfg.Record.SaltFile})
	if !same(func(c *config.Config) any { return []any{c.Record, c.Tenants.CacheSalt} }) ||
		!maps.Equal(salts, w.salts) {
		w.salts = salts
		if w.recording, err = newRecording(cfg, r.build, r.log); err != nil {
			return err
		}
	}
	if !same(func(c *config.Config) any { return c.AccessLog }) {
		if w.access, err = newAccess(cfg, r.log); err != nil {
			return err
		}
	}
	if !same(func(c *config.Config) any { return []any{c.Shadow, c.Policy, c.Sessions} }) {
		if w.shadows, err = newShadows(cfg, r.log); err != nil {
			return err
		}
	}
	if before == nil {
		if w.trt, err = newTRTServe(cfg, r.build, r.source, g.client, r.log); err != nil {
			return err
		}
	}
	if files := versions(cfg.OTLP.Files()); !maps.Equal(files, w.collectorFiles) ||
		!same(func(c *config.Config) any { return []any{collectorSettings(c), c.Tracing} }) {
		w.collectorFiles, w.measured = files, false
		if err = w.trace(ctx, cfg, r); err != nil {
			return err
		}
	}
	if before == nil {
		return w.events.Listen(ctx) // last: a later error would leave its ports open
	}
	return nil
}

// trace makes the way to the collector, and what sends spans there.
func (w *watchers) trace(ctx context.Context, cfg *config.Config, r *router) error {
	to, err := collectorOf(cfg, r.build, r.log)
	if err != nil {
		return err
	}
	if w.collector, err = otlp.Open(context.WithoutCancel(ctx), to); err != nil {
		return err
	}
	w.tracer, w.untrace = tracing.New(tracing.Config{
		To: w.collector.Spans(), About: w.collector.About(), SampleRatio: cfg.Tracing.SampleRatio,
		Version: r.build.Version,
	})
	return nil
}

// watch starts those that do not run yet, until ctx ends.
func (w *watchers) watch(ctx context.Context, r *router) {
	w.why.run(ctx, r.meter)
	w.shadows.run(ctx, r.meter, r.log)
	w.recording.run(ctx, r.meter)
	w.access.run(ctx, r.meter)
	if !w.measured {
		w.measured = true
		if err := w.collector.Measure(context.WithoutCancel(ctx), r.meter); err != nil {
			r.log.Error("metrics are not sent to the collector", "error", err)
		}
	}
	if w.hearing == nil {
		events := w.events
		r.meter.WatchKVEvents(func() metrics.KVEvents { return eventFigures(events) })
		w.hearing = begin(ctx, w.events.Run)
	}
}

// end ends those that the next generation has not taken over.
func (w *watchers) end(now *watchers) {
	if w.why != now.why {
		w.why.writing.end()
	}
	if w.shadows != now.shadows {
		w.shadows.judging.end()
	}
	if w.recording != now.recording {
		w.recording.writing.end()
	}
	if w.access != now.access {
		w.access.writing.end()
	}
	if w.events != now.events {
		w.hearing.end()
	}
}

// flush delivers what is left for the collector, within flushWait, and ends its delivery. What does not reach it is no
// fault of the router's: it is logged.
func (w *watchers) flush(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), flushWait)
	defer cancel()
	if err := errors.Join(w.untrace(ctx), w.collector.Close(ctx)); err != nil {
		log.Warn("the last of it did not reach the collector", "error", err)
	}
}

// wait waits until all have ended.
func (w *watchers) wait() {
	w.hearing.wait(0)
	w.shadows.judging.wait(0)
	for _, t := range []*task{w.why.writing, w.recording.writing, w.access.writing} {
		t.wait(2 * time.Second)
	}
}
