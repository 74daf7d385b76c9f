package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestSilentEngineRecovers: an engine is silent for a minute, while its pool has ten requests a second, and never
// answers what it had then. A trial is given the time that any request is. The first request that tries it afterwards
// is answered there, although that takes five seconds, and it is in service again. So it is where a request that cannot
// move still waits there from before.
func TestSilentEngineRecovers(t *testing.T) {
	const (
		body  = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
		quiet = time.Minute
		slow  = 5 * time.Second
		every = 100 * time.Millisecond

		patient = 10 * time.Second // health.silent
		// so that an ejection ends between two looks at the fleet, see timeouts.Unreachable
		ejects = 15200 * time.Millisecond
	)
	for _, tt := range []struct {
		name  string
		stuck bool
	}{{"all that waits can move", false}, {"a request that cannot move waits there", true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var tried, answered time.Time // after the silence, the first at e0
				silent := func(at time.Time) bool { return false }
				engines := wire(func(req *http.Request) (*http.Response, error) {
					_, _ = io.Copy(io.Discard, req.Body)
					now := time.Now()
					mu.Lock()
					is := silent(now)
					if req.URL.Hostname() == "e0" && !is && tried.IsZero() {
						tried = now
					}
					mu.Unlock()
					switch {
					case req.URL.Hostname() == "e1":
						return trickles(2)(req)
					case is:
						return silence(req)
					}
					res, err := trickles(2)(req)
					body := res.Body.(*trickle)
					body.first = slow
					return res, err
				})
				r := newRouter(t, proxy.Config{Pinning: true}, engines,
					route.Config{Policy: func() pick.Policy { return inOrder{} }, EjectFor: ejects},
					[]fleet.Endpoint{
						{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
					},
					func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
				ctx, stop := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer stop()
				go r.proxy.Run(ctx)
				send := func(header ...string) *httptest.ResponseRecorder {
					w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
						strings.NewReader(body))
					for i := 0; i < len(header); i += 2 {
						req.Header.Set(header[i], header[i+1])
					}
					r.proxy.ServeHTTP(w, req)
					return w
				}
				for range 3 { // from which it learns how long an answer takes
					if w := send(); w.Code != 200 {
						t.Fatalf("the first answer was %d %s", w.Code, w.Body)
					}
				}
				until := time.Now().Add(quiet)
				mu.Lock()
				tried, silent = time.Time{}, func(at time.Time) bool { return at.Before(until) }
				mu.Unlock()
				if tt.stuck {
					go send("X-Warmpath-Pin", "e0")
				}
				var wg sync.WaitGroup
				ejected, state, since := false, fleet.StateUp, time.Time{}
				for time.Since(until) < 10*time.Minute && answered.IsZero() {
					wg.Go(func() {
						if w := send("X-Warmpath-Explain", "1"); w.Code != 200 ||
							!strings.Contains(w.Body.String(), "[DONE]") {
							t.Errorf("%v after the silence: %d %s", time.Since(until), w.Code, w.Body)
						}
					})
					time.Sleep(every)
					synctest.Wait()
					e := r.fleet.Status()[0]
					ejected = ejected || e.Silent
					if e.State != state {
						if !since.IsZero() && e.State == fleet.StateEjected && time.Since(since) < patient {
							t.Errorf("a trial was given up after %v: %s", time.Since(since), e.Detail)
						}
						state, since = e.State, time.Now()
					}
					mu.Lock()
					at := tried
					mu.Unlock()
					if !at.IsZero() && e.State == fleet.StateUp && time.Since(at) > slow {
						answered = time.Now()
					}
				}
				if took := answered.Sub(tried); !ejected || answered.IsZero() || took > slow+time.Second ||
					tried.Sub(until) > quiet {
					t.Errorf("ejected %t; tried %v after the silence, in service %v later; want at most %v, %v",
						ejected, tried.Sub(until), took, quiet, slow+time.Second)
				}
				if e := r.fleet.Status()[0]; e.Silent || e.State != fleet.StateUp {
					t.Errorf("the engine is %s: %s", e.State, e.Detail)
				}
				wg.Wait()
				time.Sleep(30 * time.Second) // in which nobody asks
				if e := r.fleet.Status()[0]; e.Silent || e.State != fleet.StateUp {
					t.Errorf("after a pause the engine is %s: %s", e.State, e.Detail)
				}
				r.proxy.Abort()
				synctest.Wait()
				r.booksBalance()
			})
		})
	}
}

// TestWhatWaitsMovesLater: a request waits at an engine that hangs, and there is no other. When another one is up, it
// is answered there, even though nobody else asks.
func TestWhatWaitsMovesLater(t *testing.T) {
	for _, later := range []time.Duration{15 * time.Second, 25 * time.Second, 100 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			models := fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}
			hangs := false
			r := newRouter(t, proxy.Config{}, wire(func(req *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, req.Body)
				if hangs && req.URL.Hostname() == "e0" {
					return silence(req)
				}
				return trickles(2)(req)
			}), route.Config{Policy: func() pick.Policy { return inOrder{} }},
				[]fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1}},
				func(fleet.Kind) fleet.Report { return models })
			r.fleet.Observe(route.Probed{Endpoint: "e1", Report: fleet.Report{Detail: "it starts"}})
			ctx, stop := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer stop()
			go r.proxy.Run(ctx)
			ask := func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				r.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
					strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)))
				return w
			}
			ask()
			hangs = true
			began, took := time.Now(), time.Duration(0)
			go func() {
				if w := ask(); w.Code == 200 {
					took = time.Since(began)
				}
			}()
			time.Sleep(later)
			r.fleet.Observe(route.Probed{Endpoint: "e1", Report: models})
			time.Sleep(time.Minute)
			synctest.Wait()
			if took < later || took > later+25*time.Second {
				t.Errorf("answered after %v, want little after %v", took, later)
			}
			r.proxy.Abort()
			synctest.Wait()
			r.booksBalance()
		})
	}
}
