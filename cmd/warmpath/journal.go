package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/asynclog"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/otlp"
	"github.com/warmpath/warmpath/internal/wholelines"
)

// flushWait is how long what is left for a collector may take to be delivered, when it is told no more.
const flushWait = 2 * time.Second

// collectorOf is the OpenTelemetry collector of a configuration, and how this router is called there: by its host and
// the port of its traffic, as Prometheus would call it.
func collectorOf(cfg *config.Config, b build, log *slog.Logger) (otlp.Config, error) {
	o := cfg.OTLP
	secure, err := o.TLS()
	if err != nil {
		return otlp.Config{}, err
	}
	instance, _ := os.Hostname()
	if _, port, err := net.SplitHostPort(cfg.Listen); err == nil {
		instance = net.JoinHostPort(instance, port)
	}
	return otlp.Config{
		Endpoint: o.Endpoint, GRPC: o.GRPC(), Spans: o.Traces(), Metrics: o.Metrics(), Logs: o.Logs(),
		SpansTo: cfg.Tracing.Endpoint, Headers: o.Headers, TLS: secure, Interval: o.Interval,
		Service: cfg.Tracing.ServiceName, Instance: instance, Version: b.Version, Log: log,
	}, nil
}

// collectorSettings are the settings that collectorOf reads. Their files count too.
func collectorSettings(c *config.Config) any {
	return []any{c.OTLP, c.Tracing.Endpoint, c.Tracing.ServiceName, c.Listen}
}

// journal is the router's log: on standard error, and at a collector. Logging never waits for either.
type journal struct {
	*slog.Logger
	lines     *asynclog.Handler // what is written
	style     style
	collector *otlp.Logs
	build     build
	settings  any // those that the collector was told by
	files     map[string]version
}

// newJournal makes the log of a valid cfg. Close flushes it.
func newJournal(w io.Writer, b build, cfg *config.Config) *journal {
	j := &journal{build: b}
	o := &slog.HandlerOptions{Level: &j.style.level}
	w = wholelines.To(w)
	j.lines = asynclog.New(&styled{text: slog.NewTextHandler(w, o), json: slog.NewJSONHandler(w, o), as: &j.style})
	j.collector = otlp.NewLogs(&j.style.level)
	j.Logger = slog.New(slog.NewMultiHandler(j.lines, j.collector.Handler()))
	j.follow(cfg)
	return j
}

// follow writes and sends further lines as cfg says.
func (j *journal) follow(cfg *config.Config) {
	j.style.set(cfg.Log)
	settings, files := collectorSettings(cfg), versions(cfg.OTLP.Files())
	if reflect.DeepEqual(settings, j.settings) && reflect.DeepEqual(files, j.files) {
		return
	}
	j.settings, j.files = settings, files
	to, err := collectorOf(cfg, j.build, j.Logger)
	if err == nil {
		err = j.send(to, flushWait)
	}
	if err != nil {
		j.Error("log lines are not sent to the collector", "error", err)
	}
}

// send has further lines sent as cfg says, and those left sent as before, within wait.
func (j *journal) send(cfg otlp.Config, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return j.collector.Use(ctx, cfg)
}

// Close has what is queued written and sent, and waits for that, but no longer than it is told for each.
func (j *journal) Close(wait time.Duration) {
	if err := j.send(otlp.Config{}, wait); err != nil {
		j.Warn("the last log lines did not reach the collector", "error", err)
	}
	j.lines.Close(wait)
}

// style is how log lines are written.
type style struct {
	level slog.LevelVar
	json  atomic.Bool
}

func (s *style) set(cfg config.Log) {
	s.level.Set(map[string]slog.Level{
		"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError,
	}[cfg.Level])
	s.json.Store(cfg.Format == "json")
}

// styled is a handler that writes in the current style.
type styled struct {
	text, json slog.Handler
	as         *style
}

func (s *styled) now() slog.Handler {
	if s.as.json.Load() {
		return s.json
	}
	return s.text
}

// Enabled uses the current level.
func (s *styled) Enabled(ctx context.Context, l slog.Level) bool { return s.now().Enabled(ctx, l) }

// Handle writes a line.
func (s *styled) Handle(ctx context.Context, r slog.Record) error { return s.now().Handle(ctx, r) }

// WithAttrs returns a handler that follows the same style.
func (s *styled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &styled{text: s.text.WithAttrs(attrs), json: s.json.WithAttrs(attrs), as: s.as}
}

// WithGroup returns a handler that follows the same style.
func (s *styled) WithGroup(name string) slog.Handler {
	return &styled{text: s.text.WithGroup(name), json: s.json.WithGroup(name), as: s.as}
}
