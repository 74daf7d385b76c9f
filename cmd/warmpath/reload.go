package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/filewatch"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/wholefile"
)

// reloads reloads a router's configuration.
type reloads struct {
	one   sync.Mutex // held during a reload
	load  func() (config.Config, error)
	relog func(*config.Config) // has the log follow a configuration
	file  string               // of the configuration, "" for none

	seen     map[string]version // of the files at the last reload, good or bad: each version is tried once
	wanted   []string           // the files that a configuration names which was rejected, perhaps for want of them
	watched  []string           // the files that are watched, if any are
	watching *task

	mu  sync.Mutex // guards now
	now admin.Running

	admin     atomic.Pointer[http.Handler]
	makeAdmin func(*generation) http.Handler // nil without an admin listener
}

// errNoReload means that the configuration has no known source, or that the router ends.
var errNoReload = errors.New("this router has no configuration to reload")

// state is the running configuration's state.
func (l *reloads) state() admin.Running {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.now
	out.Restart = slices.Clone(out.Restart)
	return out
}

func (l *reloads) tell(change func(*admin.Running)) admin.Running {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.now)
	return l.now
}

// began notes the router's first configuration.
func (l *reloads) began(r *router, cfg *config.Config) {
	now := l.tell(func(n *admin.Running) { *n = admin.Running{Hash: cfg.Hash(), Since: time.Now()} })
	r.meter.Configured(now.Hash, now.Since)
}

// serveAdmin answers calls of the admin API for the running configuration.
func (l *reloads) serveAdmin(w http.ResponseWriter, r *http.Request) {
	(*l.admin.Load()).ServeHTTP(w, r)
}

// adminOf makes the admin API of a generation.
func (l *reloads) adminOf(g *generation, make func(*generation) http.Handler) {
	l.makeAdmin = make
	l.renewAdmin(g)
}

func (l *reloads) renewAdmin(g *generation) {
	if l.makeAdmin != nil {
		h := l.makeAdmin(g)
		l.admin.Store(&h)
	}
}

// reloadable makes load the source for reloads, on request and when files change.
func (r *router) reloadable(file string, load func() (config.Config, error), relog func(*config.Config)) {
	l := &r.reloads
	l.one.Lock()
	defer l.one.Unlock()
	l.file, l.load, l.relog = file, load, relog
	l.seen = versions(r.configFiles())
	r.rewatch()
}

// end has no further reloads begin, and returns when one that is under way is over.
func (l *reloads) end() {
	l.one.Lock()
	defer l.one.Unlock()
	l.load = nil
	l.watching.end()
}

// reload reads the configuration again and applies all of it, or nothing. Settings that need a restart are kept and
// reported.
func (r *router) reload() (admin.Running, error) {
	l := &r.reloads
	l.one.Lock()
	defer l.one.Unlock()
	if l.load == nil {
		return l.state(), errNoReload
	}
	notify(reloading())
	defer notify(daemon.SdNotifyReady)
	var files []string                               // with a new content, but for the configuration itself
	for name, v := range versions(r.configFiles()) { // before they are read: a later write makes another version
		if l.seen[name] != v && name != l.file {
			files = append(files, name)
		}
		l.seen[name] = v
	}
	slices.Sort(files)
	g, restart, err := r.nextGeneration()
	if err != nil && l.wantsMore() {
		g, restart, err = r.nextGeneration() // they may have come since
	}
	if err != nil {
		if !slices.Equal(r.configFiles(), l.watched) {
			r.rewatch()
		}
		now := l.tell(func(n *admin.Running) {
			n.Fault, n.FaultAt = strings.ReplaceAll(err.Error(), "\n", "; "), time.Now()
		})
		r.meter.Reloaded(metrics.Rejected)
		r.log.Error("the new configuration has faults; the running one stays in force",
			"hash", now.Hash, "error", now.Fault)
		return now, err
	}
	changed := config.Changed(r.current().cfg, g.cfg, files)
	r.take(g)
	l.relog(g.cfg)
	l.renewAdmin(g)
	now := l.tell(func(n *admin.Running) {
		*n = admin.Running{Hash: g.cfg.Hash(), Since: time.Now(), Restart: restart}
	})
	r.meter.Reloaded(metrics.Applied)
	r.meter.Configured(now.Hash, now.Since)
	for _, warning := range g.cfg.Warnings() {
		r.log.Warn(warning)
	}
	r.log.Info("configuration reloaded", "hash", now.Hash, "changed", changed)
	if len(restart) > 0 {
		r.log.Warn("restart needed for: "+strings.Join(restart, ", "), "why", "open listeners keep their settings")
	}
	l.wanted = nil
	for name, v := range versions(r.configFiles()) { // it may name other files now
		if _, seen := l.seen[name]; !seen {
			l.seen[name] = v
		}
	}
	r.rewatch()
	return now, nil
}

// nextGeneration makes the generation of the configuration as it is now. restart names the settings that need a
// restart.
func (r *router) nextGeneration() (g *generation, restart []string, err error) {
	loaded, err := r.reloads.load()
	r.reloads.wanted = append(loaded.Files(), loaded.Discovery.File)
	if err != nil {
		return nil, nil, err
	}
	before := r.current()
	cfg, restart := loaded.Over(before.cfg)
	if len(restart) > 0 {
		if err := cfg.Validate(); err != nil {
			return nil, nil, fmt.Errorf("with %s as it is until a restart: %w", strings.Join(restart, ", "), err)
		}
	}
	g, err = r.newGeneration(r.running, &cfg, before)
	return g, restart, err
}

// wantsMore notes the versions of the files that a rejected configuration names, and reports whether there are any that
// were not looked at before.
func (l *reloads) wantsMore() bool {
	more := versions(slices.DeleteFunc(slices.Clone(l.wanted), func(name string) bool {
		_, seen := l.seen[name]
		return seen || name == ""
	}))
	maps.Copy(l.seen, more)
	return len(more) > 0
}

// configFiles are the files that the running configuration was read from, and those that one wants which was rejected:
// they may come later than it.
func (r *router) configFiles() []string {
	files := r.current().cfg.Files()
	for _, name := range append([]string{r.reloads.file}, r.reloads.wanted...) {
		if name != "" && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	return files
}

// rewatch watches the files of the running configuration, and no others.
func (r *router) rewatch() {
	l := &r.reloads
	l.watching.end() // this may be the caller
	files := r.configFiles()
	l.watched = files
	if !r.current().cfg.Reload.Watch || len(files) == 0 {
		l.watching = nil
		return
	}
	before := l.watching
	l.watching = begin(r.running, func(ctx context.Context) {
		before.wait(0)
		filewatch.Run(ctx, files, r.log, func() {
			l.one.Lock()
			same := true
			for name, v := range versions(files) {
				same = same && l.seen[name] == v
			}
			l.one.Unlock()
			if !same && ctx.Err() == nil {
				_, _ = r.reload() // it logs faults
			}
		})
	})
}

// mostOfFile is how many bytes of a file are hashed for its version.
const mostOfFile = 16 << 20

// version is the hash of a file's content.
type version [sha256.Size]byte

// versions are the current versions of files.
func versions(files []string) map[string]version {
	out := map[string]version{}
	for _, name := range files {
		h := sha256.New()
		if f, err := wholefile.Open(name); err != nil {
			fmt.Fprint(h, err)
		} else {
			_, _ = io.Copy(h, io.LimitReader(f, mostOfFile)) // the next load reports an unreadable file
			_ = f.Close()
		}
		out[name] = version(h.Sum(nil))
	}
	return out
}
