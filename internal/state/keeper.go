package state

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/route"
)

// Fleet is a router whose state is kept; live.Fleet is one.
type Fleet interface {
	// Snapshot hands out all pieces of a snapshot, in order, until f returns false.
	Snapshot(f func(*route.Piece) bool)
	// Restore takes in the pieces of a snapshot that was kept for later since.
	Restore(pieces []route.Piece, later time.Duration)
}

// Config says where and how often.
type Config struct {
	File  string
	Every time.Duration
	Most  int64 // bytes of the file
}

// Keeper keeps the state of a router in a file.
type Keeper struct {
	config Config
	fleet  Fleet
	now    func() time.Time
	log    *slog.Logger

	release func() // ends the claim on the file; nil without one

	mu      sync.Mutex
	figures Figures
	last    error // what went wrong the last time, nil for nothing: it is said once
}

// Figures are what operators see of the file.
type Figures struct {
	Saved    time.Time // when it was written last, zero for never by this process
	Bytes    int64     // of what was written or read last
	Failures uint64    // times that it could not be written
	Restored bool      // the router began with it
}

// New makes a Keeper. now is the wall clock.
func New(c Config, f Fleet, now func() time.Time, log *slog.Logger) *Keeper {
	return &Keeper{config: c, fleet: f, now: now, log: log}
}

// Figures is a snapshot.
func (k *Keeper) Figures() Figures {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.figures
}

// Trouble is why the file cannot be written now; nil where it can.
func (k *Keeper) Trouble() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// Restore hands the file's content to the router, which has had no request yet. A file that cannot be used is told, and
// the router begins cold: one of ours that is damaged is renamed to FILE.damaged, any other is left as it is.
func (k *Keeper) Restore() {
	name := k.config.File
	b, err := read(name, k.config.Most)
	if errors.Is(err, os.ErrNotExist) {
		k.log.Info("there is no state file yet: nothing is known of earlier conversations", "file", name)
		return
	}
	var pieces []route.Piece
	var at time.Time
	if err == nil {
		pieces, at, err = Decode(b)
	}
	switch {
	case errors.Is(err, ErrDamaged):
		aside := name + ".damaged"
		k.log.Error("the state file cannot be used, the router begins cold",
			"file", name, "error", err, "renamed", aside)
		if err := os.Rename(name, aside); err != nil {
			k.log.Error("the damaged state file cannot be renamed", "file", name, "error", err)
		}
		return
	case err != nil && replaceable(name) == nil:
		k.log.Warn("the state file cannot be used, the router begins cold and will write it anew",
			"file", name, "error", err)
		return
	case err != nil:
		k.log.Error("the state file cannot be used, the router begins cold; it is left as it is, "+
			"and nothing is saved while it is there", "file", name, "error", err)
		return
	}
	later := max(0, k.now().Sub(at))
	k.fleet.Restore(pieces, later)
	k.mu.Lock()
	k.figures.Restored, k.figures.Bytes = true, int64(len(b))
	k.mu.Unlock()
	k.log.Info("the router begins with what was learnt before",
		"file", name, "bytes", len(b), "age", later.Round(time.Second))
}

// Run saves every so often, and once more when ctx ends. While another router has claimed the file nothing is saved.
func (k *Keeper) Run(ctx context.Context) {
	k.failed(k.claim())
	defer func() {
		if k.release != nil {
			k.release()
		}
	}()
	every := time.NewTicker(k.config.Every)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			k.Save()
			return
		case <-every.C:
			k.Save()
		}
	}
}

// claim claims the file, unless this Keeper has.
func (k *Keeper) claim() (err error) {
	if k.release == nil {
		k.release, err = wholefile.Claim(k.config.File)
	}
	return err
}

// Save writes the file.
func (k *Keeper) Save() {
	var data []byte
	err := k.claim()
	if err == nil {
		data, err = Encode(k.now(), k.fleet.Snapshot, k.config.Most)
	}
	if err == nil {
		err = write(k.config.File, data)
	}
	if err != nil {
		k.failed(err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.figures.Saved, k.figures.Bytes = k.now(), int64(len(data))
	k.last = nil
}

// failed counts and tells why the file cannot be written.
func (k *Keeper) failed(err error) {
	if err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.figures.Failures++
	why := err.Error()
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		why = path.Op + " " + path.Err.Error() // without the name, which another attempt has another of
	}
	if k.last == nil || k.last.Error() != why {
		k.last = errors.New(why)
		k.log.Error("what was learnt cannot be saved", "file", k.config.File, "error", err)
	}
}
