package kvevents

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// TestWildNumbers: a stream whose messages each show a restart or a loss, as only an engine that lies can send them,
// begins anew no more often than it would be connected again. Each time is a line of the log.
func TestWildNumbers(t *testing.T) {
	const times = 20
	for name, next := range map[string]func(ctx context.Context, s *stream, n uint64){
		"restarts": func(ctx context.Context, s *stream, n uint64) {
			s.message(ctx, message(1000-n, stored(float64(n+1), n)))
		},
		"losses": func(ctx context.Context, s *stream, n uint64) {
			s.message(ctx, message(10*n+10, stored(float64(n+1), n)))
		},
		"polled restarts": func(ctx context.Context, s *stream, n uint64) {
			s.take(ctx, s.kv, &kv.TRTBatch{ID: int64(1000 - n), Batch: kvstream.Batch{At: float64(n + 1)}})
		},
		"polled losses": func(ctx context.Context, s *stream, n uint64) {
			s.take(ctx, s.kv, &kv.TRTBatch{ID: int64(10*n + 10), Batch: kvstream.Batch{At: float64(n + 1)}})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			said := 0
			f := New(DefaultConfig(), nil, nil, func(ev route.Event) {
				if st, ok := ev.(route.KVStreamState); ok && (st.Lost || st.Restart) {
					said++
				}
			}, slog.New(slog.DiscardHandler))
			s := newStream(f, target{endpoint: "e"})
			began := time.Now()
			for n := range uint64(times) {
				next(t.Context(), s, n)
			}
			if took := time.Since(began); said < times-2 || took < (times-3)*reconnect {
				t.Errorf("%s: %d times in %v", name, said, took)
			}
		})
	}
}

// TestRanksHoldTogether: what an endpoint's engine holds is what its ranks hold together, each of which has a stream,
// until one of them goes.
func TestRanksHoldTogether(t *testing.T) {
	h := &heard{}
	f := New(DefaultConfig(), nil, nil, h.observe, slog.New(slog.DiscardHandler))
	first, second := newStream(f, target{endpoint: "e"}), newStream(f, target{endpoint: "e", rank: 1})
	other := newStream(f, target{endpoint: "other"})
	goes, cancel := context.WithCancel(t.Context())
	cancel()
	for i, step := range []struct {
		of   *stream
		seq  uint64
		want int
	}{{first, 0, 1}, {first, 1, 2}, {second, 0, 3}, {other, 0, 1}, {second, 1, 4}, {nil, 0, 4}, {first, 2, 3}} {
		if step.of == nil {
			second.run(goes)
			continue
		}
		step.of.message(t.Context(), message(step.seq, stored(float64(step.seq+1), 100+step.seq)))
		step.of.flush()
		if h.blocks != step.want {
			t.Errorf("step %d: %d blocks, want %d", i, h.blocks, step.want)
		}
	}
}

// TestLastStateStands: what is told last of an endpoint is the state of all of its streams, whichever of them says last
// how it is.
func TestLastStateStands(t *testing.T) {
	var mu sync.Mutex
	var last kvstream.State
	f := New(DefaultConfig(), nil, nil, func(ev route.Event) {
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		last = ev.(route.KVStreamState).State
	}, slog.New(slog.DiscardHandler))
	for rank := range 2 {
		at := target{endpoint: "e", rank: rank}
		f.streams[at] = newStream(f, at)
	}
	all := func(state kvstream.State) {
		var said sync.WaitGroup
		for _, s := range f.streams {
			said.Go(func() { s.say(state, "", nothingLost) })
		}
		said.Wait()
	}
	for i := range 5000 {
		all(kvstream.Silent)
		if all(kvstream.Exact); last != kvstream.Exact {
			t.Fatalf("after %d times: both ranks are followed, and %s is told", i, last)
		}
	}
}
