package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// oneAtATime is an engine that does one thing at a time.
type oneAtATime struct {
	turn  chan struct{}
	begun int // prompts
	dead  bool
	mu    sync.Mutex
}

// is reports whether it has died, and counts a prompt.
func (e *oneAtATime) is(prompt bool) (dead bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if prompt {
		e.begun++
	}
	return e.dead
}

// do answers a request after all that came before it; took is how long a prompt takes.
func (e *oneAtATime) do(r *http.Request, took time.Duration) (*http.Response, error) {
	prompt := r.Method == http.MethodPost
	if e.is(prompt) {
		return nil, syscall.ECONNREFUSED
	}
	select {
	case e.turn <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if !prompt {
		<-e.turn
		return says(`{"data":[{"id":"m"}]}`)
	}
	time.AfterFunc(took, func() { <-e.turn })
	select {
	case <-time.After(took):
		return says(chatAnswer)
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// TestComputesAlone: a server that answers no probe while it computes keeps what it computes, and what comes meanwhile
// goes elsewhere. One that hangs, or dies, loses what it has.
func TestComputesAlone(t *testing.T) {
	for _, test := range []struct {
		name  string
		took  time.Duration // by the first prompt, at the first engine
		dies  bool          // after ten seconds
		begun []int         // prompts, by engine: the first and another one a moment before it ends
		least time.Duration
		most  time.Duration // until the first is answered
	}{
		{"it computes for long", 100 * time.Second, false, []int{1, 1}, 100 * time.Second, 101 * time.Second},
		{"it hangs", time.Hour, false, []int{1, 2}, 2 * time.Minute, 3 * time.Minute},
		{"it dies", time.Hour, true, []int{1, 2}, 10 * time.Second, 25 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engines := map[string]*oneAtATime{
					"e0": {turn: make(chan struct{}, 1)}, "e1": {turn: make(chan struct{}, 1)},
				}
				ask := wire(func(r *http.Request) (*http.Response, error) {
					if r.Body != nil {
						_, _ = io.Copy(io.Discard, r.Body)
					}
					took := time.Second
					if r.URL.Hostname() == "e0" {
						took = test.took
					}
					return engines[r.URL.Hostname()].do(r, took)
				})
				declared := []fleet.Endpoint{
					{Name: "e0", URL: "http://e0", Weight: 1, Kind: fleet.KindOther},
					{Name: "e1", URL: "http://e1", Weight: 1, Kind: fleet.KindOther},
				}
				rules := route.Config{Policy: func() pick.Policy { return inOrder{} }}
				r := newRouter(t, proxy.Config{}, ask, rules, declared, func(fleet.Kind) fleet.Report {
					return fleet.Report{Models: []fleet.Model{{ID: "m"}}}
				})
				ctx, stop := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer stop()
				go r.proxy.Run(ctx)
				prober := probe.New(probe.Config{}, &http.Client{Transport: ask},
					func(e route.Event) { r.fleet.Observe(e) }, r.fleet.HasRequests, slog.New(slog.DiscardHandler))
				prober.Set(declared)
				go prober.Run(ctx)
				time.Sleep(10 * time.Second)
				send := func() {
					w := httptest.NewRecorder()
					r.proxy.ServeHTTP(w,
						httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(ask1)))
					if w.Code != http.StatusOK {
						t.Errorf("a client got %d %s", w.Code, w.Body)
					}
				}
				began, done := time.Now(), make(chan time.Duration, 1)
				go func() { send(); done <- time.Since(began) }()
				time.Sleep(10 * time.Second)
				e := engines["e0"]
				e.mu.Lock()
				e.dead = test.dies
				e.mu.Unlock()
				send()
				took := <-done
				if took < test.least || took > test.most {
					t.Errorf("answered after %v, want from %v to %v", took, test.least, test.most)
				}
				if begun := []int{engines["e0"].begun, engines["e1"].begun}; !slices.Equal(begun, test.begun) {
					t.Errorf("prompts begun: %v, want %v", begun, test.begun)
				}
				r.booksBalance()
			})
		})
	}
}

const ask1 = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
