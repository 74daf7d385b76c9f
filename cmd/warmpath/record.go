package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/record"
)

// recording is the part of a router that records its traffic; inactive if not configured.
type recording struct {
	*record.Recorder
	writing *task // nil if nothing is written, or before it begins
}

func newRecording(cfg *config.Config, b build, log *slog.Logger) (*recording, error) {
	if cfg.Record.File == "" {
		return &recording{}, nil
	}
	salt, err := cfg.Record.SaltBytes()
	if err != nil {
		return nil, err
	}
	if len(salt) == 0 {
		salt = make([]byte, 32)
		_, _ = rand.Read(salt) // never fails
	}
	r, err := record.New(record.Config{
		File: cfg.Record.File, FileBytes: int64(cfg.Record.FileBytes), Files: cfg.Record.Files, Salt: salt,
		Version: b.Version, PerTenant: cfg.Tenants.CacheSalt,
	}, time.Now(), log)
	return &recording{Recorder: r}, err
}

// listener receives the traffic.
func (r *recording) listener() live.Listener {
	if r.Recorder == nil {
		return live.Listener{}
	}
	return r.Listener()
}

// run writes until ctx ends.
func (r *recording) run(ctx context.Context, m *metrics.Metrics) {
	switch {
	case r.writing != nil:
	case r.Recorder == nil:
		m.WatchRecording(nil)
	default:
		m.WatchRecording(r.Recorder)
		r.writing = begin(ctx, r.Run)
	}
}
