package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/lastknown"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

// TransportConfig says how to connect to engines. Zero means the default named at each field.
type TransportConfig struct {
	Connect time.Duration                                                     // longest attempt to connect; required
	NetHTTP bool                                                              // use net/http's client for engines in plain text too. Config.NetHTTP must agree
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // default TCP and Unix sockets
	Log     *slog.Logger                                                      // hears of names that cannot be looked up; default slog.Default
}

// Transport connects to engines: with the lean client of package h1 over plain HTTP and Unix sockets, unless that is off, and
// with net/http over TLS. docs/decisions has the measurements.
type Transport struct {
	lean *h1.Client // nil when net/http does everything
	std  *http.Transport
}

// NewTransport makes a Transport.
func NewTransport(cfg TransportConfig) *Transport {
	if cfg.Dial == nil {
		log := cfg.Log
		if log == nil {
			log = slog.Default()
		}
		d := &net.Dialer{Timeout: cfg.Connect, KeepAlive: 15 * time.Second}
		cfg.Dial = lastknown.Dialer(unixsocket.Dial(d), log)
	}
	t := &Transport{std: &http.Transport{
		DialContext: cfg.Dial, TLSHandshakeTimeout: cfg.Connect, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 256, IdleConnTimeout: 4 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
	}}
	if !cfg.NetHTTP {
		t.lean = h1.New(h1.Config{DialTimeout: cfg.Connect, Dial: cfg.Dial})
	}
	return t
}

// RoundTrip sends a request to an engine and returns when the header of the answer has arrived.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.std.RoundTrip(r)
	}
	if r = unixsocket.Request(r); t.lean == nil {
		return t.std.RoundTrip(r)
	}
	return t.lean.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections.
func (t *Transport) CloseIdleConnections() {
	if t.lean != nil {
		t.lean.CloseIdleConnections()
	}
	t.std.CloseIdleConnections()
}
