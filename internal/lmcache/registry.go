package lmcache

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/wholefile"
)

const (
	largestRegistry = 4 << 20
	lookEvery       = time.Second
)

// ReadRegistry reads a registry of decoders: the JSON that is given, or the file that is named.
func ReadRegistry(text string, ranks int) (map[string]handover.Receiver, error) {
	return handover.ReadReceivers(text, ranks, readFile)
}

func readFile(path string) ([]byte, error) { return wholefile.Read(path, largestRegistry) }

// Registry says where decoders receive. A file is followed while the router runs.
type Registry struct {
	path  string // "" for no file
	ranks int
	log   *slog.Logger
	now   atomic.Pointer[handover.Receivers]
	seen  stamp
}

// stamp tells one state of a file from another.
type stamp struct {
	size int64
	at   time.Time
}

// NewRegistry begins with fixed, and with the registry that text is or names, unless that is "". ranks is what
// ParseReceivers is told.
func NewRegistry(text string, ranks int, fixed handover.Receivers, log *slog.Logger) (*Registry, error) {
	r := &Registry{ranks: ranks, log: log}
	if text != "" {
		if !handover.InlineReceivers(text) {
			r.path = text
			r.seen = r.stamp()
		}
		var err error
		if fixed.Registry, err = ReadRegistry(text, ranks); err != nil {
			return nil, err
		}
	}
	r.now.Store(&fixed)
	return r, nil
}

// Of is where an endpoint receives; false when that is not known.
func (r *Registry) Of(e fleet.Endpoint) (handover.Receiver, bool) { return r.now.Load().Of(e) }

// Run follows the file until ctx ends. What is wrong with it is logged, and what it said before stays.
func (r *Registry) Run(ctx context.Context) {
	if r.path == "" {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look()
		}
	}
}

func (r *Registry) stamp() (s stamp) {
	if info, err := os.Stat(r.path); err == nil {
		s = stamp{info.Size(), info.ModTime()}
	}
	return s
}

// look reads the file again when it has changed.
func (r *Registry) look() {
	now := r.stamp()
	if now == r.seen {
		return
	}
	r.seen = now
	found, err := ReadRegistry(r.path, r.ranks)
	if err != nil {
		r.log.Warn("decoder registry is not taken over, the former one stays", "file", r.path, "error", err)
		return
	}
	next := *r.now.Load()
	next.Registry = found
	r.now.Store(&next)
	r.log.Info("decoder registry read", "file", r.path, "decoders", len(found))
}
