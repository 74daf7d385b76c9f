// Package panics is the last defence of goroutines that read what others send, or see to the process itself: a panic
// there is counted, logged with its stack and ends the reading of that message, connection or round instead of the
// process. It hides nothing else: who calls it goes on with a pause, or drops the connection.
package panics

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/instant"
)

// Reader is what reads, as the metric and the log name it.
type Reader string

// The readers of foreign bytes.
const (
	KVEvents  Reader = "kv_events"
	Peers     Reader = "peers"
	LMCache   Reader = "lmcache"
	TRTServe  Reader = "trtserve"
	Probe     Reader = "probe"
	Discovery Reader = "discovery"
	ExtProc   Reader = "extproc"
	Proxy     Reader = "proxy"
	Files     Reader = "files"
)

// What sees to the process itself.
const (
	Collector  Reader = "gc"       // when the garbage collector runs
	Processors Reader = "cpus"     // how many processors are used
	Watchdog   Reader = "watchdog" // systemd's
)

const (
	tellAgain = 10 * time.Second // between logged panics of one reader
	mostStack = 8 << 10          // bytes of a logged stack
)

// tally is the count of one reader.
type tally struct {
	caught atomic.Uint64
	told   atomic.Int64 // when one was last logged, in ns since 1970
}

// tallies are those of all readers: the process has one count, as it has one life.
var tallies = map[Reader]*tally{
	KVEvents: {}, Peers: {}, LMCache: {}, TRTServe: {}, Probe: {}, Discovery: {}, ExtProc: {}, Proxy: {}, Files: {},
	Collector: {}, Processors: {}, Watchdog: {},
}

// Catch calls f and reports whether it returned. Its panic is counted, and logged unless that was done within the last
// ten seconds.
func Catch(log *slog.Logger, who Reader, f func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		what := recover() // nil for runtime.Goexit, which goes on
		if what == nil {
			return
		}
		t := tallies[who]
		n := t.caught.Add(1)
		now, last := instant.Now(), t.told.Load()
		if now-last < int64(tellAgain) || !t.told.CompareAndSwap(last, now) {
			return
		}
		stack := debug.Stack()
		log.Error("a fault in this program, please report it: what it worked on is dropped, and the router goes on",
			"reader", who, "panic", what, "times", n, "stack", string(stack[:min(len(stack), mostStack)]))
	}()
	f()
	return true
}

// Keep calls f until it returns or ctx ends: after a panic again, when pause is over.
func Keep(ctx context.Context, log *slog.Logger, who Reader, pause time.Duration, f func()) {
	for !Catch(log, who, f) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Counts are the panics caught so far, of all readers.
func Counts() map[Reader]uint64 {
	out := map[Reader]uint64{}
	for who, t := range tallies {
		out[who] = t.caught.Load()
	}
	return out
}
