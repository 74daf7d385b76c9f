package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/lastknown"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/shortage"
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
	std  *renewed
	own  map[string]*renewed // of hosts with TLS settings of their own, by host:port
}

// renewNames is how old a connection to a named host may be for one more request. While requests keep coming it would
// never be unused, and lead to the engine that had the name first, for as long as that engine lives.
const renewNames = 30 * time.Second

// renewed is net/http's client, which has no age limit for connections: another one takes its place instead, and the
// requests that the former one carries end there.
type renewed struct {
	another func() *http.Transport

	mu    sync.Mutex
	now   *http.Transport // nil before the first request
	since time.Time
}

func (t *renewed) client(host string) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil && (!h1.IsName(host) || time.Since(t.since) < renewNames) {
		return t.now
	}
	if t.now != nil {
		t.now.CloseIdleConnections()
	}
	t.now, t.since = t.another(), time.Now()
	return t.now
}

func (t *renewed) roundTrip(r *http.Request) (*http.Response, error) {
	var sent atomic.Bool // over a connection that broke before this failure, if it is one to connect
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	res, err := t.client(r.URL.Hostname()).RoundTrip(r.WithContext(ctx))
	if cause := context.Cause(r.Context()); cause != nil && errors.Is(err, context.Canceled) {
		err = cause // which it leaves out over HTTP/2
	}
	if isDial(err) && sent.Load() {
		err = fmt.Errorf("connection lost; no other connection: %v", err) //nolint:errorlint // it was sent before
	}
	return res, err
}

func (t *renewed) closeIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		t.now.CloseIdleConnections()
	}
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
		d := &net.Dialer{Timeout: cfg.Connect, KeepAliveConfig: keepAlive, Control: shortage.ToEngine()}
		cfg.Dial = lastknown.Dialer(unixsocket.Dial(d), log)
	}
	t := &Transport{std: netHTTP(&cfg, cfg.TLS), own: make(map[string]*renewed, len(cfg.Hosts))}
	for at, c := range cfg.Hosts {
		t.own[at] = netHTTP(&cfg, c)
	}
	if !cfg.NetHTTP {
		t.lean = h1.New(h1.Config{
			DialTimeout: cfg.Connect, Dial: cfg.Dial, MaxHeaderBytes: answerHead, RenewNames: renewNames,
		})
	}
	return t
}

// netHTTP is net/http's client for engines with these TLS settings.
func netHTTP(cfg *TransportConfig, with *tls.Config) *renewed {
	return &renewed{another: func() *http.Transport {
		return &http.Transport{
			DialContext: cfg.Dial, TLSHandshakeTimeout: cfg.Connect, ForceAttemptHTTP2: true, TLSClientConfig: with,
			MaxIdleConnsPerHost: 256, IdleConnTimeout: 4 * time.Second, DisableCompression: true,
			MaxResponseHeaderBytes: answerHead,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait},
		}
	}}
}

// RoundTrip sends a request to an engine and returns when the header of the answer has arrived.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		if own := t.own[hostPort(r.URL)]; own != nil {
			return own.roundTrip(r)
		}
		return t.std.roundTrip(r)
	}
	if r = unixsocket.Request(r); t.lean == nil {
		return t.std.roundTrip(r)
	}
	return t.lean.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections.
func (t *Transport) CloseIdleConnections() {
	if t.lean != nil {
		t.lean.CloseIdleConnections()
	}
	t.std.closeIdleConnections()
	for _, own := range t.own {
		own.closeIdleConnections()
	}
}

// hostPort is what an https:// URL leads to.
func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return strings.ToLower(net.JoinHostPort(u.Hostname(), "443"))
	}
	return strings.ToLower(u.Host)
}
