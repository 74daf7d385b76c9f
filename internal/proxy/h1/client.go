package h1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// Config says how a Client connects and what it bounds. The zero value is usable.
type Config struct {
	// DialTimeout bounds one attempt to connect; zero means 5 s. The request's context bounds it as well.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept; zero means 4 s. Keep it below the engine's own limit
	// (uvicorn under vLLM and SGLang and cpp-httplib under llama-server close after 5 s by default): a connection
	// that both sides give up at the same moment costs a retry.
	IdleTimeout time.Duration
	// RenewNames is how old a connection to a host by name may be for one more request; zero means any age. The name
	// may be another host's by then.
	RenewNames time.Duration
	// MaxIdlePerHost bounds the unused connections kept to one address; zero means 256. The oldest is closed first.
	MaxIdlePerHost int
	// MaxHeaderBytes bounds the head of an answer, informational answers before it included; zero means 1 MiB.
	MaxHeaderBytes int
	// Dial opens a connection; nil means TCP with the operating system's resolver.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client is an HTTP/1.1 client for http:// addresses. It is safe for concurrent use.
type Client struct {
	cfg  Config // immutable
	pool pool   // has a lock of its own

	dialed, reused, retried atomic.Uint64
	open                    atomic.Int64
}

// DialError reports that no connection could be opened: the engine has seen nothing of the request, so that it can be
// sent elsewhere without harm.
type DialError struct {
	Addr string // host:port
	Err  error
}

// Error describes the failure, the address included.
func (e *DialError) Error() string { return "h1: connect to " + e.Addr + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

var (
	// ErrMalformed is wrapped by every error about an answer that breaks HTTP/1.1 or could be read in two ways.
	ErrMalformed = errors.New("malformed HTTP response")
	// ErrHeaderTooLarge reports an answer whose head exceeds Config.MaxHeaderBytes.
	ErrHeaderTooLarge = errors.New("h1: response header too large")
	// ErrBadRequest is wrapped by every error about a request that must not be written to a connection.
	ErrBadRequest = errors.New("request cannot be sent")
)

// staleWindow is how soon after sending a kept connection must fail to count as dead before the request. A peer's reset
// arrives within a round trip. If the connection breaks later, the request was lost with it, and the caller decides
// what follows.
const staleWindow = time.Second

// New returns a Client.
func New(cfg Config) *Client {
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = 5 * time.Second
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = 4 * time.Second
	}
	if cfg.MaxIdlePerHost <= 0 {
		cfg.MaxIdlePerHost = 256
	}
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = 1 << 20
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	c := &Client{cfg: cfg}
	c.pool.init(cfg.IdleTimeout, cfg.MaxIdlePerHost)
	return c
}

// RoundTrip sends req and returns as soon as the head of the final answer has arrived; the body is read from the
// connection as the caller reads it. The caller must close it, or read it to its end.
//
// A body made by [NewBody] is written from the caller's memory without a copy. It is closed as soon as it has been
// written and will not be repeated: before RoundTrip returns, or by a goroutine if the answer came before its end, but
// at the latest when the response body ends or is closed. Any other body is written by a goroutine, which closes it
// afterwards, possibly after RoundTrip has returned. A body with ContentLength 0 (other than http.NoBody) or -1 is sent
// in chunks.
//
// If a kept connection fails before any byte of an answer, or says 408 at once, and the body can be sent again (none,
// NewBody, or GetBody set), the request is repeated once on a fresh connection; if none can be opened, the first
// failure stands, since the engine may have seen the request. Errors wrap [DialError], [ErrMalformed],
// [ErrHeaderTooLarge] or [ErrBadRequest] where they apply; after the context has ended, its cause is returned.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := prepare(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	defer out.written() // where nothing was sent
	defer out.giveBack(req)
	resp, stale, lost := c.attempt(req, &out, false)
	if !stale {
		return resp, lost
	}
	if err := out.rewind(req); err != nil {
		return nil, err
	}
	c.retried.Add(1)
	resp, _, err = c.attempt(req, &out, true)
	if dial, ok := errors.AsType[*DialError](err); ok && lost != nil {
		return nil, fmt.Errorf("%w; no other connection: %v", lost, dial.Err) //nolint:errorlint // it was sent before
	}
	return resp, err
}

// attempt sends the request once, over a kept connection unless fresh is set. stale means that it failed in a way
// that allows one more attempt.
func (c *Client) attempt(req *http.Request, out *outgoing, fresh bool) (resp *http.Response, stale bool, err error) {
	ctx := req.Context()
	var (
		cn      *conn
		x       *exchange
		reused  bool // reused and takenAt belong to another request as soon as this one has its answer
		takenAt time.Time
	)
	for x == nil || err == errLoud { //nolint:errorlint // never wrapped
		if cn, err = c.acquire(ctx, out, fresh); err != nil {
			out.drop()
			return nil, false, err
		}
		out.upload = nil
		x = &exchange{conn: cn, ctx: ctx}
		reused, takenAt = cn.reused, cn.takenAt
		x.attach()
		if resp, err = x.run(req, out, c.cfg.MaxHeaderBytes); err == errLoud { //nolint:errorlint // never wrapped
			x.settle(false)
		}
	}
	if reused {
		c.reused.Add(1)
	}
	if err == nil && resp.StatusCode != http.StatusRequestTimeout {
		return resp, false, nil
	}
	again := reused && out.replayable(req) && time.Since(takenAt) < staleWindow
	switch {
	case err == nil && again:
		// Sent before the request arrived: a peer sends it to close an unused connection (RFC 9110, section 15.5.9).
		_ = resp.Body.Close()
		return nil, true, nil
	case err == nil:
		return resp, false, nil
	}
	received := cn.in.received
	x.settle(false)
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	return nil, again && received == 0 && x.sourceErr() == nil, err
}

// acquire returns a connection for a request, kept or new.
func (c *Client) acquire(ctx context.Context, out *outgoing, fresh bool) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for !fresh {
		now := time.Now()
		cn := c.pool.take(out.addr, now)
		if cn == nil {
			break
		}
		if cn.tooOld(now) || !cn.alive(out) {
			cn.close()
			continue
		}
		cn.reused, cn.takenAt, cn.in.received = true, now, 0
		return cn, nil
	}
	return c.dial(ctx, out.addr)
}

func (c *Client) dial(ctx context.Context, addr string) (*conn, error) {
	dctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	nc, err := c.cfg.Dial(dctx, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &DialError{Addr: addr, Err: err}
	}
	c.dialed.Add(1)
	cn := newConn(c, addr, nc)
	if host, _, err := net.SplitHostPort(addr); err == nil && c.cfg.RenewNames > 0 && IsName(host) {
		cn.renewAt = time.Now().Add(c.cfg.RenewNames)
	}
	return cn, nil
}

// IsName reports whether a host is a name, which another one may have later, and no address.
func IsName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

// CloseIdleConnections closes the connections that no request is using.
func (c *Client) CloseIdleConnections() { c.pool.closeAll() }

var _ http.RoundTripper = (*Client)(nil)
