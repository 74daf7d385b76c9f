// Package filewatch says when files may have changed. It owns the watches on their directories, and waits until writers
// have finished. It reads no file: whether one has changed is its caller's to judge. It promises to ask at the start,
// after each change, and regularly, since network file systems and links to elsewhere send no events.
package filewatch

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/warmpath/warmpath/internal/panics"
)

// How files are watched.
const (
	quiet   = 100 * time.Millisecond // wait so long after a change for the writer to finish
	longest = time.Second            // but never longer than this
	recheck = 15 * time.Second
)

// Run calls check, from one goroutine, whenever one of the files may have changed, until ctx ends. It watches their
// directories, since editors and Kubernetes replace files (a ConfigMap swaps the symbolic link ..data) instead of
// writing them.
func Run(ctx context.Context, files []string, log *slog.Logger, check func()) {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		for _, dir := range directories(files) {
			if err == nil {
				err = watcher.Add(dir)
			}
		}
	}
	if err != nil {
		log.Warn("files cannot be watched; they are read regularly instead",
			"files", files, "every", recheck, "error", err)
		follow(ctx, nil, nil, files, log, check)
		return
	}
	follow(ctx, watcher.Events, watcher.Errors, files, log, check)
}

func directories(files []string) []string {
	var out []string
	for _, f := range files {
		out = append(out, filepath.Dir(f))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// follow checks once events have been quiet, and regularly.
func follow(
	ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, files []string, log *slog.Logger,
	check func(),
) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	settle := time.NewTimer(0) // the files may have changed before the watch began
	defer settle.Stop()
	var first time.Time // of the events not yet acted on
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if first.IsZero() {
				first = time.Now()
			}
			settle.Reset(min(quiet, max(0, longest-time.Since(first))))
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			log.Warn("watching directories", "files", files, "error", err)
			settle.Reset(quiet) // events may have been lost
		case <-settle.C:
			first = time.Time{}
			panics.Catch(log, panics.Files, check)
		case <-tick.C:
			panics.Catch(log, panics.Files, check)
		}
	}
}
