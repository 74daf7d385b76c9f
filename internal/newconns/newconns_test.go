package newconns_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/newconns"
)

// TestWatch: when the server stops, a connection without a request is closed and a running request is answered.
func TestWatch(t *testing.T) {
	running, free := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(running)
		<-free
		_, _ = io.WriteString(w, "answered")
	})}
	newconns.Watch(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		return c
	}
	silent, asking := dial(), dial()
	if _, err := io.WriteString(asking, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-running // and the connection before it is accepted
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(context.Background()) }()
	if n, err := silent.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d bytes, %v on a connection that asked for nothing", n, err)
	}
	close(free)
	if answer, err := io.ReadAll(asking); err != nil || len(answer) < 8 ||
		string(answer[len(answer)-8:]) != "answered" {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// pipes is a listener in memory.
type pipes struct {
	come   chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestNewConnectionsAreNotWaitedFor: a server that stops waits for none of them, not even the 5 s that net/http would.
func TestNewConnectionsAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{}
		newconns.Watch(server)
		l := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		for _, said := range []string{"", "GET /he"} {
			near, far := net.Pipe()
			defer near.Close()
			l.come <- far
			if _, err := io.WriteString(near, said); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v to stop", took)
		}
		<-done
	})
}
