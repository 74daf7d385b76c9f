package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warmpath/warmpath/internal/asynclog"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/tune"
)

// serve runs a router until ctx ends or one of its listeners fails, and drains it. load reads the configuration again
// from the same source; file is its file, "" for none.
func serve(ctx context.Context, e env, cfg *config.Config, file string, load func() (config.Config, error)) error {
	log, lines, relog := newLogger(e.stderr, cfg.Log)
	defer lines.Close(logWait)
	if file != "" {
		log.Info("configuration read", "file", file)
	}
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	tuning, stopTuning := context.WithCancel(context.Background())
	var tuners sync.WaitGroup
	defer tuners.Wait()
	defer stopTuning()
	if os.Getenv("GOGC") == "" { // who sets it decides
		tuners.Go(func() { panics.Catch(log, panics.Files, func() { tune.GC(tuning) }) })
	}
	r, err := startOn(ctx, cfg, e.version, inherited(), log)
	if err != nil {
		return err
	}
	r.meter.WatchLog(lines)
	if os.Getenv("GOMAXPROCS") == "" {
		tuners.Go(func() { panics.Catch(log, panics.Files, func() { tune.Processors(tuning) }) })
	}
	talk := e.stdout
	if cfg.Explain.File == explain.Stdout {
		talk = e.stderr // standard output has only lines of JSON
	}
	r.reloadable(file, load, relog)
	if !e.terminal {
		defer obeyHangups(r)()
	}
	greet(talk, e, r, cfg, log)
	notify(daemon.SdNotifyReady)
	select {
	case <-ctx.Done():
		// in JSON a duration would be a number
		log.Info("stopping: no new requests, running ones are completed", "deadline", r.current().cfg.Timeouts.Drain.String())
	case err = <-r.failed:
	}
	notify(daemon.SdNotifyStopping)
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.current().cfg.Timeouts.Drain)
	defer cancel()
	stopped := r.stop(deadline)
	if stopped == nil {
		log.Info("stopped: all requests have ended")
	}
	if err == nil {
		err = stopped
	}
	return err
}

// obeyHangups reloads the configuration at each SIGHUP; undo ends that. It is not used in a terminal, where SIGHUP
// means that the terminal was closed.
func obeyHangups(r *router) (undo func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hangups {
			_, _ = r.reload() // it logs faults
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}

// logWait is how long the last lines of the log may take to be written.
const logWait = 2 * time.Second

// newLogger makes the logger of a valid cfg. Logging never waits for w. Close the handler to flush it. again changes
// the style of further lines.
func newLogger(w io.Writer, cfg config.Log) (log *slog.Logger, lines *asynclog.Handler, again func(config.Log)) {
	as := &style{}
	as.set(cfg)
	o := &slog.HandlerOptions{Level: &as.level}
	lines = asynclog.New(&styled{text: slog.NewTextHandler(w, o), json: slog.NewJSONHandler(w, o), as: as})
	return slog.New(lines), lines, as.set
}

// style is how log lines are written.
type style struct {
	level slog.LevelVar
	json  atomic.Bool
}

func (s *style) set(cfg config.Log) {
	s.level.Set(map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Level])
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

// greet says where the router listens: to people, or to what reads JSON.
func greet(w io.Writer, e env, r *router, cfg *config.Config, log *slog.Logger) {
	picker := r.picker.address()
	if cfg.Log.Format == "json" {
		attrs := []any{"version", e.version.Version, "policy", cfg.Policy.Name, "url", r.url}
		for _, f := range [][2]string{{"admin", r.adminURL}, {"extproc", picker}, {"lease", r.lessor.address()}} {
			if f[1] != "" {
				attrs = append(attrs, f[0], f[1])
			}
		}
		log.Info("listening", attrs...)
		return
	}
	fmt.Fprintf(w, "warmpath %s, policy %s, on %s\n", e.version.Version, cfg.Policy.Name, r.url)
	if r.adminURL != "" {
		fmt.Fprintf(w, "status page, admin and metrics on %s\n", r.adminURL)
	}
	if picker != "" {
		fmt.Fprintf(w, "external processing for Envoy on %s\n", picker)
	}
	if at := r.lessor.address(); at != "" {
		fmt.Fprintf(w, "leases for programs that send requests themselves on %s\n", at)
	}
}
