package h1

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestHeadIsLetGo: while an engine computes, the client has nothing of the request's head, on new and on kept
// connections.
func TestHeadIsLetGo(t *testing.T) {
	const requests, size = 300, 60 << 10
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var got sync.WaitGroup
	got.Add(requests)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		clear(r.Header)
		got.Done()
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	c := newClient(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	long := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range requests {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["X-Long"] = []string{long}
		all.Go(func() {
			if res, err := c.RoundTrip(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
			}
		})
	}
	got.Wait()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / requests; held > size {
		t.Errorf("%d bytes are held for each request with a head of %d", held, size)
	}
	cancel()
	all.Wait()
}
