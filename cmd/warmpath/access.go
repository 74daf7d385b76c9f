package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/warmpath/warmpath/internal/accesslog"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
)

// access is the part of a router that writes the access log; inactive without one.
type access struct {
	*accesslog.Log
	writing *task // nil if nothing is written, or before it begins
}

func newAccess(cfg *config.Config, log *slog.Logger) (*access, error) {
	if cfg.AccessLog.File == "" {
		return &access{}, nil
	}
	l, err := accesslog.New(cfg.AccessLog.File, cfg.AccessLog.Fields, os.Stderr, log)
	return &access{Log: l}, err
}

// listener receives the requests.
func (a *access) listener() live.Listener {
	if a.Log == nil {
		return live.Listener{}
	}
	return a.Listener()
}

// run writes until ctx ends. If it writes already, the file is opened again.
func (a *access) run(ctx context.Context, m *metrics.Metrics) {
	switch {
	case a.writing != nil:
		a.Reopen()
	case a.Log == nil:
		m.WatchAccessLog(nil)
	default:
		m.WatchAccessLog(a.Log)
		a.writing = begin(ctx, a.Run)
	}
}
