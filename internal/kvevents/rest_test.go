package kvevents

import (
	"context"
	"log/slog"
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
