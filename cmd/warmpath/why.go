package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
)

// why is the part of a router that explains decisions. ring is nil if neither the admin listener nor a file shows them.
type why struct {
	ring    *explain.Ring
	lines   *explain.Lines // nil without a file
	writing *task          // nil without a file, or before it begins
}

func newWhy(cfg *config.Config, log *slog.Logger) (*why, error) {
	w := &why{}
	x := cfg.Explain
	if x.Keep == 0 || cfg.Admin.Listen == "" && x.File == "" {
		return w, nil
	}
	w.ring = explain.NewRing(explain.Config{
		Keep: x.Keep, KeepBytes: int64(x.KeepBytes), HashIDs: cfg.Sessions.HashOnly,
	})
	if x.File == "" {
		return w, nil
	}
	var err error
	w.lines, err = explain.NewLines(w.ring, x.File, int64(x.FileBytes), os.Stdout, log)
	return w, err
}

// on reports whether decisions are kept.
func (w *why) on() bool { return w.ring != nil }

// listener receives the decisions.
func (w *why) listener() live.Listener {
	if !w.on() {
		return live.Listener{}
	}
	return w.ring.Listener()
}

// handler answers GET /admin/decisions; nil if decisions are not kept.
func (w *why) handler() http.Handler {
	if !w.on() {
		return nil
	}
	return w.ring
}

// run writes the file until ctx ends.
func (w *why) run(ctx context.Context, m *metrics.Metrics) {
	switch {
	case w.writing != nil:
	case w.lines == nil:
		m.WatchLines(nil)
	default:
		m.WatchLines(w.lines)
		w.writing = begin(ctx, w.lines.Run)
	}
}
