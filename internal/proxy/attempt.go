package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/proxy/patience"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// attempt is one try at one endpoint.
type attempt struct {
	c      *call
	d      *route.Decision
	watch  *patience.Watch // its context too
	fin    route.Finished
	span   *tracing.Attempt
	status int           // the engine's, 0 when it sent none
	sent   *body.Payload // the body as this endpoint gets it, when it differs from the call's
	lent   io.Closer     // the body that the transport was given last

	message *handover.Message // what one leg of a request is sent beside; nil for a whole one

	waits bool // it stands in the router's line

	asked   bool // the engine is asked for usage, the client did not
	refused bool // the engine does not want to be asked

	told    bool // the engine is told the conversation in conversation_params
	untells bool // it does not know conversation_params
}

// begin opens an attempt; end must be deferred.
func (c *call) begin(d *route.Decision) *attempt {
	a := &attempt{
		c: c, d: d, span: c.span.Attempt(d), watch: patience.NewWatch(c.ctx, d.Endpoint.Name, d.Pool,
			c.upload == nil && c.req.Pin == "" && c.repeatable() && c.served.Attempts <= c.p.cfg.Retries),
		fin: route.Finished{Lease: d.Lease, Outcome: fleet.Abandoned},
	}
	a.seat().Store(a.watch)
	if c.shutdown.Load() {
		a.watch.End(patience.ErrShutdown)
	}
	if c.leash.Ended() {
		a.watch.End(nil)
	}
	return a
}

// seat is where the call keeps the watch of the attempt.
func (a *attempt) seat() *atomic.Pointer[patience.Watch] {
	if a.d.Leg == fleet.LegPrefill {
		return &a.c.aside
	}
	return &a.c.watch
}

// end closes the books of an attempt: its lease is ended here and nowhere else.
func (a *attempt) end() {
	c := a.c
	c.upload.Finish()
	if a.d.Leg == fleet.LegDecode {
		c.split.answer = a.fin.Usage
		c.split.join(a.fin.Outcome == fleet.OK)
	}
	a.fin.Alike = c.alike(a.fin.Outcome)
	c.served.Outcome, c.served.Usage = a.fin.Outcome, c.split.honest(a.fin.Usage)
	a.over()
	c.p.fleet.Observe(a.fin)
}

// over lets go of what an attempt holds, but for its lease.
func (a *attempt) over() {
	c := a.c
	a.seat().Store(nil)
	a.watch.End(nil)
	a.withdraw()
	a.span.End(a.fin.Outcome, a.status)
	if a.fin.Outcome == fleet.ConnectFailed || a.fin.Outcome == fleet.EngineError && a.status == 0 {
		c.p.unreached(a.d.Endpoint.Name)
	}
}

// attempt passes the request on to the chosen endpoint and relays its answer. When another attempt should be made, it
// returns the decision for that, reserved before this one's answer is thrown away.
func (c *call) attempt(plan *route.Plan) (next *route.Plan) {
	d := &plan.Decision
	a := c.begin(d)
	defer a.end()
	if d.Leg == fleet.LegDecode {
		a.message = &c.split.message
		c.split.watchBeside(a)
	}
	limit := c.p.cfg.Answer
	if c.prompt.Stream {
		limit = c.p.cfg.FirstByte
	}
	a.watch.Wait(limit)
	if err := a.stand(limit); err != nil {
		return a.lost(err)
	}
	res, err := a.send()
	if err != nil {
		return a.lost(err)
	}
	defer res.Body.Close()
	a.status = res.StatusCode
	a.judge(res)
	if a.fin.Outcome == fleet.Busy || a.fin.Outcome == fleet.EngineError {
		c.p.log.Warn("engine answered with an error", "request", c.served.ID, "endpoint", d.Endpoint.Name, "status", res.StatusCode)
		blamed := a.blamed()
		if next = a.another(); next != nil {
			return next
		}
		if blamed != nil {
			c.refuse(blamed)
			return nil
		}
		if d.Leg == fleet.LegDecode {
			body, _ := io.ReadAll(io.LimitReader(res.Body, refusalBytes))
			c.refuse(fault.Answered(d.Leg, res.StatusCode, fault.Text(body), a.fin.RetryAfter))
			return nil
		}
	}
	if err := a.stitch(res); err != nil {
		return a.lost(err)
	}
	if err := a.merge(res); err != nil {
		return a.lost(err)
	}
	return a.relay(res)
}

// lost concludes an attempt that brought no answer, or only the beginning of one that the client has not seen.
func (a *attempt) lost(err error) (next *route.Plan) {
	err = a.conclude(err)
	if err == nil {
		return nil // the client left
	}
	if next = a.another(); next != nil {
		return next
	}
	a.c.refuse(a.legged(err))
	return nil
}

// conclude finds who is to blame for an attempt that broke off, and what the client may be told; nil when it left.
func (a *attempt) conclude(err error) error {
	c := a.c
	cause := a.watch.Cause()
	told := fault.ErrBroken
	switch upload := c.upload.Blame(); {
	case c.upload.Late(): // net/http ends the request's context then too
		a.fin.Outcome = fleet.ClientError
		return body.ErrSlowBody
	case c.ctx.Err() != nil:
		a.fin.Outcome = fleet.ClientGone
		return nil
	case errors.Is(cause, patience.ErrShutdown):
		a.fin.Outcome = fleet.Abandoned
		return patience.ErrShutdown
	case errors.Is(cause, errBeside):
		a.fin.Outcome = fleet.Abandoned
		return c.split.besideError()
	case a.waits: // the engine has not seen it
		a.fin.Outcome, told = fleet.Abandoned, cause
	case upload != nil:
		a.fin.Outcome = fleet.ClientError
		return upload
	case errors.Is(err, h1.ErrBadRequest):
		a.fin.Outcome = fleet.ClientError
		return err
	case errors.Is(cause, patience.ErrNoFirstByte) || errors.Is(cause, patience.ErrIdle) || errors.Is(cause, patience.ErrSilent):
		a.fin.Outcome, told = fleet.TimedOut, cause
	case errors.Is(cause, patience.ErrRefusing) || errors.Is(cause, patience.ErrDown):
		a.fin.Outcome, told = fleet.EngineError, cause
	case isDial(err):
		a.fin.Outcome, told = fleet.ConnectFailed, fault.ErrUnreachable
	case errors.Is(err, fault.ErrTruncated):
		a.fin.Outcome, told = fleet.EngineError, fault.ErrTruncated
	default:
		a.fin.Outcome = fleet.EngineError
		if c.sent.Load() {
			told = fault.ErrCut
		}
	}
	c.p.log.Warn("attempt failed", "request", c.served.ID, "endpoint", a.d.Endpoint.Name, "outcome", a.fin.Outcome.String(), "error", err, "sent", c.sent.Load())
	return fmt.Errorf("%w (%s)", told, a.d.Endpoint.Name)
}

// another reserves a further attempt, if one is allowed and another endpoint can take it.
func (a *attempt) another() *route.Plan {
	if !a.mayRetry() {
		return nil
	}
	c := a.c
	if !c.split.suspects(a) {
		c.req.Tried = append(c.req.Tried, a.d.Endpoint.Name)
	}
	if c.req.Class == fleet.Turn && a.d.Session != c.req.MintedID {
		c.req.Session = a.d.Session // the same turn of the same conversation, whatever it was recognised by
	}
	c.req.Trail = nil // it has been followed
	c.req.Instead = a.d.Lease
	c.req.Again = a.computed()
	plan, err := c.split.redecide(a, c)
	c.req.Again = false
	if err != nil {
		return nil
	}
	c.pending = &plan
	c.p.fleet.Retried(a.d.Endpoint.Name, a.fin.Outcome)
	return c.pending
}

// mayRetry reports whether another attempt is allowed: the client has seen nothing, is still there, and the request can
// be sent again without doing anything twice that should be done once.
func (a *attempt) mayRetry() bool {
	c := a.c
	if c.sent.Load() || c.served.Attempts > c.p.cfg.Retries || c.ctx.Err() != nil || c.shutdown.Load() || c.upload != nil {
		return false
	}
	return a.fin.Outcome == fleet.ConnectFailed || a.fin.Outcome == fleet.Busy || c.repeatable()
}

// repeatable reports whether an engine may get the request twice: what only computes, and methods that say so.
func (c *call) repeatable() bool {
	switch c.r.Method {
	case http.MethodPost, http.MethodPatch:
		return c.api != prompt.Other
	default:
		return true
	}
}

// isDial reports whether no connection could be made, so that the engine has seen nothing of the request.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// request builds what the endpoint is sent: the bytes that came, with the few fields changed that must.
func (a *attempt) request() *http.Request {
	c := a.c
	header := make(http.Header, len(c.r.Header)+2)
	copyEndToEnd(header, c.r.Header)
	header["X-Request-Id"] = []string{c.served.ID}
	c.p.cfg.Token.Strip(header)
	c.p.cfg.Tenants.Authorise(header, a.d.Endpoint.APIKey, c.ourKey)
	a.span.Inject(header)
	a.labelBlocks(header)
	edits := a.tellConversation(a.tellFirstTurn(a.leg(header, a.salt(a.ask(header, a.address(header))))))

	out := new(http.Request).WithContext(a.watch)
	out.Method, out.URL, out.Header, out.ContentLength = c.r.Method, a.url(), header, c.r.ContentLength
	out.Proto, out.ProtoMajor, out.ProtoMinor = "HTTP/1.1", 1, 1
	out.Host = out.URL.Host
	if c.upload != nil {
		out.Body = c.upload
		return out
	}
	body := a.body(edits)
	a.tellPlaced(body)
	a.lend(out, body)
	return out
}

// address sets the header by which the endpoint's rank is chosen and returns the edit of the body that does so.
func (a *attempt) address(h http.Header) []prompt.Edit {
	if a.d.Endpoint.Part.Kind == fleet.Whole {
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

func (a *attempt) url() *url.URL {
	scheme, rest, _ := strings.Cut(a.d.Endpoint.URL, "://")
	host, base, slash := strings.Cut(rest, "/")
	in := a.c.r.URL
	u := &url.URL{Scheme: scheme, Host: host, Path: in.Path, RawPath: in.RawPath, RawQuery: visible(in.RawQuery), ForceQuery: in.ForceQuery}
	if a.message != nil && a.message.Path != "" { // the protocol asks another of the engine's paths
		u.Path, u.RawPath = a.message.Path, ""
		in = u
	}
	if slash && base != "" {
		u.Path = "/" + base + in.Path
		if in.RawPath != "" {
			u.RawPath = "/" + base + in.RawPath
		}
	}
	return u
}

// visible escapes what may not stand in a request line: some clients send UTF-8 in a query as it is.
func visible(query string) string {
	ok := true
	for i := range len(query) {
		ok = ok && query[i] > ' ' && query[i] < 0x7f
	}
	if ok {
		return query
	}
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
