package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/extproc"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// newShort is a router of an engine whose cache three conversations fill that come back quickly.
func newShort(t *testing.T, cfg proxy.Config, engine wire) *rig {
	t.Helper()
	r := newRouter(t, cfg, engine, route.Config{Policy: func() pick.Policy { return inOrder{} }, Admission: true},
		[]fleet.Endpoint{{Name: "e", URL: "http://10.0.0.1:8000", Weight: 1, Kind: fleet.KindVLLM}},
		func(k fleet.Kind) fleet.Report {
			return fleet.Report{Kind: k, CacheTokens: 100_000, Models: []fleet.Model{{ID: "m"}}}
		})
	for range 20 {
		var leases []fleet.Lease
		for _, name := range []string{"a", "b", "c"} {
			p, err := r.fleet.Decide(&fleet.Request{
				Model: "m", Session: name, Class: fleet.Turn, PromptTokens: 30_000, Stream: true, MayQueue: true,
				MayHold: true,
			})
			if err != nil || p.Lease == 0 {
				t.Fatalf("%s: %+v, %v", name, p, err)
			}
			leases = append(leases, p.Lease)
		}
		time.Sleep(10 * time.Second)
		for _, l := range leases {
			r.fleet.Observe(route.FirstByte{Lease: l})
		}
		for _, l := range leases {
			r.fleet.Observe(route.Finished{Lease: l, Usage: fleet.Usage{PromptTokens: 30_000, OutputTokens: 10}})
		}
		time.Sleep(time.Second)
	}
	return r
}

// TestHeldRequests: a request that is held before it is placed goes on when it is called, and every way out of the hold
// ends it once. Where a proxy asks by external processing, the same requests are held for as long.
func TestHeldRequests(t *testing.T) {
	asked := `{"model":"m","prompt":[1` + strings.Repeat(",1", 29_999) + `]}`
	answer := func(*http.Request) (*http.Response, error) {
		return says(`{"choices":[{"index":0,"text":"hi"}],"usage":{"prompt_tokens":30000,"completion_tokens":5}}`)
	}
	for _, tt := range []struct {
		name   string
		header string // and its value, "" for none
		leaves bool   // its client leaves, or else the router shuts down
		stops  bool
		at     time.Duration // when it is over, at most
		status int
		says   string
	}{
		{"called", "", false, false, 5 * time.Minute, 200, `"hi"`},
		{"left", "", true, false, 0, 200, ""}, // nothing is written
		{"shut down", "", false, true, 0, 503, "shutting_down"},
		{"would wait too long", "X-Warmpath-Wait 10", false, false, 0, 429, "held_too_long"},
		{"would be late", "X-Warmpath-Deadline 10", false, false, 0, 429, "held_too_long"},
		{"may wait long enough", "X-Warmpath-Wait 600", false, false, 5 * time.Minute, 200, `"hi"`},
	} {
		held := map[string]time.Duration{}
		for name, through := range map[string]func(r *rig) http.Handler{
			"":                        func(r *rig) http.Handler { return r.proxy },
			" by external processing": func(r *rig) http.Handler { return newPicking(r, answer) },
		} {
			t.Run(tt.name+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newShort(t, proxy.Config{}, answer)
					door := through(r)
					ctx, leave := context.WithCancel(t.Context())
					run, stop := context.WithCancel(t.Context())
					go r.proxy.Run(run)
					req := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(asked))
					req = req.WithContext(ctx)
					req.Header.Set("X-Session-Id", "d")
					if name, value, ok := strings.Cut(tt.header, " "); ok {
						req.Header.Set(name, value)
					}
					w, began := httptest.NewRecorder(), time.Now()
					over := make(chan time.Duration)
					go func() {
						defer func() {
							_ = recover() // http.ErrAbortHandler, for a client that has left
							over <- time.Since(began)
						}()
						door.ServeHTTP(w, req)
					}()
					synctest.Wait()
					if waits := tt.status != http.StatusTooManyRequests; waits != (r.fleet.Held() == 1) {
						t.Fatalf("%d are held: %d %s", r.fleet.Held(), w.Code, w.Body)
					}
					if tt.leaves {
						leave()
					}
					if tt.stops {
						r.proxy.Drain()
						r.proxy.Abort()
					}
					took := <-over
					if held[name] = took; took > tt.at {
						t.Errorf("it was over after %v, want %v at most", took, tt.at)
					}
					if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
						t.Errorf("the client got %d %s, want %d with %s", w.Code, w.Body, tt.status, tt.says)
					}
					if after := w.Header().Get("Retry-After"); (after != "") != (tt.status >= 400) ||
						tt.status == http.StatusTooManyRequests && len(after) < 2 {
						t.Errorf("Retry-After is %q", after)
					}
					if r.fleet.Held() != 0 {
						t.Errorf("%d are still held", r.fleet.Held())
					}
					r.booksBalance()
					leave()
					stop()
				})
			})
		}
		for name, took := range held {
			if took != held[""] {
				t.Errorf("%s is over after %v%s, after %v without", tt.name, took, name, held[""])
			}
		}
	}
}

// picking is a proxy before one engine that asks a router by external processing where requests go.
type picking struct {
	router *extproc.Server
	engine wire
}

func newPicking(r *rig, engine wire) picking {
	return picking{extproc.New(extproc.Config{
		Door: r.proxy, Fleet: r.fleet, Ready: func() bool { return true }, BodyBytes: 1 << 20,
		Memory: body.NewBudget(1 << 30), Log: slog.New(slog.DiscardHandler),
	}), engine}
}

func (p picking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &pickingStream{ctx: r.Context(), come: make(chan *extprocv3.ProcessingRequest, 4), engine: p.engine, w: w}
	text, _ := io.ReadAll(r.Body)
	headers := headersMessage(":method", r.Method, ":path", r.URL.Path, ":authority", r.Host)
	for name, values := range r.Header {
		headers.Headers = append(headers.Headers, headersMessage(strings.ToLower(name), values[0]).Headers...)
	}
	s.come <- &extprocv3.ProcessingRequest{
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED},
		Request: &extprocv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extprocv3.HttpHeaders{Headers: headers},
		},
	}
	s.come <- &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: text, EndOfStream: true},
	}}
	_ = p.router.Process(s)
}

// pickingStream is one of its requests.
type pickingStream struct {
	grpc.ServerStream
	ctx    context.Context
	come   chan *extprocv3.ProcessingRequest // for the router
	engine wire
	w      http.ResponseWriter
}

func (s *pickingStream) Context() context.Context { return s.ctx }

func (s *pickingStream) Recv() (*extprocv3.ProcessingRequest, error) {
	select {
	case m, more := <-s.come:
		if !more {
			return nil, io.EOF
		}
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *pickingStream) Send(m *extprocv3.ProcessingResponse) error {
	if now := m.GetImmediateResponse(); now != nil {
		for _, h := range now.GetHeaders().GetSetHeaders() {
			s.w.Header().Set(h.Header.Key, string(h.Header.RawValue))
		}
		s.w.WriteHeader(int(now.Status.Code))
		_, _ = s.w.Write(now.Body)
		return nil
	}
	if m.GetDynamicMetadata() == nil { // names no endpoint
		return nil
	}
	answer, err := s.engine(nil)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(answer.Body)
	_, _ = s.w.Write(text)
	s.come <- &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: headersMessage(":status", "200", "content-type", "application/json"),
		},
	}}
	s.come <- &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: text, EndOfStream: true},
	}}
	close(s.come)
	return nil
}

// headersMessage is headers of these names and values, in turn.
func headersMessage(all ...string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for pair := range slices.Chunk(all, 2) {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pair[0], RawValue: []byte(pair[1])})
	}
	return m
}

// TestEndOfASessionFreesItsPlace: a request that is held goes on at once when a session that has a place is ended.
func TestEndOfASessionFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShort(t, proxy.Config{}, func(*http.Request) (*http.Response, error) {
			return says(`{"choices":[{"index":0,"text":"hi"}],"usage":{"prompt_tokens":30000,"completion_tokens":5}}`)
		})
		ctx, stop := context.WithCancel(t.Context())
		go r.proxy.Run(ctx)
		body := `{"model":"m","prompt":[1` + strings.Repeat(",1", 29_999) + `]}`
		over, began := make(chan time.Duration), time.Now()
		go func() {
			req := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(body))
			req.Header.Set("X-Session-Id", "d")
			r.proxy.ServeHTTP(httptest.NewRecorder(), req)
			over <- time.Since(began)
		}()
		synctest.Wait()
		if r.fleet.Held() != 1 {
			t.Fatalf("%d are held, want one", r.fleet.Held())
		}
		if known := r.fleet.Close("other", "a"); known || r.fleet.Held() != 1 {
			t.Fatalf("another tenant has ended a session: %d are held", r.fleet.Held())
		}
		if !r.fleet.Close("", "a") {
			t.Fatal("the session is not known")
		}
		if took := <-over; took > 0 {
			t.Errorf("it went on after %v, want at once", took)
		}
		r.booksBalance()
		stop()
	})
}

// TestWaitCountsTheHold: a request waits no longer than its client allows, held and queued together.
func TestWaitCountsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := fleet.QueueClass{MaxRunning: 1}
		table := quota.New(time.Now(), quota.Config{Tenant: true, Each: quota.Limits{QueueClass: one}})
		r := newShort(t, proxy.Config{Quota: table}, func(*http.Request) (*http.Response, error) {
			t.Error("the engine is asked")
			return says(`{}`)
		})
		ctx, stop := context.WithCancel(t.Context())
		go r.proxy.Run(ctx)
		running, err := r.fleet.Decide(&fleet.Request{
			Model: "m", Session: "a", Class: fleet.Turn, PromptTokens: 30_000, QueueClass: one,
		})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPost,
			"/v1/completions", strings.NewReader(`{"model":"m","prompt":[1`+strings.Repeat(",1", 29_999)+`]}`))
		req.Header.Set("X-Session-Id", "d")
		req.Header.Set("X-Warmpath-Wait", "600")
		w, began, over := httptest.NewRecorder(), time.Now(), make(chan time.Duration)
		go func() {
			r.proxy.ServeHTTP(w, req)
			over <- time.Since(began)
		}()
		synctest.Wait()
		if r.fleet.Held() != 1 {
			t.Fatalf("%d are held, want one: %d %s", r.fleet.Held(), w.Code, w.Body)
		}
		time.Sleep(5 * time.Minute)
		if r.fleet.Held() != 0 || r.fleet.Queued() != 1 {
			t.Fatalf("%d are held and %d queued, want one queued", r.fleet.Held(), r.fleet.Queued())
		}
		if took := <-over; took != 10*time.Minute || w.Code != http.StatusServiceUnavailable {
			t.Errorf("it ended after %v with %d %s, want 503 after 10 minutes", took, w.Code, w.Body)
		}
		r.fleet.Observe(route.Finished{Lease: running.Lease})
		r.booksBalance()
		stop()
	})
}
