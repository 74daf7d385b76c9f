package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// hosts are engines by their host. One whose node is lost answers nothing any more, and an answer that it has begun
// goes on for ever without a byte.
type hosts struct {
	mu     sync.Mutex
	took   time.Duration // by a prompt at old
	begins bool          // old begins its answer at once
	lost   bool          // old's node
	asked  map[string]int
}

func (h *hosts) ask(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	prompt, host := r.Method == http.MethodPost, r.URL.Hostname()
	h.mu.Lock()
	if prompt {
		h.asked[host]++
	}
	lost, took, begins := h.lost && host == "old", time.Duration(0), prompt && h.begins && host == "old"
	if prompt && host == "old" {
		took = h.took
	}
	h.mu.Unlock()
	if begins {
		first := strings.NewReader(`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n")
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
			Body: &begun{data: first, ctx: r.Context()},
		}, nil
	}
	for ends := time.Now().Add(took); lost || time.Now().Before(ends); {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(100 * time.Millisecond):
		}
		if prompt {
			h.mu.Lock()
			lost = h.lost && host == "old"
			h.mu.Unlock()
		}
	}
	if prompt {
		return says(chatAnswer)
	}
	return says(`{"data":[{"id":"m"}]}`)
}

// begun is an answer of which nothing comes after the first data.
type begun struct {
	data *strings.Reader
	ctx  context.Context
}

func (b *begun) Read(to []byte) (int, error) {
	if b.data.Len() > 0 {
		return b.data.Read(to)
	}
	<-b.ctx.Done()
	return 0, context.Cause(b.ctx)
}

func (*begun) Close() error { return nil }

// TestNameMovesWhileRequestsWait: what waits for its first byte at an address that an endpoint's name had before (a pod
// of a StatefulSet that comes back on another node) goes to the engine that has the name now as soon as the former
// address is found to answer nothing, though no other engine is there. An engine that still answers is waited for, and
// what has begun is not sent again.
func TestNameMovesWhileRequestsWait(t *testing.T) {
	for _, test := range []struct {
		name       string
		took       time.Duration
		lost       bool
		begins     bool
		old, now   int // prompts
		least      time.Duration
		most       time.Duration // from the move to the answer
		ask, found string
	}{
		{"its node is lost", time.Hour, true, false, 1, 1, 0, 10 * time.Second, ask1, `"hi"`},
		{"it finishes what it has", time.Minute, false, false, 1, 0, 49 * time.Second, 51 * time.Second, ask1, `"hi"`},
		{
			"its answer has begun", time.Hour, true, true, 1, 0, 50 * time.Second, 70 * time.Second,
			strings.Replace(ask1, `{`, `{"stream":true,`, 1), "fell silent",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hosts{took: test.took, begins: test.begins, asked: map[string]int{}}
				at := func(host string) []fleet.Endpoint {
					return []fleet.Endpoint{{Name: "pod-0", URL: "http://" + host, Weight: 1, Kind: fleet.KindOther}}
				}
				rules := route.Config{Policy: func() pick.Policy { return inOrder{} }}
				r := newRouter(t, proxy.Config{Retries: 2}, wire(h.ask), rules, at("old"),
					func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
				ctx, stop := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer stop()
				go r.proxy.Run(ctx)
				prober := probe.New(probe.Config{}, &http.Client{Transport: wire(h.ask)},
					func(e route.Event) { r.fleet.Observe(e) }, r.fleet.HasRequests, slog.New(slog.DiscardHandler))
				prober.Set(at("old"))
				go prober.Run(ctx)
				time.Sleep(10 * time.Second)
				w, done := httptest.NewRecorder(), make(chan time.Time, 1)
				go func() {
					defer func() { // an answer that is not whole is cut
						if v := recover(); v != nil && v != http.ErrAbortHandler {
							t.Error(v)
						}
						done <- time.Now()
					}()
					r.proxy.ServeHTTP(w,
						httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(test.ask)))
				}()
				time.Sleep(10 * time.Second)
				h.mu.Lock()
				h.lost = test.lost
				h.mu.Unlock()
				moved := time.Now()
				r.fleet.Observe(route.Declared{Source: "test", Endpoints: at("new")})
				prober.Set(at("new"))
				took := (<-done).Sub(moved)
				if took < test.least || took > test.most || !strings.Contains(w.Body.String(), test.found) {
					t.Errorf("after %v, want from %v to %v: %d %s", took, test.least, test.most, w.Code, w.Body)
				}
				if h.asked["old"] != test.old || h.asked["new"] != test.now {
					t.Errorf("prompts: %v, want %d and %d", h.asked, test.old, test.now)
				}
				r.booksBalance()
			})
		})
	}
}
