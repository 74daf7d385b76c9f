package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/explain"
)

// serve runs a router until ctx ends or one of its listeners fails, and drains it.
func serve(ctx context.Context, e env, cfg *config.Config) error {
	log := newLogger(e.stderr, cfg.Log)
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	tuning, stopTuning := context.WithCancel(context.Background())
	defer stopTuning()
	go tuneGC(tuning)
	r, err := start(ctx, cfg, e.version, log)
	if err != nil {
		return err
	}
	talk := e.stdout
	if cfg.Explain.File == explain.Stdout {
		talk = e.stderr // standard output holds lines of JSON and nothing else
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

// newLogger writes what cfg asks for; its words are checked already.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	level := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Level]
	o := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
