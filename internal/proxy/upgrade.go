package proxy

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/paths"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// realtime is the path of OpenAI's and vLLM's realtime API. A client names its model in the query, or in its first
// message; that one comes after session.created, which the engine sends once it has granted the upgrade, so that it is
// too late to choose by (vLLM, entrypoints/openai/realtime/connection.py).
const realtime = "/v1/realtime"

// upgrade passes a protocol upgrade (WebSocket) to a chosen endpoint, then bytes in both directions until either end
// closes. An engine's other answers are bounded like any answer. An engine that cannot be reached, fails, refuses it or
// has no WebSocket there is followed by another one, as for any request.
//
// A proxy that carries the request has the tunnel. One that shows what comes after the head as its body (Envoy) has
// none: nothing comes before the upgrade is granted, and it holds the head until then.
func (c *call) upgrade() {
	// of requests, whose messages say what bodies say
	inPlace := paths.Passes(http.MethodPost, c.R.URL.Path, nil) == nil
	switch {
	case inPlace && c.p.cfg.readsMembers():
		c.refuse(fault.ErrUnread)
		return
	case c.Transport != nil && c.R.Body != http.NoBody:
		c.refuse(fault.ErrHeldHead)
		return
	case c.Transport != nil:
		c.serve()
		return
	}
	if err := c.openAccounts(); err != nil {
		c.refuse(err)
		return
	}
	c.Prompt, _ = c.p.parser.Peek(nil, send.Named(c.R.Header).Get)
	if err := c.identify(); err != nil {
		c.refuse(err)
		return
	}
	if err := c.charge(); err != nil {
		c.refuse(err)
		return
	}
	c.Request.Binds = inPlace || c.R.URL.Path == realtime
	c.Request.MayHold = false
	err := c.sought(c.decide(&c.plan))
	if _, ok := errors.AsType[*route.ModelRequiredError](err); ok {
		if err = fault.Unnamed(err); inPlace {
			err = fault.ErrUnread
		}
	}
	if err != nil {
		c.refuse(err)
		return
	}
	for next := &c.plan; next != nil; {
		c.pending = nil
		next = c.upgradeAt(next)
	}
}

// isUpgrade reports whether the client wants to change the protocol with the engine. An offer of HTTP/2 is for the
// router, which does not accept it: such a request is served normally (RFC 9110, section 7.8).
func isUpgrade(r *http.Request) bool {
	to := send.Named(r.Header).Get("Upgrade")
	return to != "" && !strings.EqualFold(to, "h2c") && r.Method == http.MethodGet && identity.Printable(to) &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade")
}

// errElsewhere ends an attempt whose answer is not passed on, since another endpoint is asked.
var errElsewhere = errors.New("another endpoint is asked")

// upgradeAt is one attempt of an upgrade. If another one should be made, it returns the decision for that.
func (c *call) upgradeAt(plan *route.Plan) (next *route.Plan) {
	a := c.startAttempt(&plan.Decision)
	defer a.end()
	c.reached = true
	a.NoSalt()
	a.watch.Wait(c.bounds.Load().FirstByte)
	proxy := httputil.ReverseProxy{
		Transport: c.p.transport,
		ErrorLog:  slog.NewLogLogger(c.p.log.Handler(), slog.LevelWarn),
		Rewrite:   a.rewrite,
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode == http.StatusSwitchingProtocols && !agreed(res.Header, c.R.Header) {
				return errOtherProtocol
			}
			c.served.Status, a.status = res.StatusCode, res.StatusCode
			a.judge(res)
			lacks := unknown(res)
			if lacks || a.fin.Outcome == fleet.Busy || a.fin.Outcome == fleet.EngineError {
				if next = a.another(); next != nil {
					return errElsewhere
				}
			}
			if lacks {
				return fault.ErrNoUpgrade
			}
			a.watch.FirstData()
			if res.StatusCode == http.StatusSwitchingProtocols {
				a.watch.Pause() // from now on the tunnel has its own limit
				res.Body = newTunnel(res, a, c.bounds.Load().Tunnel)
			} else {
				a.watch.Wait(a.silence())
				res.Body = &timedBody{attempt: a, from: res.Body}
			}
			c.sent.Store(true)
			for k := range res.Header {
				if !send.ReachesClient(k) {
					delete(res.Header, k)
				}
			}
			send.Relocate(res.Header, a.d.Endpoint.URL)
			stripCORS(res.Header, readerOf(c.R, c.p.cfg.Origins), c.p.cfg.Origins)
			c.explain(res.Header, a.d)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			switch {
			case next != nil:
			case errors.Is(err, fault.ErrNoUpgrade):
				c.refuse(err)
			case c.sent.Load():
				_ = a.conclude(err)
			default:
				next = a.lost(err)
			}
		},
	}
	proxy.ServeHTTP(c.client.Writer(), c.R.WithContext(a.watch))
	return next
}

// errOtherProtocol is a 101 that ReverseProxy would not pass on either, but too late to ask another engine.
var errOtherProtocol = errors.New("the endpoint switches to another protocol than was asked for")

// agreed reports whether an endpoint that switches protocols names the one that it was asked for (RFC 9110, section
// 7.8).
func agreed(answer, request http.Header) bool {
	return httpguts.HeaderValuesContainsToken(answer["Connection"], "Upgrade") &&
		strings.EqualFold(answer.Get("Upgrade"), request.Get("Upgrade"))
}

// unknown reports whether an engine has no WebSocket at the path: it answers as to any unknown request, or, as uvicorn
// does, 403 with nothing. Libraries take 426 for a sign to go on without (Codex), and try others again.
func unknown(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusForbidden:
		return res.ContentLength == 0
	}
	return false
}

// rewrite aims an upgrade at the endpoint. ReverseProxy has removed the hop-by-hop headers.
func (a *attempt) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL = a.URL()
	r.Out.Host = r.Out.URL.Host
	for k := range r.Out.Header {
		if send.Withheld(k, a.c.p.cfg.Transfers) {
			delete(r.Out.Header, k)
		}
	}
	a.c.p.cfg.Token.Strip(r.Out.Header)
	for _, k := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := r.In.Header[k]; ok {
			r.Out.Header[k] = v
		}
	}
	a.c.From.Tell(r.Out.Header, r.In)
	r.Out.Header["Via"] = a.c.p.via.After(r.Out.Header["Via"])
	r.Out.Header.Set("X-Request-Id", cmp.Or(a.c.EngineID, a.c.ID))
	a.Keyed = a.c.p.cfg.Tenants.Authorise(r.Out.Header, a.d.Endpoint.APIKey, a.c.OurKey)
	a.span.Inject(r.Out.Header)
	a.Address(r.Out.Header)
}

// timedBody is the body of an engine's answer that ReverseProxy copies: during Read the router waits for the engine,
// between Reads for the client.
type timedBody struct {
	*attempt
	from  io.ReadCloser
	ended bool
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	b.c.client.WriteDone()
	b.watch.Wait(b.silence())
	n, err := b.from.Read(p)
	b.watch.Pause()
	b.c.client.WriteWaits()
	if err != nil {
		b.ended = true
	}
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader returns the value itself
		if failed := b.conclude(err); failed != nil {
			b.c.served.Error = fault.Of(failed).Code
		}
	}
	return n, err
}

// Close implements io.Closer. Before the body's end it means that a write to the client failed.
func (b *timedBody) Close() error {
	b.c.client.WriteDone()
	if !b.ended {
		b.fin.Outcome = fleet.ClientGone
	}
	return b.from.Close()
}

// tunnel is the engine's end of an upgraded connection. Its attempt ends when no byte has passed in either direction
// for a time, and so does a write that the client has not taken by then. A WebSocket that the router itself ends,
// between two frames of the engine, tells its client so.
type tunnel struct {
	io.ReadCloser
	idle  time.Duration
	watch *timeouts.Watch
	sent  *frames // by the engine; nil for another protocol, and at the end. Read has it

	mu   sync.Mutex
	over *time.Timer // guarded by mu; nil once it is closed
}

func newTunnel(res *http.Response, a *attempt, idle time.Duration) *tunnel {
	flights := &a.c.p.flights // the call may be over when the timer fires, and its p gone
	t := &tunnel{
		ReadCloser: res.Body, idle: idle, watch: a.watch,
		over: time.AfterFunc(idle, func() {
			flights.locked(func() { a.c.stop(a.watch, timeouts.ErrIdle) })
		}),
	}
	if strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		t.sent = &frames{}
	}
	return t
}

// Read implements io.Reader.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.resetIdle()
	if t.sent == nil {
		return n, err
	}
	t.sent.pass(p[:n])
	if n > 0 {
		return n, nil // what ended it is told by the next Read, once these are passed on
	}
	if err != nil && t.watch.Err() != nil && t.sent.ends() {
		t.sent = nil
		return copy(p, goingAway), nil
	}
	return n, err
}

// resetIdle begins the silence anew, until the tunnel is closed.
func (t *tunnel) resetIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		t.over.Reset(t.idle)
	}
}

// Write implements io.Writer.
func (t *tunnel) Write(p []byte) (int, error) {
	t.resetIdle()
	w, ok := t.ReadCloser.(io.Writer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return w.Write(p)
}

// CloseWrite tells the engine that the client sends nothing more.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.ReadCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection.
func (t *tunnel) Close() error {
	t.mu.Lock()
	if t.over != nil {
		t.over.Stop()
		t.over = nil
	}
	t.mu.Unlock()
	return t.ReadCloser.Close()
}
