package proxy_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/proxy"
)

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// TestNamesAreLookedUpAgain: a connection to a named host takes requests for half a minute, however many come, so that
// they follow the name to another engine. One to an address stays. What is given up is closed at once, and so are all
// on demand.
func TestNamesAreLookedUpAgain(t *testing.T) {
	certificate := someCertificate()
	for name, row := range map[string]struct {
		url     string
		netHTTP bool
		proto   string
		want    int // connections in 100 s
	}{
		"plain":           {"http://engine:8000", false, "HTTP/1.1", 4},
		"plain, net/http": {"http://engine:8000", true, "HTTP/1.1", 4},
		"HTTP/2":          {"https://engine:8000", false, "HTTP/2.0", 4},
		"TLS":             {"https://own:8000", false, "HTTP/1.1", 4},
		"plain address":   {"http://10.0.0.1:8000", false, "HTTP/1.1", 1},
		"HTTP/2 address":  {"https://[fd00::1]:8000", false, "HTTP/2.0", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &http.Server{
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.WriteString(w, r.Proto)
					}),
					TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, Time: time.Now},
				}
				engine.Protocols = new(http.Protocols)
				engine.Protocols.SetHTTP1(true)
				engine.Protocols.SetHTTP2(row.proto == "HTTP/2.0")
				l, served := make(pipes, 1), make(chan error)
				go func() {
					if row.url[:5] == "https" {
						served <- engine.ServeTLS(l, "", "")
						return
					}
					served <- engine.Serve(l)
				}()
				dialled := 0
				var open atomic.Int64
				transport := proxy.NewTransport(proxy.TransportConfig{
					Connect: time.Second, NetHTTP: row.netHTTP, TLS: &tls.Config{InsecureSkipVerify: true},
					Hosts: map[string]*tls.Config{"own:8000": {InsecureSkipVerify: true}},
					Dial: func(context.Context, string, string) (net.Conn, error) {
						near, far := net.Pipe()
						l <- far
						dialled++
						open.Add(1)
						return &counted{Conn: near, open: &open}, nil
					},
				})
				for range 100 {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, row.url, http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					res, err := transport.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if string(b) != row.proto || err != nil {
						t.Fatalf("%q %v", b, err)
					}
					if synctest.Wait(); open.Load() != 1 {
						t.Fatalf("%d connections are open, want one", open.Load())
					}
					time.Sleep(time.Second)
				}
				if dialled != row.want {
					t.Errorf("%d connections, want %d", dialled, row.want)
				}
				transport.CloseIdleConnections()
				if synctest.Wait(); open.Load() != 0 {
					t.Errorf("%d connections are open, want none", open.Load())
				}
				close(l)
				<-served
				_ = engine.Close()
			})
		})
	}
}
