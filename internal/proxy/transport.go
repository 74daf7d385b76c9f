package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/lastknown"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

// TransportConfig says how to connect to engines. Zero means the default named at each field.
type TransportConfig struct {
	Connect time.Duration // longest attempt to connect; required
	// use net/http's client for engines in plain text too. Config.NetHTTP must agree
	NetHTTP bool
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // default TCP and Unix sockets
	// towards engines over TLS; default the system's
	TLS *tls.Config
	// the same by host:port, where it is another; nil is the system's
	Hosts map[string]*tls.Config
	// hears of names that cannot be looked up; default slog.Default
	Log *slog.Logger
}

// Transport connects to engines: with the lean client of package h1 over plain HTTP and Unix sockets, unless that is
// off, and with net/http over TLS. docs/decisions has the measurements.
type Transport struct {
	lean *h1.Client // nil when net/http does everything
	std  *http.Transport
	own  map[string]*http.Transport // of hosts with TLS settings of their own, by host:port
}

// A connection to an engine over HTTP/2 carries many requests. After pingAfter without a byte from the engine it is
// pinged, and closed if no answer comes within pingWait: otherwise new requests would follow those that already hang on
// it.
const (
	pingAfter = 10 * time.Second
	pingWait  = 5 * time.Second
)

// keepAlive finds within half a minute that nobody is at the other end of a silent HTTP/1.1 connection: its node is
// lost, or its address is another's. What waits there goes elsewhere; Go's own count of probes would take two and a
// half minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// answerHead is the largest head of an answer, in bytes. It is kept for as long as the answer lasts.
const answerHead = 64 << 10

// NewTransport makes a Transport.
func NewTransport(cfg TransportConfig) *Transport {
	if cfg.Dial == nil {
		log := cfg.Log
		if log == nil {
			log = slog.Default()
		}
		d := &net.Dialer{Timeout: cfg.Connect, KeepAliveConfig: keepAlive}
		cfg.Dial = lastknown.Dialer(unixsocket.Dial(d), log)
	}
	t := &Transport{std: &http.Transport{
		DialContext: cfg.Dial, TLSHandshakeTimeout: cfg.Connect, ForceAttemptHTTP2: true,
		TLSClientConfig: cfg.TLS, MaxIdleConnsPerHost: 256, IdleConnTimeout: 4 * time.Second, DisableCompression: true,
		MaxResponseHeaderBytes: answerHead, HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait},
	}}
	for at, c := range cfg.Hosts {
		if t.own == nil {
			t.own = map[string]*http.Transport{}
		}
		own := t.std.Clone()
		own.TLSClientConfig = c
		t.own[at] = own
	}
	if !cfg.NetHTTP {
		t.lean = h1.New(h1.Config{DialTimeout: cfg.Connect, Dial: cfg.Dial, MaxHeaderBytes: answerHead})
	}
	return t
}

// RoundTrip sends a request to an engine and returns when the header of the answer has arrived.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		if own := t.own[hostPort(r.URL)]; own != nil {
			return own.RoundTrip(r)
		}
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
	for _, own := range t.own {
		own.CloseIdleConnections()
	}
}

// hostPort is what an https:// URL leads to.
func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return strings.ToLower(net.JoinHostPort(u.Hostname(), "443"))
	}
	return strings.ToLower(u.Host)
}
