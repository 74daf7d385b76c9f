package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFollow: a burst of events is one check once it is over, a burst without end is checked all the same, lost events
// are made up for.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		events, errs := make(chan fsnotify.Event), make(chan error)
		var checks atomic.Int32
		go follow(ctx, events, errs, []string{"f"}, slog.New(slog.DiscardHandler), func() { checks.Add(1) })
		want := func(n int32) {
			t.Helper()
			synctest.Wait()
			if got := checks.Swap(0); got != n {
				t.Errorf("%d checks, want %d", got, n)
			}
		}
		want(1)
		for range 5 {
			events <- fsnotify.Event{}
			time.Sleep(quiet / 2)
		}
		want(0)
		time.Sleep(quiet)
		want(1)
		for range 30 {
			events <- fsnotify.Event{}
			time.Sleep(quiet / 2)
		}
		want(1)
		time.Sleep(quiet)
		want(1)
		errs <- errors.New("overflow")
		time.Sleep(2 * quiet)
		want(1)
		time.Sleep(recheck)
		want(1)
		close(events)
		close(errs)
		time.Sleep(recheck)
		want(1)
		stop()
		synctest.Wait()
	})
}

// TestRun: a file that is replaced, in whichever of the directories, is noticed; a directory that is not there is not
// fatal.
func TestRun(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	ctx, stop := context.WithCancel(t.Context())
	checked, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx, []string{a, b}, slog.New(slog.DiscardHandler), func() { checked <- struct{}{} })
	}()
	<-checked
	for _, f := range []string{a, b} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		<-checked
	}
	stop()
	<-ended
	ctx, stop = context.WithCancel(t.Context())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx, []string{filepath.Join(a, "nowhere", "f")}, slog.New(slog.DiscardHandler),
			func() { checked <- struct{}{} })
	}()
	<-checked
	stop()
	<-ended
}
