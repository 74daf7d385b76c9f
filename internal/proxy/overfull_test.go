package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// oneContext is an engine whose slots share one context that one request fills: when it has two, it fails both, as
// llama-server does. A stream has had its header by then.
type oneContext struct {
	mu    sync.Mutex
	fails chan struct{} // closed when those that it has are to fail
	full  bool          // it is closed
	open  int
	begun int
}

const contextExceeded = `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`

func (e *oneContext) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.open++; e.open == 1 {
		e.fails, e.full = make(chan struct{}), false
	}
	if e.open > 1 && !e.full {
		e.full = true
		close(e.fails)
	}
	e.begun++
	fails := e.fails
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.open--
		e.mu.Unlock()
	}()
	stream := r.Header.Get("X-Stream") != ""
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
	}
	select {
	case <-time.After(2 * time.Second):
		if stream {
			_, _ = fmt.Fprint(w, chunk("one"), "data: [DONE]\n\n")
			return
		}
		answers(200, `{"choices":[{"message":{"content":"one"}}]}`, "Content-Type", "application/json")(w, r)
	case <-fails:
		time.Sleep(10 * time.Millisecond) // until it has failed all that it has
		if stream {
			_, _ = fmt.Fprint(w, "data: "+contextExceeded+"\n\n")
			return
		}
		answers(500, contextExceeded, "Content-Type", "application/json")(w, r)
	}
}

// TestOverfullEngines: where engines fail all of their requests since those do not fit in their memory together, the
// requests are sent again, from then on those that fit, all are answered, and no engine is blamed.
func TestOverfullEngines(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), bubbled(func(t *testing.T) {
			engines := []*oneContext{{}, {}}
			var declared []fleet.Endpoint
			for i, e := range engines {
				declared = append(declared, fleet.Endpoint{
					Name: fmt.Sprintf("e%d", i), URL: serveEngine(t, e), Weight: 1,
				})
			}
			r := newRouter(t, proxy.Config{Retries: 2}, transportOf(t), route.Config{
				Policy:     func() pick.Policy { return inOrder{} },
				Queue:      route.QueueConfig{Ahead: 500 * time.Millisecond},
				RetryFloor: 100,
			}, declared, func(fleet.Kind) fleet.Report {
				return fleet.Report{
					Kind: fleet.KindLlamaCpp, Models: []fleet.Model{{ID: "m"}}, Slots: 4, CacheTokens: 16_000,
				}
			})
			r.listen(t)
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					header := []string{"X-Session-Id", fmt.Sprint(i)}
					if stream {
						header = append(header, "X-Stream", "1")
					}
					res, body := r.post("/v1/chat/completions", fmt.Sprintf(
						`{"model":"m","stream":%t,"messages":[{"role":"user","content":"%d %s"}]}`, stream, i,
						strings.Repeat("word ", 2500)), header...)
					if res.StatusCode != http.StatusOK || !strings.Contains(body, "one") {
						t.Errorf("%d: %d %s", i, res.StatusCode, body)
					}
				})
			}
			group.Wait()
			for _, s := range r.fleet.Status() {
				if s.State != fleet.StateUp || s.Failures != 0 {
					t.Errorf("%s is %s with %d failures", s.Endpoint.Name, s.State, s.Failures)
				}
			}
			if n := engines[0].begun + engines[1].begun; n <= 4 {
				t.Errorf("the engines got %d requests: nothing was overfull", n)
			}
			r.booksBalance()
		}))
	}
}

// TestOverfullCountsFewTimes: what did not fit beside others was not the request's fault, and is tried again beyond
// limits.retries, until what its engine is sent is halved to one request; no more often where that does not help.
func TestOverfullCountsFewTimes(t *testing.T) {
	for _, tt := range []struct{ fails, attempts, status int }{{0, 1, 200}, {5, 6, 200}, {6, 6, 500}, {100, 6, 500}} {
		var asked atomic.Int32
		r := newRig(t, proxy.Config{Retries: 1}, func(w http.ResponseWriter, r *http.Request) {
			if int(asked.Add(1)) <= tt.fails {
				answers(500, contextExceeded, "Content-Type", "application/json")(w, r)
				return
			}
			answers(200, chatAnswer)(w, r)
		})
		res, body := r.post("/v1/chat/completions", chatBody)
		if got := r.last(1).Attempts; got != tt.attempts || res.StatusCode != tt.status {
			t.Errorf("%d failures: %d attempts, %d %s; want %d and %d",
				tt.fails, got, res.StatusCode, body, tt.attempts, tt.status)
		}
	}
}
