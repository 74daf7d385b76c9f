package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

var (
	errUnreachable = errors.New("the endpoint could not be connected to")
	errBroken      = errors.New("the endpoint broke off before it answered")
	errTruncated   = errors.New("the engine ended its answer before it was complete")
)

// answer is what an engine said in an attempt that another attempt was made after.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // when it said nothing
}

// attempt is one try at one endpoint.
type attempt struct {
	c      *call
	d      *route.Decision
	ctx    context.Context
	fin    route.Finished
	span   *tracing.Attempt
	status int      // the engine's, 0 when it sent none
	sent   *payload // the body as this endpoint gets it, when it differs from the call's
}

// attempt passes the request on to the chosen endpoint and relays its answer. It reports whether another attempt should be
// made. The lease is ended exactly once, whatever happens.
func (c *call) attempt(d *route.Decision) (again bool) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	a := &attempt{c: c, d: d, ctx: ctx, fin: route.Finished{Lease: d.Lease, Outcome: route.Abandoned}}
	c.cancel.Store(&cancel)
	name := d.Endpoint.Name
	c.at.Store(&name)
	a.span = c.span.Attempt(d)
	defer func() {
		c.deadline.Store(0)
		c.at.Store(nil)
		cancel(nil)
		a.sent.release()
		c.served.Outcome, c.served.Usage = a.fin.Outcome, a.fin.Usage
		a.span.End(a.fin.Outcome, a.status)
		c.p.fleet.Observe(a.fin)
		if a.fin.Outcome == route.ConnectFailed {
			c.p.unreached(name)
		}
	}()
	limit := c.p.cfg.Answer
	if c.prompt.Stream {
		limit = c.p.cfg.FirstByte
	}
	c.wait(limit)
	res, err := c.p.transport.RoundTrip(a.request())
	if err != nil {
		return a.lost(err)
	}
	defer res.Body.Close()
	a.status = res.StatusCode
	return a.judge(res)
}

// judge decides what an answer's status means: for the endpoint's books, and for whether to try another.
func (a *attempt) judge(res *http.Response) (again bool) {
	c := a.c
	switch s := res.StatusCode; {
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		a.fin.Outcome, a.fin.RetryAfter = route.Busy, retryAfter(res.Header)
	case s >= 500 && s != http.StatusNotImplemented:
		a.fin.Outcome = route.EngineError
	case s >= 400:
		a.fin.Outcome = route.ClientError
		return a.relay(res)
	default:
		a.fin.Outcome = route.OK
		return a.relay(res)
	}
	if !a.mayRetry() {
		return a.relay(res)
	}
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return a.lost(err)
	}
	c.failed = answer{status: res.StatusCode, header: res.Header, body: body}
	return true
}

// lost concludes an attempt that brought no answer, or only the beginning of one that the client has not seen.
func (a *attempt) lost(err error) (again bool) {
	c := a.c
	cause := context.Cause(a.ctx)
	switch {
	case c.ctx.Err() != nil:
		a.fin.Outcome = route.ClientGone
		return false
	case errors.Is(cause, errShutdown):
		a.fin.Outcome = route.Abandoned
		c.refuse(errShutdown)
		return false
	case errors.Is(cause, errNoFirstByte) || errors.Is(cause, errIdle):
		a.fin.Outcome, err = route.TimedOut, cause
	case errors.Is(cause, errRefusing):
		a.fin.Outcome, err = route.EngineError, cause
	case isDial(err):
		a.fin.Outcome, err = route.ConnectFailed, errUnreachable
	default:
		a.fin.Outcome = route.EngineError
		if !errors.Is(err, errTruncated) {
			err = errBroken
		}
	}
	c.failed = answer{err: fmt.Errorf("%w (%s)", err, a.d.Endpoint.Name)}
	if a.mayRetry() {
		return true
	}
	c.giveUp(c.failed.err)
	return false
}

// mayRetry reports whether another attempt is allowed: the client has seen nothing, is still there, and the request can
// be sent again without doing anything twice that should be done once.
func (a *attempt) mayRetry() bool {
	c := a.c
	if c.sent.Load() || c.served.Attempts > c.p.cfg.Retries || c.ctx.Err() != nil || c.shutdown.Load() {
		return false
	}
	if c.body == nil && c.r.ContentLength != 0 {
		return false // the body was passed on as it streamed in
	}
	if c.req.Class != route.Aside || c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		return true
	}
	return a.fin.Outcome == route.ConnectFailed || a.fin.Outcome == route.Busy || c.api != prompt.Other
}

// isDial reports whether no connection could be made, so that the engine has seen nothing of the request.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// retryAfter reads the delay form of Retry-After (RFC 9110, section 10.2.3); 0 when there is none.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(s, 3600)) * time.Second
}

// request builds what the endpoint is sent: the bytes that came, with the few fields changed that must.
func (a *attempt) request() *http.Request {
	c := a.c
	header := make(http.Header, len(c.r.Header)+2)
	copyEndToEnd(header, c.r.Header)
	header["X-Request-Id"] = []string{c.served.ID}
	if key := a.d.Endpoint.APIKey; key != "" && header.Get("Authorization") == "" && header.Get("X-Api-Key") == "" {
		header["Authorization"] = []string{"Bearer " + key}
	}
	a.span.Inject(header)
	address := a.address(header)

	out := &http.Request{
		Method: c.r.Method, URL: a.url(), Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: c.r.ContentLength,
	}
	out.Host = out.URL.Host
	if c.body == nil {
		out.Body = c.r.Body
		return out.WithContext(a.ctx)
	}
	body := a.body(address)
	out.ContentLength = int64(len(body.bytes))
	if len(body.bytes) == 0 {
		out.Body = http.NoBody
		return out.WithContext(a.ctx)
	}
	if out.URL.Scheme == "http" {
		out.Body = h1.NewBody(body.bytes)
		return out.WithContext(a.ctx)
	}
	if header.Get("User-Agent") == "" {
		header["User-Agent"] = []string{""} // keeps net/http from naming itself
	}
	out.Body = body.reader()
	out.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
	return out.WithContext(a.ctx)
}

// address sets the header by which the endpoint's rank is chosen and returns the edit of the body that does so.
func (a *attempt) address(h http.Header) []prompt.Edit {
	if a.d.Endpoint.Part.Kind == route.Whole {
		return nil
	}
	dialect, err := engine.ByKind(a.d.Kind)
	if err != nil {
		return nil
	}
	how := dialect.Address(a.d.Endpoint.Part)
	if how.Header != "" {
		h.Set(how.Header, how.Value)
	}
	if how.Field == "" || a.c.api == prompt.Other || a.c.body == nil {
		return nil
	}
	return []prompt.Edit{a.c.prompt.SetField(how.Field, how.JSON)}
}

// body is the payload for this endpoint.
func (a *attempt) body(edits []prompt.Edit) *payload {
	c := a.c
	if c.prompt.Model != "" && a.d.Model != c.prompt.Model {
		edits = append(edits, c.prompt.SetModel(a.d.Model))
	}
	if len(edits) == 0 {
		return c.body
	}
	room := len(c.body.bytes) + 64
	for _, e := range edits {
		room += len(e.With)
	}
	a.sent = newPayload(prompt.Splice(newBuffer(room), c.body.bytes, edits...))
	return a.sent
}

func (a *attempt) url() *url.URL {
	scheme, rest, _ := strings.Cut(a.d.Endpoint.URL, "://")
	host, base, slash := strings.Cut(rest, "/")
	in := a.c.r.URL
	u := &url.URL{Scheme: scheme, Host: host, Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	if slash && base != "" {
		u.Path = "/" + base + in.Path
		if in.RawPath != "" {
			u.RawPath = "/" + base + in.RawPath
		}
	}
	return u
}
