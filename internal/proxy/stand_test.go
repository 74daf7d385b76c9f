package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/external"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// oneByOne is an engine that takes 0.1 ms for each four bytes of a prompt, one after the other.
type oneByOne struct {
	mu   sync.Mutex
	free time.Time
	got  []string // names of the prompts, in order of arrival
}

func (e *oneByOne) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, name, _ := strings.Cut(string(body), `"prompt":"`)
	name, _, _ = strings.Cut(name, " ")
	e.mu.Lock()
	e.got = append(e.got, name)
	e.free = later(e.free, time.Now()).Add(time.Duration(len(body)) * 25 * time.Microsecond)
	free := e.free
	e.mu.Unlock()
	select {
	case <-time.After(time.Until(free)):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	usage := fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}`+"\n\n", len(body)/4)
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(`data: {"choices":[{"text":"x"}]}` + "\n\n" + usage + doneChunk)),
	}, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// queuing is a router behind whose first engine prompts queue, and what its clients were answered.
type queuing struct {
	*rig
	ctx  context.Context
	mu   sync.Mutex
	code map[string]int
}

// newQueuing runs a router within a synctest bubble, until it is stopped.
func newQueuing(t *testing.T, r *rig) (*queuing, context.CancelFunc) {
	ctx, stop := context.WithCancel(t.Context())
	go r.proxy.Run(ctx)
	return &queuing{rig: r, ctx: ctx, code: map[string]int{}}, stop
}

// send has a client ask, and goes on when nothing happens any more by itself.
func (q *queuing) send(ctx context.Context, name string, tokens int) {
	go func() {
		defer func() { _ = recover() }() // as net/http does
		body := fmt.Sprintf(`{"model":"m","stream":true,"prompt":"%s %s"}`, name, strings.Repeat("abc ", tokens))
		w := httptest.NewRecorder()
		q.proxy.ServeHTTP(w,
			httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", strings.NewReader(body)))
		q.mu.Lock()
		defer q.mu.Unlock()
		q.code[name] = w.Code
	}()
	synctest.Wait()
}

// learn shows the router what the engine is like.
func (q *queuing) learn() {
	for i := range 8 {
		q.send(q.ctx, fmt.Sprint("known", i), 4000)
		if i < 2 || i%2 == 1 { // more than two would be queued
			time.Sleep(time.Minute)
		}
	}
	synctest.Wait()
}

// fill has "long", "middle" and "short" stand in line for an endpoint, behind a prompt of 4 s. leave takes away the
// client of "middle".
func (q *queuing) fill(at string) (leave context.CancelFunc) {
	q.t.Helper()
	of, leave := context.WithCancel(q.ctx)
	q.send(q.ctx, "blocks", 40_000)
	q.send(q.ctx, "long", 30_000)
	q.send(of, "middle", 12_000)
	q.send(q.ctx, "short", 1000)
	for _, s := range q.fleet.Status() {
		if s.Endpoint.Name == at && s.Load.Queued != 3 {
			q.t.Fatalf("%d requests are queued, want 3", s.Load.Queued)
		}
	}
	return leave
}

// answered checks the status of the answers, 200 but for those that are given; 0 is none.
func (q *queuing) answered(other map[string]int) {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range []string{"blocks", "long", "middle", "short"} {
		want, ok := other[name]
		if !ok {
			want = 200
		}
		if q.code[name] != want {
			q.t.Errorf("%s is answered %d, want %d", name, q.code[name], want)
		}
	}
}

// timed is a transport that ends its exchanges itself, as a lease does.
type timed struct{ external.Seen }

func (timed) Carry(*http.Request, fleet.Endpoint) (*http.Response, error) { return nil, io.EOF }
func (timed) Excluded() []string                                          { return nil }
func (timed) AnswerUnseen() bool                                          { return true }
func (timed) Elsewhere() bool                                             { return false }
func (timed) Timed() bool                                                 { return true }

// TestQueueOfTimed: a transport that ends its exchanges itself has no say before it has one: in the queue the router's
// limit holds.
func TestQueueOfTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &oneByOne{}
		r := newRouter(t, proxy.Config{Answer: 2 * time.Second}, wire(engine.RoundTrip), route.Config{
			Policy: func() pick.Policy { return inOrder{} }, Queue: route.QueueConfig{Ahead: time.Second},
		}, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}}, func(fleet.Kind) fleet.Report {
			return fleet.Report{Models: []fleet.Model{{ID: "m"}}}
		})
		q, stop := newQueuing(t, r)
		defer synctest.Wait()
		defer stop()
		q.learn()
		q.send(q.ctx, "blocks", 40_000)
		body := `{"model":"m","prompt":"waits ` + strings.Repeat("abc ", 12_000) + `"}`
		w := httptest.NewRecorder()
		r.proxy.ServeHTTP(w, httptest.NewRequestWithContext(external.With(q.ctx, timed{}), http.MethodPost,
			"/v1/completions", strings.NewReader(body)))
		if w.Code != http.StatusGatewayTimeout {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.booksBalance()
	})
}

// TestQueue: what stands in the router's line is sent when it is its turn, the shortest first; and who leaves it, for
// whatever reason, is not sent, costs the endpoint nothing, and is off the books.
func TestQueue(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(r *rig, leave func()) // while "long", "short" and "middle" stand in line behind a prompt of 4 s
		want []string                   // what the first endpoint gets after that one
		to1  []string                   // and the second
		code map[string]int             // of the answers, where it is not 200; 0 is none

		together bool // all at once
	}{
		{"the shortest goes first", func(*rig, func()) {}, []string{"short", "middle", "long"}, nil, nil, false},
		{"a client leaves", func(_ *rig, leave func()) {
			leave()
		}, []string{"short", "long"}, nil, map[string]int{"middle": 0}, false},
		{"the endpoint goes down", func(r *rig, _ func()) {
			r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Detail: "health answered 500"}})
		}, nil, []string{"long", "middle", "short"}, nil, false},
		{
			"the endpoint drains", func(r *rig, _ func()) { r.fleet.Observe(route.Drain{Endpoint: "e0"}) },
			[]string{"short", "middle", "long"},
			nil, nil, false,
		},
		{"the endpoint leaves the fleet", func(r *rig, _ func()) {
			r.fleet.Observe(route.Declared{
				Source: "test", Endpoints: []fleet.Endpoint{{Name: "e1", URL: "http://e1", Weight: 1}},
			})
		}, []string{"short", "middle", "long"}, nil, nil, false},
		{"another engine takes the address", func(r *rig, _ func()) {
			r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
				{Name: "e0", URL: "http://other", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
			}})
		}, []string{"short", "middle", "long"}, nil, nil, true},
		{"the router shuts down", func(r *rig, _ func()) {
			r.proxy.Abort()
		}, nil, nil, map[string]int{"blocks": 503, "long": 503, "short": 503, "middle": 503}, false},
		{"the router shuts down, one request after the other", func(r *rig, _ func()) {
			r.proxy.AbortInSteps(synctest.Wait)
		}, nil, nil, map[string]int{"blocks": 503, "long": 503, "short": 503, "middle": 503}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engines := map[string]*oneByOne{"e0": {}, "e1": {}}
				r := newRouter(t, proxy.Config{Refusing: time.Second},
					wire(func(req *http.Request) (*http.Response, error) {
						return engines[req.URL.Hostname()].RoundTrip(req)
					}), route.Config{
						Policy: func() pick.Policy { return inOrder{} }, Queue: route.QueueConfig{Ahead: time.Second},
					},
					[]fleet.Endpoint{
						{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
					},
					func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
				q, stop := newQueuing(t, r)
				defer synctest.Wait()
				defer stop()
				q.learn()
				engines["e0"].got = nil
				leave := q.fill("e0")
				defer leave()
				tt.then(r, leave)
				time.Sleep(time.Minute)
				synctest.Wait()
				got, want := engines["e0"].got, append([]string{"blocks"}, tt.want...)
				if tt.together {
					slices.Sort(got)
					slices.Sort(want)
				}
				if !slices.Equal(got, want) && tt.to1 == nil {
					t.Errorf("the endpoint got %v, want %v", got, want)
				}
				if got := slices.Sorted(slices.Values(engines["e1"].got)); tt.to1 != nil &&
					!slices.Equal(got[len(got)-len(tt.to1):], tt.to1) {
					t.Errorf("the other got %v, want %v", got, tt.to1)
				}
				q.answered(tt.code)
				for _, s := range r.fleet.Status() {
					if s.Failures > 1 || s.Failures > 0 && tt.to1 == nil { // what was under way when it went down
						t.Errorf("%s is blamed for %d", s.Endpoint.Name, s.Failures)
					}
				}
				r.booksBalance()
			})
		})
	}
}
