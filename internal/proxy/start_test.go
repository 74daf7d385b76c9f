package proxy_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/prompt"
)

// TestRequestsWaitForTheStart: until the fleet is known requests wait, whatever they ask for, and the door is not
// ready. A client that leaves, and a router that ends, end the wait.
func TestRequestsWaitForTheStart(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, body string
		end                      func(r *rig, leave func(), started chan struct{})
		status                   int
	}{
		{"a chat", http.MethodPost, "/v1/chat/completions", chatBody, func(_ *rig, _ func(), started chan struct{}) {
			close(started)
		}, 200},
		{"the list of models", http.MethodGet, "/v1/models", "", func(_ *rig, _ func(), started chan struct{}) {
			close(started)
		}, 200},
		{"another path", http.MethodPost, "/tokenize", chatBody, func(_ *rig, _ func(), started chan struct{}) {
			close(started)
		}, 200},
		{
			"a client that leaves", http.MethodPost, "/v1/chat/completions", chatBody,
			func(_ *rig, leave func(), _ chan struct{}) { leave() }, 0,
		},
		{
			"a router that ends", http.MethodPost, "/v1/chat/completions", chatBody,
			func(r *rig, _ func(), _ chan struct{}) { r.proxy.Abort() }, 503,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := wire(func(*http.Request) (*http.Response, error) { return says(chatAnswer) })
				r := newFleet(t, proxy.Config{}, answers, []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}})
				parser, err := prompt.Identity{}.Parser()
				if err != nil {
					t.Fatal(err)
				}
				started := make(chan struct{})
				r.proxy = proxy.New(proxy.Options{
					Config: proxy.Config{Paths: paths(t, "*")}, Fleet: r.fleet, Transport: answers, Parser: parser,
					Log: slog.New(slog.DiscardHandler), Started: started,
				})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				w, over := httptest.NewRecorder(), make(chan any)
				go func() {
					defer func() { over <- recover() }()
					r.proxy.ServeHTTP(w,
						httptest.NewRequestWithContext(ctx, tt.method, tt.path, strings.NewReader(tt.body)))
				}()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				ready := httptest.NewRecorder()
				r.proxy.ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
				if r.proxy.Open() != 1 || ready.Code != http.StatusServiceUnavailable {
					t.Fatalf("%d requests wait, and /readyz says %d %s", r.proxy.Open(), ready.Code, ready.Body)
				}
				tt.end(r, leave, started)
				if failed := <-over; (failed != nil) != (tt.status == 0) || tt.status > 0 && w.Code != tt.status {
					t.Errorf("the client got %d %s, and the handler ended with %v; want %d",
						w.Code, w.Body, failed, tt.status)
				}
				r.booksBalance()
			})
		})
	}
}
