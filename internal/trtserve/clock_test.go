package trtserve

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

type fixed []route.EndpointStatus

func (f fixed) Status() []route.EndpointStatus { return f }
func (fixed) Ready() (bool, string)            { return true, "" }

// TestAlign: a worker whose clock is an hour ahead is told so, once.
func TestAlign(t *testing.T) {
	told := make(chan float64, 10)
	var s *Server
	w := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/steady_clock_offset" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		if r.Method == http.MethodGet {
			now := s.clock() + 3600
			writeJSON(w, http.StatusOK, map[string]float64{"receive_ts": now, "transmit_ts": now})
			return
		}
		var v struct{ Offset float64 }
		if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
			t.Error(err)
		}
		told <- v.Offset
	}))
	defer w.Close()
	s = New(Config{Paths: true, PerfMetrics: 10}, w.Client(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.Watch(fixed{{Endpoint: fleet.Endpoint{URL: w.URL}, Kind: fleet.KindTRTLLM, State: fleet.StateUp}},
		http.NotFoundHandler())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	done, began := make(chan struct{}), time.Now()
	go func() { defer close(done); s.Run(ctx, func(route.Declared) {}) }()
	select {
	case offset := <-told: // which half of the time that a question takes may be wrong
		if math.Abs(offset+3600) > time.Since(began).Seconds() {
			t.Errorf("told %v", offset)
		}
	case <-ctx.Done():
		t.Error("told nothing")
	}
	cancel()
	<-done
	if len(told) > 0 {
		t.Error("told twice")
	}
}
