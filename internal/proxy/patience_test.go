package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// wire is engines without a network, so that a test can hold the clock still.
type wire func(*http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	return w(r)
}

// silence is an engine that never answers.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func says(body string) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// pushes is a protocol whose prefillers are said to tell the router something.
type pushes struct{ handover.Nixl }

func (p pushes) Prefill(x *handover.Request) (handover.Message, error) {
	m, err := p.Nixl.Prefill(x)
	m.Await = handover.Await{ID: "id", Count: 1}
	return m, err
}

// TestShutdownEndsEveryWait: Abort ends at once what a request waits for outside its attempts too. No time passes.
func TestShutdownEndsEveryWait(t *testing.T) {
	never := func(string, int) (func(context.Context) bool, func()) {
		return func(ctx context.Context) bool { <-ctx.Done(); return false }, func() {}
	}
	at := func(host string, is, otherwise wire) wire {
		return func(r *http.Request) (*http.Response, error) {
			if r.URL.Hostname() == host {
				return is(r)
			}
			return otherwise(r)
		}
	}
	answers := func(body string) wire { return func(*http.Request) (*http.Response, error) { return says(body) } }
	for _, tt := range []struct {
		name   string
		path   string // of a GET; "" posts a chat
		cfg    proxy.Config
		wire   wire
		status int
	}{
		{"the engines' lists of models", "/v1/models", proxy.Config{}, silence, 200},
		{"the prefiller's address", "", proxy.Config{Connector: handover.Mooncake{}}, silence, 503},
		{"the prefiller's notice", "", proxy.Config{Connector: pushes{}, Notices: never}, answers(handedOver), 503},
		{
			"the prefiller beside an answer", "",
			proxy.Config{Connector: &rooms{}},
			at("p", silence, answers(chatAnswer)), 200,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, tt.cfg, tt.wire, route.Config{
					Policy: func() pick.Policy { return inOrder{} }, Disaggregation: always,
				},
					[]fleet.Endpoint{
						{Name: "p", URL: "http://p", Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill},
						{Name: "d", URL: "http://d", Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
					}, func(k fleet.Kind) fleet.Report {
						return fleet.Report{Kind: k, Models: []fleet.Model{{ID: "m"}}}
					})
				req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody))
				if tt.path != "" {
					req = httptest.NewRequest(http.MethodGet, tt.path, http.NoBody)
				}
				w, began := httptest.NewRecorder(), time.Now()
				go r.proxy.ServeHTTP(w, req)
				synctest.Wait()
				if r.proxy.Open() != 1 {
					t.Fatalf("it does not wait: %d %s", w.Code, w.Body)
				}
				r.proxy.Drain()
				r.proxy.Abort()
				synctest.Wait()
				if r.proxy.Open() != 0 || time.Since(began) > 0 {
					t.Errorf("%d requests are open %v after Abort", r.proxy.Open(), time.Since(began))
				}
				if w.Code != tt.status {
					t.Errorf("the client got %d %s, want %d", w.Code, w.Body, tt.status)
				}
				r.booksBalance()
			})
		})
	}
}

// TestShutdownEndsTheWaitForABody: a client that is slow to send its request does not hold the router up, and is told
// why.
func TestShutdownEndsTheWaitForABody(t *testing.T) {
	r := newRig(t, proxy.Config{ReadBody: time.Minute}, answers(200, chatAnswer))
	c := r.open(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{",
		len(chatBody)))
	r.eventually("the call is open", func() bool { return r.proxy.Open() == 1 })
	r.proxy.Drain()
	r.proxy.Abort()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	if got := string(b); err != nil || !strings.HasPrefix(got, "HTTP/1.1 503 ") ||
		!strings.Contains(got, "shutting_down") {
		t.Errorf("the client got %q, %v", got, err)
	}
}

// TestUsageOfALatePrefiller: a decoder's answer may be here before the reply of the prefiller that it was waiting for.
// The client is told that prefiller's cached tokens all the same; the decoder's where it never replies.
func TestUsageOfALatePrefiller(t *testing.T) {
	usage := func(cached int) string {
		return fmt.Sprintf(
			`"usage":{"prompt_tokens":300,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":%d}}`, cached)
	}
	whole := `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}],` + usage(300) + `}`
	stream := `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n" + `data: {"choices":[],` +
		usage(300) + "}\n\ndata: [DONE]\n\n"
	for _, tt := range []struct {
		name, answer, media string
		late                time.Duration
		want                int
	}{
		{"whole", whole, "application/json", 300 * time.Millisecond, 16},
		{"stream", stream, "text/event-stream", 300 * time.Millisecond, 16},
		{"never", whole, "application/json", time.Hour, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engines := wire(func(r *http.Request) (*http.Response, error) {
					if r.URL.Hostname() == "d" {
						res, err := says(tt.answer)
						res.Header.Set("Content-Type", tt.media)
						return res, err
					}
					select {
					case <-time.After(tt.late):
						return says(`{"choices":[{"index":0,"message":{"role":"assistant","content":"h"}}],` +
							usage(16) + `}`)
					case <-r.Context().Done():
						return nil, context.Cause(r.Context())
					}
				})
				r := newRouter(t, proxy.Config{Connector: &rooms{}}, engines,
					route.Config{Policy: func() pick.Policy { return inOrder{} }, Disaggregation: always},
					[]fleet.Endpoint{
						{Name: "p", URL: "http://p", Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill},
						{Name: "d", URL: "http://d", Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
					}, func(k fleet.Kind) fleet.Report {
						return fleet.Report{Kind: k, Models: []fleet.Model{{ID: "m"}}}
					})
				body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":` +
					fmt.Sprint(tt.name == "stream") + `,"stream_options":{"include_usage":true}}`
				w := httptest.NewRecorder()
				r.proxy.ServeHTTP(w,
					httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
				want := strings.Replace(tt.answer, usage(300), usage(tt.want), 1)
				if got := w.Body.String(); w.Code != 200 || got != want {
					t.Errorf("the client got %d\n%s\nwant\n%s", w.Code, got, want)
				}
				r.booksBalance()
			})
		})
	}
}
