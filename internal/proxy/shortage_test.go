package proxy_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// TestNoFileDescriptorsBlamesNoEndpoint: an endpoint that cannot be connected to because the router has no file
// descriptor left is as good as before, and the client is told whose shortage it is.
func TestNoFileDescriptorsBlamesNoEndpoint(t *testing.T) {
	var short atomic.Bool
	var d net.Dialer
	transport := proxy.NewTransport(proxy.TransportConfig{
		Connect: time.Minute, NetHTTP: netHTTP(),
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if short.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			return d.DialContext(ctx, network, addr)
		},
	})
	closeIdle(t, transport)
	var declared []fleet.Endpoint
	for _, name := range []string{"e0", "e1"} {
		declared = append(declared, fleet.Endpoint{
			Name: name, URL: serveEngine(t, answers(200, chatAnswer)), Weight: 1,
		})
	}
	r := newFleet(t, proxy.Config{}, transport, declared)
	r.listen(t)
	short.Store(true)
	for range 4 { // more than eject an endpoint
		res, body := r.post("/v1/chat/completions", chatBody)
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "file descriptor") ||
			!strings.Contains(body, `"overloaded"`) {
			t.Errorf("got %d %s", res.StatusCode, body)
		}
	}
	for _, s := range r.fleet.Status() {
		if s.State != fleet.StateUp {
			t.Errorf("%s is %s", s.Endpoint.Name, s.State)
		}
	}
	short.Store(false)
	if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || body != chatAnswer {
		t.Errorf("afterwards: %d %s", res.StatusCode, body)
	}
}
