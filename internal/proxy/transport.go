package proxy

import (
	"net"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/h1"
)

// Transport connects to engines: by the lean client of package h1 over plain HTTP, by net/http over TLS. docs/decisions
// says by which measurement.
type Transport struct {
	plain  *h1.Client
	secure *http.Transport
}

// NewTransport makes a Transport that gives up connecting after the given time.
func NewTransport(connect time.Duration) *Transport {
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 15 * time.Second}
	return &Transport{
		plain: h1.New(h1.Config{DialTimeout: connect}),
		secure: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connect, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 256, IdleConnTimeout: 4 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
		},
	}
}

// RoundTrip sends a request to an engine and returns when the header of its answer has come.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.secure.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

// CloseIdleConnections closes the connections that nobody uses.
func (t *Transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.secure.CloseIdleConnections()
}
