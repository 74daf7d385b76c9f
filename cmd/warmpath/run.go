package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/asynclog"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/tune"
)

// serve runs a router until ctx ends or one of its listeners fails, and drains it.
func serve(ctx context.Context, e env, cfg *config.Config) error {
	log, lines := newLogger(e.stderr, cfg.Log)
	defer lines.Close(logWait)
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	tuning, stopTuning := context.WithCancel(context.Background())
	var tuners sync.WaitGroup
	defer tuners.Wait()
	defer stopTuning()
	if os.Getenv("GOGC") == "" { // who sets it decides
		tuners.Go(func() { tune.GC(tuning) })
	}
	r, err := start(ctx, cfg, e.version, log)
	if err != nil {
		return err
	}
	r.meter.WatchLog(lines)
	if os.Getenv("GOMAXPROCS") == "" {
		tuners.Go(func() { tune.Processors(tuning) })
	}
	talk := e.stdout
	if cfg.Explain.File == explain.Stdout {
		talk = e.stderr // standard output holds lines of JSON and nothing else
	}
	if !e.terminal {
		defer passOverHangups(log)()
	}
	fmt.Fprintf(talk, "warmpath %s, policy %s, on %s\n", e.version.Version, cfg.Policy.Name, r.url)
	if r.adminURL != "" {
		fmt.Fprintf(talk, "admin and metrics on %s\n", r.adminURL)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping: no new requests, running ones may end", "deadline", cfg.Timeouts.Drain)
	case err = <-r.failed:
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Timeouts.Drain)
	defer cancel()
	if stopped := r.stop(deadline); err == nil {
		err = stopped
	}
	return err
}

// passOverHangups ignores SIGHUP, which makes other servers read their files again; undo ends that. It is not called in a terminal, where
// SIGHUP means that the terminal is closed.
func passOverHangups(log *slog.Logger) (undo func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			log.Info("SIGHUP is passed over: the file of endpoints is watched, the rest is read at the start only")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

// logWait is how long the last lines of the log may take to be written.
const logWait = 2 * time.Second

// newLogger makes the logger of a valid cfg. Logging never waits for w. Close the handler to flush it.
func newLogger(w io.Writer, cfg config.Log) (*slog.Logger, *asynclog.Handler) {
	level := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Level]
	o := &slog.HandlerOptions{Level: level}
	var to slog.Handler = slog.NewTextHandler(w, o)
	if cfg.Format == "json" {
		to = slog.NewJSONHandler(w, o)
	}
	h := asynclog.New(to)
	return slog.New(h), h
}
