package newconns_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/warmpath/warmpath/internal/newconns"
)

// TestBound: a connection beyond the bound is told so and closed, and one that ends makes room.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		newconns.Watch(server)
		newconns.Bound(server, 2)
		l := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		dial := func() net.Conn {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close() })
			l.come <- far
			return near
		}
		status := func(c net.Conn, asks bool) int {
			if asks {
				go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Fatal(err)
			}
			return res.StatusCode
		}
		first, second := dial(), dial()
		if got := status(dial(), false); got != 503 {
			t.Errorf("the third is answered %d", got)
		}
		if a, b := status(first, true), status(second, true); a != 200 || b != 200 {
			t.Errorf("the others are answered %d and %d", a, b)
		}
		_ = first.Close()
		synctest.Wait()
		if got := status(dial(), true); got != 200 {
			t.Errorf("in the place of one that has ended: %d", got)
		}
		_ = server.Close()
		<-done
	})
}
