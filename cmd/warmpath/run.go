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

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/otlp"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/tune"
)

// serve runs a router until ctx ends or one of its listeners fails, and drains it. load reads the configuration again
// from the same source; file is its file, "" for none.
func serve(ctx context.Context, e env, cfg *config.Config, file string, load func() (config.Config, error)) error {
	signal.Ignore(syscall.SIGPIPE) // Go ends a process for it that writes to standard output or error, see os/signal
	defer signal.Reset(syscall.SIGPIPE)
	journal := newJournal(e.stderr, e.version, cfg)
	defer journal.Close(logWait)
	log := journal.Logger
	otlp.HearFaults(log)
	if file != "" {
		log.Info("configuration read", "file", file)
	}
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	boundHeap()
	tuning, stopTuning := context.WithCancel(context.Background())
	var tuners sync.WaitGroup
	defer tuners.Wait()
	defer stopTuning()
	upkeep := func(who panics.Reader, f func(context.Context)) {
		tuners.Go(func() { panics.Keep(tuning, log, who, time.Second, func() { f(tuning) }) })
	}
	if os.Getenv("GOGC") == "" { // who sets it decides
		upkeep(panics.Collector, tune.GC)
	}
	r, err := startOn(ctx, cfg, e.version, inherited(), log)
	if err != nil {
		return err
	}
	r.meter.WatchLog(journal.lines)
	if os.Getenv("GOMAXPROCS") == "" {
		upkeep(panics.Processors, tune.Processors)
	}
	talk := e.stdout
	if cfg.Explain.File == explain.Stdout {
		talk = e.stderr // standard output has only lines of JSON
	}
	r.reloadable(file, load, journal.follow)
	if !e.terminal {
		defer obeyHangups(r)()
	}
	greet(talk, e, r, cfg, log)
	notify(daemon.SdNotifyReady)
	upkeep(panics.Watchdog, func(ctx context.Context) { feedWatchdog(ctx, func() { r.fleet.Ready() }) })
	select {
	case <-ctx.Done():
		// in JSON a duration would be a number
		log.Info("stopping: no new requests, running ones are completed",
			"deadline", r.current().cfg.Timeouts.Drain.String())
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
