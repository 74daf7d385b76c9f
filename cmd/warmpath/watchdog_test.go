package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/coreos/go-systemd/v22/daemon"
)

// TestWatchdog: systemd hears of a router that has a watchdog as long as its lock can be taken, and no longer.
func TestWatchdog(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", at)
	t.Setenv("WATCHDOG_USEC", "3000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lock, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		feedWatchdog(ctx, func() { lock <- struct{}{} })
	}()
	hear := func() string {
		b := make([]byte, 100)
		n, err := systemd.Read(b)
		if err != nil {
			t.Error(err)
		}
		return string(b[:n])
	}
	for range 3 {
		<-lock
		if got := hear(); got != "WATCHDOG=1" {
			t.Errorf("systemd heard %q", got)
		}
	}
	stop()
	for ended := false; !ended; {
		select { // it waits for the lock, or for its end
		case <-lock:
			hear()
		case <-over:
			ended = true
		}
	}
	notify(daemon.SdNotifyStopping)
	if got := hear(); got != daemon.SdNotifyStopping { // not more often than the lock was taken
		t.Errorf("after its end systemd heard %q", got)
	}

	t.Setenv("WATCHDOG_USEC", "")
	feedWatchdog(t.Context(), func() { t.Error("without a watchdog it has nothing to tell") })
}
