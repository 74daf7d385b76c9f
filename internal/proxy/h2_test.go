package proxy_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/proxy"
)

// deaf is a connection whose other end sends nothing any more once it is cut off, and says nothing of that.
type deaf struct {
	net.Conn
	cut, closed chan struct{}
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	select {
	case <-d.cut:
		<-d.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (d *deaf) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return d.Conn.Close()
}

// TestDeadHTTP2Connection: requests over HTTP/2 to an engine whose host has gone without a word end with their
// connection, and the next one gets another.
func TestDeadHTTP2Connection(t *testing.T) {
	certificate := func() tls.Certificate { // httptest has one
		s := httptest.NewUnstartedServer(nil)
		s.StartTLS()
		defer s.Close()
		return s.TLS.Certificates[0]
	}()
	synctest.Test(t, func(t *testing.T) {
		engine := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto)
			}),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, Time: time.Now},
		}
		l := make(pipes, 1)
		served := make(chan error)
		go func() { served <- engine.ServeTLS(l, "", "") }()
		var dialled []*deaf
		transport := proxy.NewTransport(proxy.TransportConfig{
			Connect: time.Second, TLS: &tls.Config{InsecureSkipVerify: true},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				l <- far
				c := &deaf{near, make(chan struct{}), make(chan struct{})}
				dialled = append(dialled, c)
				return c, nil
			},
		})
		ask := func() (string, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://engine/health", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				return "", err
			}
			defer func() { _ = res.Body.Close() }()
			b, err := io.ReadAll(res.Body)
			return string(b), err
		}
		if got, err := ask(); got != "HTTP/2.0" || err != nil {
			t.Fatalf("%q %v", got, err)
		}
		close(dialled[0].cut)
		began, lost := time.Now(), make(chan error, 1)
		go func() { _, err := ask(); lost <- err }()
		select {
		case err := <-lost:
			if took := time.Since(began); err == nil || errors.Is(err, context.Canceled) || took < time.Second {
				t.Errorf("%v after %v", err, took)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request on a dead connection waits for ever")
		}
		if got, err := ask(); got != "HTTP/2.0" || err != nil || len(dialled) != 2 {
			t.Errorf("the next: %q %v, %d connections", got, err, len(dialled))
		}
		transport.CloseIdleConnections()
		close(l)
		<-served
		_ = engine.Close()
	})
}
