package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// trickle is a stream that brings a token every second, n of them. The first comes after first, if that is set. Where
// ping is set it never ends, and brings that in the place of the last token and from then on.
type trickle struct {
	ctx   context.Context
	n     int
	rest  string
	first time.Duration
	ping  string
}

func (t *trickle) Read(p []byte) (int, error) {
	if t.rest == "" {
		if t.n == 0 {
			return 0, io.EOF
		}
		wait := time.Second
		if t.first > 0 {
			wait, t.first = t.first, 0
		}
		select {
		case <-time.After(wait):
		case <-t.ctx.Done():
			return 0, context.Cause(t.ctx)
		}
		switch t.rest = chunk("x"); {
		case t.n == 1 && t.ping != "":
			t.rest, t.n = t.ping, t.n+1
		case t.n == 1:
			t.rest = usageChunk + doneChunk
		}
		t.n--
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *trickle) Close() error { return nil }

// trickles answers with such a stream.
func trickles(n int) wire {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
			Body: &trickle{ctx: r.Context(), n: n},
		}, nil
	}
}

// pings answers one request with three tokens, and then by the clock; others with silence.
func pings(ping string) wire {
	first := true
	return func(r *http.Request) (*http.Response, error) {
		if !first {
			return silence(r)
		}
		first = false
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
			Body: &trickle{ctx: r.Context(), n: 4, ping: ping},
		}, nil
	}
}

// TestSilentEngine: an engine that stops computing while its health is good is found out by what does not come of it,
// and what waits there is answered elsewhere. One that answers somebody is left alone, however long others wait; so is
// one when there is no other.
func TestSilentEngine(t *testing.T) {
	const (
		stream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
		whole  = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	)
	after := func(d time.Duration, w wire) wire { // answers like w from so long after the start on
		began := time.Now()
		return func(r *http.Request) (*http.Response, error) {
			if time.Since(began) < d {
				return trickles(2)(r)
			}
			return w(r)
		}
	}
	for _, tt := range []struct {
		name   string
		engine func() wire // the first engine, once it has answered for a while
		silent time.Duration
		alone  bool
		ask    []string // bodies, all sent after that
		moved  int      // of them, how many the second engine gets
		within time.Duration
	}{
		{
			"what waits is answered elsewhere", func() wire { return silence }, 0, false,
			[]string{stream, whole, stream},
			3, 20 * time.Second,
		},
		{"whole answers alone tell nothing", func() wire { return silence }, 0, false, []string{whole, whole}, 0, 0},
		{"streams tell that it lives", func() wire {
			first := true
			return func(r *http.Request) (*http.Response, error) {
				if first {
					first = false
					return trickles(120)(r)
				}
				return silence(r)
			}
		}, 0, false, []string{stream, stream}, 0, 0},
		{
			"comments tell nothing", func() wire { return pings(": ping\n\n") }, 0, false,
			[]string{stream, stream},
			1, 20 * time.Second,
		},
		{
			"nor do events of pings",
			func() wire { return pings("event: ping\ndata: {\"type\": \"ping\"}\n\n") }, 0, false,
			[]string{stream, stream},
			1, 20 * time.Second,
		},
		{"it may be turned off", func() wire { return silence }, -1, false, []string{stream}, 0, 0},
		{"there is no other", func() wire { return silence }, 0, true, []string{stream}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine, toSecond := after(time.Minute, tt.engine()), new(atomic.Int32)
				declared := []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}}
				if !tt.alone {
					declared = append(declared, fleet.Endpoint{Name: "e1", URL: "http://e1", Weight: 1})
				}
				r := newRouter(t, proxy.Config{}, wire(func(req *http.Request) (*http.Response, error) {
					_, _ = io.Copy(io.Discard, req.Body)
					if req.URL.Hostname() == "e1" {
						toSecond.Add(1)
						return says(chatAnswer)
					}
					return engine(req)
				}), route.Config{Policy: func() pick.Policy { return inOrder{} }, Silent: tt.silent}, declared,
					func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
				ctx, stop := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer stop()
				go r.proxy.Run(ctx)
				send := func(body string) *httptest.ResponseRecorder {
					w := httptest.NewRecorder()
					r.proxy.ServeHTTP(w,
						httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
					return w
				}
				if w := send(stream); w.Code != 200 { // from which it learns how long an answer takes
					t.Fatalf("the first answer was %d %s", w.Code, w.Body)
				}
				time.Sleep(time.Minute)
				began, done := time.Now(), make(chan time.Duration, len(tt.ask))
				for _, body := range tt.ask {
					go func() {
						defer func() { _ = recover() }() // http.ErrAbortHandler, of a stream that the end cuts
						if w := send(body); w.Code == 200 {
							done <- time.Since(began)
						}
					}()
					synctest.Wait()
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := int(toSecond.Load()); got != tt.moved {
					t.Errorf("the other engine got %d requests; want %d", got, tt.moved)
				}
				for range tt.moved {
					if took := <-done; took < 10*time.Second || took > tt.within {
						t.Errorf("an answer came after %v; want from 10 s to %v", took, tt.within)
					}
				}
				ejected := slices.ContainsFunc(r.fleet.Status(), func(s route.EndpointStatus) bool {
					return s.Failures > 0
				})
				if ejected != (tt.moved > 0) {
					t.Errorf("the engine is blamed: %v; want %v", ejected, tt.moved > 0)
				}
				if said := r.log.String(); strings.Contains(said, "context canceled") ||
					strings.Contains(said, "no sign of life") != (tt.moved > 0) {
					t.Errorf("the log does not say why: %s", said)
				}
				r.proxy.Abort()
				synctest.Wait()
				r.booksBalance()
			})
		})
	}
}

// TestSilentEnginesInTurn: a request that was moved from a silent engine to one that falls silent too stays there when
// the first is well again, since it would not get the request another time.
func TestSilentEnginesInTurn(t *testing.T) {
	const stream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		silentUntil := map[string]time.Duration{"e0": 75 * time.Second, "e1": 100 * time.Second}
		r := newRouter(t, proxy.Config{}, wire(func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			engine, since := req.URL.Hostname(), time.Since(began)
			switch {
			case since == 0 && engine == "e0":
				return nil, io.ErrUnexpectedEOF // so that the other answers for once
			case since >= time.Minute && since < silentUntil[engine]:
				select {
				case <-time.After(silentUntil[engine] - since):
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
			}
			return trickles(2)(req)
		}), route.Config{Policy: func() pick.Policy { return inOrder{} }}, []fleet.Endpoint{
			{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
		}, func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.proxy.Run(ctx)
		send := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r.proxy.ServeHTTP(w,
				httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(stream)))
			return w
		}
		look := func(want ...fleet.State) {
			var states []fleet.State
			for _, s := range r.fleet.Status() {
				states = append(states, s.State)
			}
			if !slices.Equal(states, want) {
				t.Errorf("after %v the engines are %v, want %v", time.Since(began), states, want)
			}
		}
		for range 2 { // from which it learns how long an answer of either takes
			if w := send(); w.Code != 200 {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
		}
		time.Sleep(time.Minute - time.Since(began))
		const waiting = 3
		moved := make(chan *httptest.ResponseRecorder, waiting)
		for range waiting {
			go func() { moved <- send() }()
		}
		time.Sleep(15 * time.Second)
		look(fleet.StateEjected, fleet.StateUp)
		time.Sleep(10 * time.Second)
		look(fleet.StateUp, fleet.StateEjected)
		for range waiting {
			if w := <-moved; w.Code != 200 || !strings.Contains(w.Body.String(), "[DONE]") {
				t.Errorf("what waits at the second is answered %d %s", w.Code, w.Body)
			}
		}
		synctest.Wait()
		r.booksBalance()
	})
}
