package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// feedWatchdog tells systemd, where the unit has WatchdogSec, that the process works (sd_watchdog_enabled(3)): each
// time that alive, which does what every request needs, has returned. systemd aborts a process that is silent for that
// time and starts another. The log then has the stacks.
func feedWatchdog(ctx context.Context, alive func()) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil || limit <= 0 {
		return
	}
	beat := time.NewTicker(max(limit/3, time.Millisecond))
	defer beat.Stop()
	for {
		alive()
		notify(daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}
