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

// TransportConfig says how engines are connected to. Zero means the default named at each field.
type TransportConfig struct {
	Connect time.Duration                                                     // longest attempt to connect; required
	NetHTTP bool                                                              // engines in plain text are sent to by net/http's client too. Config.NetHTTP must say the same
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // default TCP and Unix sockets
	Log     *slog.Logger                                                      // hears of names that cannot be looked up; default slog.Default
}

// Transport connects to engines: by the lean client of package h1 over plain HTTP and Unix sockets unless that is not wanted, by net/http over
// TLS. docs/decisions says by which measurement.
type Transport struct {
	lean *h1.Client // nil when net/http does it all
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

// RoundTrip sends a request to an engine and returns when the header of its answer has come.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.std.RoundTrip(r)
	}
	if r = unixsocket.Request(r); t.lean == nil {
		return t.std.RoundTrip(r)
	}
	return t.lean.RoundTrip(r)
}

// CloseIdleConnections closes the connections that nobody uses.
func (t *Transport) CloseIdleConnections() {
	if t.lean != nil {
		t.lean.CloseIdleConnections()
	}
	t.std.CloseIdleConnections()
}
