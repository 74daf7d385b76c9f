package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/internal/shortage"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/route"
)

// attempt is one try at one endpoint.
type attempt struct {
	send.Outgoing
	c      *call
	d      *route.Decision
	watch  *timeouts.Watch // also the attempt's context
	fin    route.Finished
	span   *tracing.Attempt
	status int // the engine's; 0 when it sent none

	lacks      bool // the engine does not have the model, or the response, that the request names
	waits      bool // the request is in the router's queue
	dispatched bool // the engine has been sent it, or is connected to
	short      bool // there was no file descriptor to connect with

	gaveUp bool // the engine may have ended its answer for what the model said
}

// startAttempt opens an attempt; end must be deferred.
func (c *call) startAttempt(d *route.Decision) *attempt {
	a := &attempt{
		c: c, d: d, span: c.span.Attempt(d), watch: timeouts.NewWatch(
			c.ctx,
			d,
			route.Service(c.Request.Class, d.Model, c.Request.Path),
			!c.streams() && c.Transport == nil && c.Request.Pin == "" && c.Repeatable() && c.retriesLeft(),
			c.barred(d.Leg),
		),
		fin: route.Finished{Lease: d.Lease, Outcome: fleet.Abandoned},
	}
	a.Outgoing = c.p.sender.To(&c.Incoming, d, a.watch, a.span)
	a.watchSlot().Store(a.watch)
	if stream, _ := c.p.sender.Resumable(c.R); stream != "" && d.Leg != fleet.LegPrefill {
		c.p.fleet.Observe(route.ResponseStarted{Lease: d.Lease, Response: stream}) // its client may leave at once
	}
	if c.shutdown.Load() {
		a.watch.End(timeouts.ErrShutdown)
	}
	if c.cancelable.Ended() {
		a.watch.End(nil)
	}
	return a
}

// watchSlot is where the call stores the watch of this attempt.
func (a *attempt) watchSlot() *atomic.Pointer[timeouts.Watch] {
	if a.d.Leg == fleet.LegPrefill {
		return &a.c.prefillWatch
	}
	return &a.c.watch
}

// end ends the attempt's lease. Nothing else does.
func (a *attempt) end() {
	c := a.c
	c.Upload.Finish()
	if a.d.Leg == fleet.LegDecode {
		c.split.answer = a.fin.Usage
		c.split.join(a.fin.Outcome == fleet.OK)
	}
	if c.Transport != nil && c.Transport.Elsewhere() {
		a.fin = route.Finished{Lease: a.d.Lease, Outcome: fleet.Abandoned} // what came says nothing of this endpoint
	}
	// an endpoint that is mute for a model is well for others
	a.fin.Excused = c.failedElsewhereToo(a.fin.Outcome) || a.gaveUp || errors.Is(a.watch.Cause(), timeouts.ErrMute)
	if a.Unsalted() {
		c.served.Unsalted = a.d.Endpoint.Name
	}
	c.served.Outcome, c.served.Usage = a.fin.Outcome, c.split.wholeUsage(a.fin.Usage)
	a.over()
	c.p.fleet.Observe(a.fin)
	if a.unreached() {
		c.p.unreached(a.d.Endpoint.Name)
	}
}

// spends reports whether the engine's work is charged to the client's accounts: it was asked, and neither refused nor
// failed. A client that leaves, or whose own deadline passes, has had its prompt computed.
func (a *attempt) spends() bool {
	switch a.fin.Outcome {
	case fleet.OK, fleet.ClientGone:
		return a.dispatched
	case fleet.Abandoned:
		return a.dispatched && !a.waits && errors.Is(a.watch.Cause(), fault.ErrDeadline)
	default:
		return a.dispatched && a.c.sent.Load() && a.status == http.StatusOK // it broke off
	}
}

// over releases what the attempt holds, except its lease.
func (a *attempt) over() {
	c := a.c
	if a.spends() {
		c.spent.Store(true)
	}
	a.watchSlot().Store(nil)
	a.watch.End(nil)
	a.Withdraw()
	a.span.End(a.fin.Outcome, a.status)
}

// unreached reports whether the attempt could not reach the engine, which is then asked at once whether it is alive:
// after the fleet has been told of the attempt, since an answer to what was asked before would count no more.
func (a *attempt) unreached() bool {
	return a.fin.Outcome == fleet.ConnectFailed || a.fin.Outcome == fleet.EngineError && a.status == 0
}

// attempt sends the request to the chosen endpoint and relays its answer. If another attempt should be made, it returns
// the decision for that attempt, reserved before this answer is discarded.
//
// What comes before and after the relay is done by other functions, since each open stream keeps the stack of this one.
func (c *call) attempt(plan *route.Plan) (next *route.Plan) {
	a := c.startAttempt(&plan.Decision)
	defer a.end()
	res, err := a.ask()
	if err != nil {
		return a.lost(err)
	}
	defer res.Body.Close()
	if next, ok := a.accept(res); !ok {
		return next
	}
	return a.relay(res)
}

// ask sends the request and returns the header of the answer.
func (a *attempt) ask() (*http.Response, error) {
	c := a.c
	if a.d.Leg == fleet.LegDecode {
		a.Message = &c.split.message
		c.split.watchPrefill(a)
	}
	limit := c.bounds.Load().Answer
	if c.Prompt.Stream {
		limit = c.bounds.Load().FirstByte
	}
	a.watch.Wait(limit)
	if err := a.awaitDispatch(limit); err != nil {
		return nil, err
	}
	c.reached, a.dispatched, c.dispatchedAt = true, true, time.Now()
	if c.Transport != nil {
		a.watch.Wait(c.within(limit))
		c.setHeader(http.Header{}, a.d) // the transport may have to answer for the header before the body comes
	}
	return a.Send()
}

// accept reads the header of an answer. ok is false if this answer is not passed on: the client has got an error, or
// there is a decision for another attempt.
func (a *attempt) accept(res *http.Response) (next *route.Plan, ok bool) {
	c, d := a.c, a.d
	c.split.decoderAnswered(res.StatusCode)
	a.status = res.StatusCode
	if err := c.countAnswerHead(res.Header); err != nil {
		return a.lost(err), false
	}
	if to := httpclient.Elsewhere(res, d.Endpoint.URL); to != "" && c.Known() { // and no client may follow
		return a.lost(fmt.Errorf("%w: %s", fault.ErrMoved, to)), false
	}
	a.judge(res)
	if a.fin.Outcome == fleet.Busy || a.fin.Outcome == fleet.EngineError {
		c.p.log.Warn("engine answered with an error",
			"request", c.served.ID, "endpoint", d.Endpoint.Name, "status", res.StatusCode)
		blamed := a.blamed()
		if next = a.another(); next != nil {
			return next, false
		}
		if c.broke.lethal {
			blamed = fault.At(fault.ErrLethal, d.Endpoint.Name)
		}
		if blamed != nil {
			c.refuse(blamed)
			return nil, false
		}
		if d.Leg == fleet.LegDecode {
			a.refuseDecoder(res)
			return nil, false
		}
	}
	if next, why := a.absent(res); next != nil {
		return next, false
	} else if why != nil {
		c.refuse(why)
		return nil, false
	}
	if a.fin.Outcome != fleet.OK && c.Transport == nil && a.page(res) {
		why := fault.PageError{Status: res.StatusCode, RetryAfter: a.fin.RetryAfter}
		if res.StatusCode == http.StatusServiceUnavailable {
			why.RetryAfter = max(why.RetryAfter, time.Second)
		}
		c.refuse(a.withLeg(fault.At(&why, d.Endpoint.Name)))
		return nil, false
	}
	if c.p.cfg.WrapErrors && d.Why != "" && res.StatusCode >= http.StatusBadRequest {
		a.refuseDecoder(res)
		return nil, false
	}
	if c.unfit(res) {
		return a.retell(res), false
	}
	if err := a.stitch(res); err != nil {
		return a.lost(err), false
	}
	if err := a.merge(res); err != nil {
		return a.lost(err), false
	}
	return nil, true
}

// refuseDecoder answers the client with a decoder's error in the form of the router's.
func (a *attempt) refuseDecoder(res *http.Response) {
	said, _ := io.ReadAll(io.LimitReader(res.Body, send.RefusalBytes))
	a.c.refuse(fault.Answered(fleet.LegDecode, res.StatusCode, fault.Text(said), a.fin.RetryAfter))
}

// lost concludes an attempt without an answer, or with a partial answer that the client has not seen.
func (a *attempt) lost(err error) (next *route.Plan) {
	err = a.conclude(err)
	if err == nil {
		return nil // the client left
	}
	if next = a.another(); next != nil {
		return next
	}
	a.c.refuse(a.withLeg(err))
	return nil
}

// conclude sets the outcome of an attempt that failed and returns the error for the client; nil when the client left.
func (a *attempt) conclude(err error) error {
	c, cause := a.c, a.watch.Cause()
	if says, is := a.endedHere(err, cause); is {
		return says
	}
	says := a.blame(err, cause)
	if cause != nil && errors.Is(err, context.Canceled) {
		err = cause // the router itself ended it
	}
	c.p.log.Warn("attempt failed",
		"request", c.served.ID, "endpoint", a.d.Endpoint.Name, "outcome", a.fin.Outcome.String(), "error", err,
		"sent", c.sent.Load())
	return fault.At(says, a.d.Endpoint.Name)
}

// endedHere sets the outcome of an attempt that the client or the router ended, with which the endpoint had nothing to
// do, and returns the error for the client; nil when that left. is is false for other attempts.
func (a *attempt) endedHere(err, cause error) (says error, is bool) {
	c := a.c
	switch upload := c.Upload.Blame(); {
	case c.Upload.Late(): // net/http also ends the request's context then
		a.fin.Outcome = fleet.ClientError
		return body.ErrSlowBody, true
	case c.ctx.Err() != nil, errors.Is(err, external.ErrLeft):
		a.fin.Outcome = fleet.ClientGone
		return nil, true
	case errors.Is(cause, timeouts.ErrShutdown):
		a.fin.Outcome = fleet.Abandoned
		return timeouts.ErrShutdown, true
	case errors.Is(cause, errPrefillFailed):
		a.fin.Outcome = fleet.Abandoned
		return c.split.prefillError(), true
	case errors.Is(cause, fault.ErrDeadline), a.waits && errors.Is(cause, fault.ErrWaited):
		a.fin.Outcome = fleet.Abandoned
		return cause, true
	case a.waits:
		return nil, false
	case upload != nil:
		a.fin.Outcome = fleet.ClientError
		return upload, true
	case errors.Is(err, h1.ErrBadRequest):
		a.fin.Outcome = fleet.ClientError
		return err, true
	}
	return nil, false
}

// blame sets the outcome of an attempt that failed at its endpoint or on the way there, and returns what the client is
// told.
func (a *attempt) blame(err, cause error) (says error) {
	c := a.c
	switch {
	case a.waits: // the engine has not seen the request
		a.fin.Outcome = fleet.Abandoned
		return cause
	case errors.Is(cause, timeouts.ErrNoFirstByte) || errors.Is(cause, timeouts.ErrIdle) ||
		errors.Is(cause, timeouts.ErrSilent) || errors.Is(cause, timeouts.ErrMute):
		a.fin.Outcome = fleet.TimedOut
		return cause
	case errors.Is(cause, timeouts.ErrAsleep): // no fault, and it gets requests again when it is awake
		a.fin.Outcome = fleet.Abandoned
		return cause
	case errors.Is(cause, timeouts.ErrRefusing) || errors.Is(cause, timeouts.ErrDown) ||
		errors.Is(cause, timeouts.ErrStalled):
		a.fin.Outcome = fleet.EngineError
		return cause
	case isDial(err) && shortage.Is(err):
		// which says nothing about the endpoint; another one may have a connection that is idle
		a.short = true
		a.fin.Outcome = fleet.Abandoned
		return fault.ErrShortage
	case isDial(err):
		a.fin.Outcome, a.fin.Refused = fleet.ConnectFailed, errors.Is(err, syscall.ECONNREFUSED)
		return fault.ErrUnreachable
	case errors.Is(err, fault.ErrAnswerHead),
		errors.Is(err, h1.ErrHeaderTooLarge): // it works, and says more than the router takes
		a.fin.Outcome = fleet.Abandoned
		return fault.ErrAnswerHead
	case errors.Is(err, body.ErrNoRoom): // it works, and the router has no memory for what it says
		a.fin.Outcome = fleet.Abandoned
		return body.ErrNoRoom
	}
	a.fin.Outcome = fleet.EngineError
	switch {
	case errors.Is(err, fault.ErrMoved):
		return fault.ErrMoved
	case errors.Is(err, fault.ErrTruncated):
		a.gaveUp = c.sent.Load() && answer.GivesUp(a.d.Kind)
		return fault.ErrTruncated
	case c.sent.Load():
		return fault.ErrCut
	case errors.Is(err, h1.ErrMalformed):
		return fault.ErrNotHTTP
	case a.breaks(false):
		return fault.ErrLethal
	}
	return fault.ErrBroken
}

// another reserves a further attempt if one is allowed and another endpoint can take the request.
func (a *attempt) another() *route.Plan {
	c := a.c
	if a.fin.Overfull {
		c.overfull++
	}
	if a.fin.Refused || a.fin.Overfull && c.overfull <= mostOverfull {
		c.uncounted++
	}
	if !a.mayRetry() {
		return nil
	}
	// What did not fit beside the others may wait there until it does. Nothing waits for a slot.
	waits := a.fin.Overfull && a.d.Endpoint.Part.Kind != fleet.Slot
	if !waits && !c.split.blamesTransfer(a) {
		c.failedAt(&c.Request.Tried, &a.d.Endpoint)
	}
	c.refusedAt(a.d.Endpoint.Name, a.fin.Outcome)
	c.keepSession(a.d.Session)
	c.Request.Instead = a.d.Lease
	c.Request.Again = a.computed()
	plan, err := c.split.redecide(a, c)
	c.Request.Again = false
	if err != nil {
		return nil
	}
	c.pending = &plan
	c.p.fleet.Retried(a.d.Endpoint.Name, a.fin.Outcome)
	return c.pending
}

// mostOverfull is how many attempts at overfull engines do not count as retries. Each of these engines is sent half as
// much afterwards, so that it is soon one request.
const mostOverfull = 4

// retriesLeft reports whether another attempt may follow. Those at ports that refused the connection do not count: no
// engine is there, and it took no time to see that.
func (c *call) retriesLeft() bool {
	most := c.bounds.Load().Retries
	return most > 0 && c.served.Attempts-c.uncounted <= most
}

// barred is the endpoints that are not to get a leg of the request, or not again. They are copied for other goroutines.
func (c *call) barred(l fleet.Leg) []string {
	q := &c.Request
	if l == fleet.LegPrefill {
		return slices.Concat(q.TriedPrefill, q.Exclude)
	}
	return slices.Concat(q.Tried, q.Exclude)
}

// failedAt notes an endpoint that is not to get the request again. One whose name has moved to another address has
// another engine now, which has not had it.
func (c *call) failedAt(tried *[]string, at *fleet.Endpoint) {
	if !slices.Contains(*tried, at.Name) && !c.p.fleet.Moved(at) {
		*tried = append(*tried, at.Name)
	}
}

// refusedAt notes that an endpoint has refused the request, if that is how an attempt ended.
func (c *call) refusedAt(endpoint string, o fleet.Outcome) {
	if o == fleet.Busy {
		c.Request.Refused = append(c.Request.Refused, endpoint)
	}
}

// mayRetry reports whether another attempt is allowed: the client has seen nothing and is still connected, and sending
// the request again repeats no side effect.
func (a *attempt) mayRetry() bool {
	c := a.c
	if errors.Is(a.watch.Cause(), fault.ErrDeadline) || errors.Is(a.watch.Cause(), fault.ErrWaited) {
		return false // another queue is no faster
	}
	if c.reached && c.Transport != nil {
		return false // it has been handed over, and its endpoint has been told
	}
	if c.sent.Load() || c.broke.most() || !c.retriesLeft() || c.ctx.Err() != nil || c.shutdown.Load() ||
		c.streams() {
		return false
	}
	return a.short || a.fin.Outcome == fleet.ConnectFailed || a.fin.Outcome == fleet.Busy || a.fin.Absent || a.lacks ||
		a.keyRefused() || c.Repeatable()
}

// streams reports whether the body is passed on as it comes, so that only one engine can get it.
func (c *call) streams() bool { return c.Upload != nil || c.Body == nil && c.R.ContentLength != 0 }

// isDial reports whether connecting failed, so that the engine has seen nothing of the request.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// releaseBody releases the body once the client has seen a byte of the answer, when neither a retry nor another leg can
// need it. The transport keeps it until it has written it.
func (a *attempt) releaseBody() {
	c := a.c
	if c.Body == nil || !c.split.prefillOver() {
		return
	}
	a.noteSpoken()
	a.ReleaseCopy()
	c.Body.Release()
	c.Body = nil
}

// awaitDispatch waits until a queued request is dispatched; then the time limit on the engine starts. It returns an
// error when the attempt ends first: the client left, the endpoint is gone, the time is up, or the router is shutting
// down.
func (a *attempt) awaitDispatch(limit time.Duration) error {
	if !a.d.Queued {
		return nil
	}
	turn := a.c.p.fleet.Dispatched(a.d.Lease)
	if turn == nil {
		a.watch.Dispatched()
		return nil
	}
	a.waits = true
	began := time.Now()
	defer func() { a.c.served.Queued += time.Since(began) }()
	if most := a.c.wait; most > 0 { // the hold before it was placed counts
		tooLong := time.AfterFunc(most-a.c.served.Queued, func() { a.watch.End(fault.ErrWaited) })
		defer tooLong.Stop()
	}
	if !awaitTurn(turn, a.watch.Done()) {
		return a.watch.Err()
	}
	if err := a.watch.Err(); err != nil { // what ended this one has ended the request ahead too
		return err
	}
	if a.c.shutdown.Load() { // which ended the request ahead, and will end this one
		a.watch.End(timeouts.ErrShutdown)
		return a.watch.Err()
	}
	a.waits = false
	a.watch.Dispatched()
	a.watch.Wait(limit)
	return nil
}

// keyRefused reports whether the engine refused the request for the key that the router has for it. The client's key,
// if it has one, is not what is wrong.
func (a *attempt) keyRefused() bool { return a.status == http.StatusUnauthorized && a.Keyed }

// judge sets the lease's outcome from the status of an answer.
func (a *attempt) judge(res *http.Response) {
	status := fault.Status(res)
	a.fin.Outcome = fault.OutcomeOf(status)
	if a.keyRefused() {
		a.fin.Outcome = fleet.EngineError
		a.c.p.log.Warn("the engine refuses the key that the router has for it (api_key)", "endpoint", a.d.Endpoint.Name)
	}
	if a.again(status) {
		a.fin.Outcome = fleet.EngineError
	}
	if a.fin.Outcome == fleet.OK && a.page(res) {
		a.fin.Outcome = fleet.EngineError
	}
	if status == http.StatusInternalServerError && a.c.Transport == nil {
		_, said, _ := answer.ErrorAnswer(send.Short(res))
		a.fin.Overfull = answer.Overfull(said)
		if answer.Ended(said) {
			a.breaks(true)
		}
	}
	if a.fin.Outcome == fleet.Busy {
		a.fin.RetryAfter = fault.RetryAfter(res.Header, time.Now())
		a.fin.Limited = status == http.StatusTooManyRequests
	}
}

// page reports whether a page has come where the client's API has none: of a proxy before the engine. Redirects to the
// engine itself may have one.
func (a *attempt) page(res *http.Response) bool {
	redirects := res.StatusCode >= http.StatusMultipleChoices && res.StatusCode < http.StatusBadRequest
	return a.c.Known() && !redirects && send.Media(send.Named(res.Header).Get("Content-Type")) == "text/html"
}

// again reports whether a status is about the way to an engine and not about the request, which may be sent again: of
// balancers and gateways 408 (they also cut what takes too long with it, as LiteLLM does), 421 and 425; 407 of a proxy,
// whose client is the router (RFC 9110, section 15.5.8).
// It is about the request where that comes as slowly as its client sends it, 408 where its client limits the time
// itself, and 425 is for the client where a proxy before the router took the request as early data (RFC 8470, section
// 5.2).
func (a *attempt) again(status int) bool {
	c := a.c
	switch status {
	case http.StatusProxyAuthRequired, http.StatusMisdirectedRequest:
	case http.StatusRequestTimeout:
		if c.OwnLimit() {
			return false
		}
	case http.StatusTooEarly:
		if len(c.R.Header["Early-Data"]) > 0 {
			return false
		}
	default:
		return false
	}
	return !c.streams() && c.Transport == nil
}

// computed reports whether a live engine may have spent work on the attempt, so that a retry is additional load and is
// charged to the retry budget. Requests withdrawn from engines that hang or are gone are not charged.
func (a *attempt) computed() bool {
	if a.waits || a.short || a.fin.Absent || a.lacks || a.keyRefused() || a.fin.Outcome == fleet.ConnectFailed {
		return false
	}
	cause := a.watch.Cause()
	return !errors.Is(cause, timeouts.ErrSilent) && !errors.Is(cause, timeouts.ErrMute) &&
		!errors.Is(cause, timeouts.ErrAsleep) &&
		!errors.Is(cause, timeouts.ErrDown) &&
		!errors.Is(cause, timeouts.ErrRefusing)
}

// withLeg adds to an error which leg it belongs to.
func (a *attempt) withLeg(err error) error {
	if errors.Is(err, timeouts.ErrShutdown) || a.fin.Outcome == fleet.ClientError || fault.IsOfLeg(err) {
		return err
	}
	switch {
	case a.d.Leg != fleet.LegUnsplit:
		return fault.Failed(a.d.Leg, err)
	case a.c.p.cfg.WrapErrors && a.d.Why != "": // asked directly, it is the decoder
		return fault.Failed(fleet.LegDecode, err)
	}
	return err
}
