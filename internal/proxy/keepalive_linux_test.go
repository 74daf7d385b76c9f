package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestLostNodesAreNoticed: the kernel ends a silent connection to an engine whose node is lost within half a minute.
// The connections are those of both clients, found among the descriptors of this process by the engine's port.
func TestLostNodesAreNoticed(t *testing.T) {
	for _, std := range []bool{false, true} {
		release := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-release
		}))
		c := proxy.NewTransport(proxy.TransportConfig{Connect: time.Minute, NetHTTP: std})
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for fd := range 1000 {
			to, err := syscall.Getpeername(fd)
			at, ok := to.(*syscall.SockaddrInet4)
			if err != nil || !ok || !strings.HasSuffix(s.URL, ":"+strconv.Itoa(at.Port)) {
				continue
			}
			found++
			get := func(option int) int {
				v, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, option)
				if err != nil {
					t.Error(err)
				}
				return v
			}
			on, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			silence := get(syscall.TCP_KEEPIDLE) + get(syscall.TCP_KEEPINTVL)*get(syscall.TCP_KEEPCNT)
			if err != nil || on == 0 || silence > 30 {
				t.Errorf("net/http %t: keep-alive %d %v, noticed after %d s", std, on, err, silence)
			}
		}
		if found != 1 {
			t.Errorf("net/http %t: %d connections to the engine", std, found)
		}
		close(release)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		c.CloseIdleConnections()
		s.Close()
	}
}
