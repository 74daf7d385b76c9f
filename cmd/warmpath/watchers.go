package main

import (
	"context"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/internal/trtserve"
)

// watchers are the parts that observe without deciding, and the replacement of trtllm-serve disaggregated.
type watchers struct {
	why       *why
	events    *kvevents.Follower
	recording *recording
	access    *access
	shadows   *shadows
	trt       *trtserve.Server // nil unless the router replaces trtllm-serve disaggregated
	tracer    *tracing.Tracer
	untrace   func(context.Context) error

	hearing *task // subscription to events
}

// make makes all of them, or takes over those of the previous generation with the same settings.
func (w *watchers) make(ctx context.Context, r *router, g, before *generation, same func(func(*config.Config) any) bool) (err error) {
	cfg := g.cfg
	if before != nil {
		*w = before.watchers
	}
	if !same(func(c *config.Config) any { return []any{c.Explain, c.Sessions.HashOnly} }) {
		if w.why, err = newWhy(cfg, r.log); err != nil {
			return err
		}
	}
	if before == nil || g.transport != before.transport || !same(func(c *config.Config) any { return []any{c.KVEvents, c.Tokenizer()} }) {
		w.hearing = nil
		if w.events, err = newEvents(cfg, g.client, r.observe, r.log); err != nil {
			return err
		}
	}
	if !same(func(c *config.Config) any { return []any{c.Record, c.Tenants.CacheSalt} }) {
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
		if err = w.events.Listen(ctx); err != nil { // last: a later error would leave its ports open
			return err
		}
	}
	if same(func(c *config.Config) any { return c.Tracing }) {
		return nil
	}
	w.tracer, w.untrace, err = tracing.New(context.WithoutCancel(ctx), tracing.Config{
		Endpoint: cfg.Tracing.Endpoint, SampleRatio: cfg.Tracing.SampleRatio, ServiceName: cfg.Tracing.ServiceName, Version: r.build.Version, Log: r.log,
	})
	return err
}

// watch starts those that do not run yet, until ctx ends.
func (w *watchers) watch(ctx context.Context, r *router) {
	w.why.run(ctx, r.meter)
	w.shadows.run(ctx, r.meter, r.log)
	w.recording.run(ctx, r.meter)
	w.access.run(ctx, r.meter)
	if w.hearing == nil {
		r.meter.WatchKVEvents(eventFigures{w.events})
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

// wait waits until all have ended.
func (w *watchers) wait() {
	w.hearing.wait(0)
	w.shadows.judging.wait(0)
	for _, t := range []*task{w.why.writing, w.recording.writing, w.access.writing} {
		t.wait(2 * time.Second)
	}
}
