package proxy

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/rewrite"
	"github.com/warmpath/warmpath/internal/proxy/transfers"
	"github.com/warmpath/warmpath/route"
	"golang.org/x/net/http/httpguts"
)

// split is a request served in two legs: one engine computes the prompt, another one answers. It owns the lease of the
// prefill leg from the decision on, and that of the decode leg until its attempt begins. It is nil for requests that
// were never split.
type split struct {
	c    *call
	conn handover.Connector
	x    handover.Request
	plan route.Plan

	prefill route.Finished // how the prefill leg's lease will end; its Lease is 0 when none is open
	waiting fleet.Lease    // of the decode leg while the prompt is computed; 0 when there is none

	handed  handover.Handed
	message handover.Message // for the decoder
	// the prompt is computed, and no decoder has received the hand-over that may have used it up
	ready      bool
	readyAt    time.Time
	failed     int                  // prefill legs that failed, but for ports that refused the connection
	wasQueued  bool                 // the last one was still queued at the router when it ended
	charged    bool                 // its replacement is charged to the retry budget
	unreached  bool                 // see attempt.unreached
	answer     fleet.Usage          // of the decode leg that has ended
	said       transfers.SpokenNote // the client's messages, for the conversation's next turn
	failedOnce bool                 // a decoder has failed once; the transfer may have been the cause
	// number of failed prefillers at that time: the next of them may be asked again if there is no other
	spared int

	notified func(context.Context) bool // waits for the notification that the KV cache has arrived; nil for none
	forget   func()

	// the prefill leg that runs beside the decode leg, for protocols that need both at once; nil when there is none
	concurrent *concurrentLeg
}

// keepFor is how long a prefiller's KV cache is assumed to be available for transfer: half of the shortest lease in use
// (vLLM's kv_lease_duration is 30 s).
const keepFor = 15 * time.Second

// splits reports whether the request can be served in two legs, as far as is known before endpoints are chosen.
func (c *call) splits() bool {
	if !c.p.fleet.Roles() || c.Request.Class != fleet.Turn || c.Body == nil || c.Prompt.InsertAt == 0 ||
		c.Request.Pin != "" {
		return false
	}
	if content, _ := c.promptBeside(); content != nil {
		return false // the prefill leg would have no prompt to compute
	}
	x := c.p.sender.HandoverRequest(&c.Incoming)
	if conn := c.p.cfg.Connector; conn != nil {
		return conn.Fits(&x) == nil
	}
	for _, conn := range handover.Connectors() {
		if conn.Fits(&x) == nil {
			return true
		}
	}
	return false
}

// serveSplit computes the prompt and then the answer. next is the decision to continue with if that fails and the
// client has seen nothing.
func (c *call) serveSplit(plan *route.Plan) (next *route.Plan) {
	s := c.split
	if s == nil {
		s = &split{c: c, x: c.p.sender.HandoverRequest(&c.Incoming)}
		c.split = s
	}
	s.plan, s.waiting = *plan, plan.Lease
	if !s.ready {
		s.prefill = route.Finished{Lease: plan.Prefill.Lease, Outcome: fleet.Abandoned}
		s.conn = c.p.sender.Connector(plan.Prefill.Kind)
		if s.conn == nil || s.conn.Fits(&s.x) != nil {
			c.Request.Splits = false
			return s.fallBack(fault.ErrNoConnector)
		}
		if s.conn.Order() != handover.PrefillFirst {
			return s.together()
		}
		if next, ok := s.compute(); !ok {
			return next
		}
		if s.handed.Whole {
			s.answered()
			return nil
		}
	}
	s.x.Decoder = s.plan.Endpoint
	message, err := s.conn.Decode(&s.x, &s.handed)
	if err != nil {
		return s.fallBack(err)
	}
	c.p.fleet.Observe(route.Transferring{Lease: s.plan.Lease})
	s.await()
	s.message, s.waiting = message, 0
	return c.attempt(&s.plan)
}

// pairUp gives the connector the two engines of the next attempt.
func (s *split) pairUp() {
	s.x.Prefiller, s.x.Decoder, s.x.Number = s.plan.Prefill.Endpoint, s.plan.Endpoint, s.c.p.cfg.Numbers.Next()
	s.x.Session, s.x.About = s.c.unstatedID(s.plan.Session), s.plan.Prefill.Handover
	s.x.PrefillerPeer, s.x.DecoderPeer, s.x.Random = s.plan.Prefill.Peer, s.plan.Peer, rand.Uint64()
}

// compute computes the prompt, at another prefiller if one fails. If ok is false no prefiller did, and next is the
// decision to continue with; nil when the client has its answer or left.
func (s *split) compute() (next *route.Plan, ok bool) {
	for {
		err := s.ask()
		if err == nil && s.c.ctx.Err() == nil {
			return nil, true
		}
		if next, again := s.instead(err); !again {
			return next, false
		}
	}
}

// fallBack sends the unsplit request to a decoder, which computes the prompt itself, or answers the client with the
// error.
func (s *split) fallBack(cause error) (next *route.Plan) {
	c := s.c
	c.Request.Fails = !errors.Is(cause, fault.ErrNoConnector)
	c.keepSession(s.plan.Session)
	if !c.p.cfg.NoFallback && !c.shutdown.Load() {
		level := slog.LevelWarn
		if fault.Unfit(cause) {
			level = slog.LevelDebug
		}
		c.p.log.Log(c.ctx, level, "prefill leg failed",
			"request", c.served.ID, "endpoint", s.plan.Prefill.Endpoint.Name, "error", fault.Unsaid(cause))
		c.Request.Instead = s.plan.Lease
		if plan, err := c.decideAgain(); err == nil {
			c.served.Attempts-- // the decoder of the first decision was never asked
			c.pending = &plan
			next = c.pending
		}
	}
	s.release(fleet.Abandoned)
	s.ready = false // the next answer reports its own usage
	if next == nil {
		c.refuse(fault.Failed(fleet.LegPrefill, cause))
	}
	return next
}

// ask sends the prefill leg when it is dispatched, and reads its reply. KV cache that a decoder holds for it is looked
// up only then, since decoders drop it after a time.
func (s *split) ask() error {
	a, err := s.startPrefill()
	defer a.over()
	if err != nil {
		return err
	}
	s.pairUp()
	s.fetchBack()
	message, err := s.conn.Prefill(&s.x)
	if err != nil {
		return err
	}
	s.expect(message.Await)
	err = s.exchange(a, &message)
	again := s.failedToFetch(a)
	s.took(a)
	if again {
		s.c.p.log.Warn("prefiller could not fetch the conversation's KV cache from its decoder",
			"request", s.c.served.ID, "endpoint", a.d.Endpoint.Name, "error", fault.Unsaid(err))
	}
	return err
}

func (s *split) exchange(a *attempt, message *handover.Message) error {
	c := s.c
	if a.Message = message; message.Sets("stream") { // of a reply that is no stream the usage comes by itself
		a.WithoutUsage()
	}
	a.watch.Wait(c.bounds.Load().FirstByte)
	a.dispatched = true
	res, err := a.Send()
	if err != nil {
		return a.conclude(err)
	}
	defer res.Body.Close()
	a.status = res.StatusCode
	body, err := rewrite.ReadReply(res, c.holdReply)
	if err != nil {
		return a.conclude(err)
	}
	if a.judge(res); a.fin.Outcome != fleet.OK {
		c.p.log.Warn("engine answered with an error",
			"request", c.served.ID, "endpoint", a.d.Endpoint.Name, "status", res.StatusCode, "leg", "prefill")
		return fault.Answered(fleet.LegPrefill, res.StatusCode, fault.Text(body), a.fin.RetryAfter)
	}
	if code, said, failed := answer.ErrorAnswer(body); failed {
		a.fin.Outcome, a.fin.Limited = fault.OutcomeOfError(code), code == http.StatusTooManyRequests
		return fault.Answered(fleet.LegPrefill, max(code, http.StatusInternalServerError), said, 0)
	}
	s.handed, err = s.conn.Reply(&s.x, body)
	if s.handed.Known {
		s.prefill.Usage = s.c.learnable(s.handed.Usage)
	}
	c.p.fleet.Observe(route.FirstByte{Lease: s.prefill.Lease})
	s.ready, s.readyAt = err == nil, time.Now()
	return err
}

// took notes how an attempt at the prefill leg ended.
func (s *split) took(a *attempt) {
	s.prefill.Outcome, s.prefill.RetryAfter, s.prefill.Limited = a.fin.Outcome, a.fin.RetryAfter, a.fin.Limited
	s.prefill.Refused = a.fin.Refused
	s.charged, s.unreached = a.computed(), a.unreached()
}

// redecide decides again when an attempt failed before the client has seen anything. The prefiller's result is kept for
// another decoder where the protocol allows it.
func (s *split) redecide(a *attempt, c *call) (route.Plan, error) {
	if s == nil || a.d.Leg != fleet.LegDecode {
		return c.decideAgain()
	}
	s.join(false) // the state of a running prefill leg must not be read
	sent := a.fin.Outcome != fleet.ConnectFailed && !a.short
	if !s.conn.Keeps(sent) || time.Since(s.readyAt) > keepFor {
		s.endPrefill()
		s.ready = false
		return s.afresh()
	}
	c.Request.Leg, c.Request.Prefiller = fleet.LegDecode, s.plan.Prefill.Endpoint.Name
	c.Request.LegModel = s.plan.Prefill.Model
	plan, err := c.decideAgain()
	c.Request.Leg = fleet.LegUnsplit
	if errors.Is(err, route.ErrRetryBudget) {
		return plan, err
	}
	if err != nil { // the prefiller can answer too, from its own cache
		s.endPrefill()
		s.ready = false
		return s.afresh()
	}
	plan.Prefill, c.served.Prefill = s.plan.Prefill, s.plan.Prefill
	return plan, nil
}

// afresh decides again on both legs. A prefiller that was only suspected may compute the prompt again if no other can.
func (s *split) afresh() (route.Plan, error) {
	c := s.c
	plan, err := c.decideAgain()
	if err != nil && !errors.Is(err, route.ErrRetryBudget) && s.failedOnce && s.spared < len(c.Request.TriedPrefill) {
		c.Request.TriedPrefill = slices.Delete(c.Request.TriedPrefill, s.spared, s.spared+1)
		s.spared = math.MaxInt // once only
		plan, err = c.decideAgain()
	}
	return plan, err
}

// endPrefill ends the prefill leg: the decoder has the KV cache, or no decoder will need it.
func (s *split) endPrefill() {
	if s == nil || s.prefill.Lease == 0 || s.concurrent != nil {
		return
	}
	if s.ready {
		s.prefill.Outcome = fleet.OK
	}
	s.prefill.Excused = s.c.failedElsewhereToo(s.prefill.Outcome)
	s.c.p.fleet.Observe(s.prefill)
	if s.prefill = (route.Finished{}); s.unreached {
		s.unreached = false
		s.c.p.unreached(s.plan.Prefill.Endpoint.Name)
	}
}

// release ends both legs if they are still open. The prefill leg keeps an outcome that it already has.
func (s *split) release(o fleet.Outcome) {
	if s.prefill.Outcome == fleet.Abandoned {
		s.prefill.Outcome = o
	}
	s.endPrefill()
	if s.waiting != 0 {
		s.c.p.fleet.Observe(route.Finished{Lease: s.waiting, Outcome: o})
		s.waiting = 0
	}
}

// end releases the leases on every path.
func (s *split) end() {
	if s != nil {
		s.stopNotices()
		s.join(false)
		if s.ready {
			s.c.served.HandOver = s.handed.ID
		}
		s.release(fleet.Abandoned)
	}
}

// wholeUsage is the usage of the whole request. Cached tokens come from the prefiller: a decoder reports the whole
// transferred prompt as cached.
func (s *split) wholeUsage(u fleet.Usage) fleet.Usage {
	if s == nil || !s.ready || s.handed.Honest && !s.handed.Known {
		return u
	}
	u.CachedTokens, u.CachedKnown = s.handed.Usage.CachedTokens, s.handed.Known && s.handed.Usage.CachedKnown
	if u.PromptTokens == 0 {
		u.PromptTokens = s.handed.Usage.PromptTokens
	}
	return u
}

// keepSession keeps further decisions in the conversation that the first one found.
func (c *call) keepSession(session string) {
	if c.Request.Class == fleet.Turn && session != c.Request.MintedID {
		c.Request.Session = session
	}
	c.Request.Trail = nil // already used
}

// blamesTransfer reports whether a decoder that failed may not be at fault: the KV cache that it should fetch may have
// been missing. The first such failure of a request blames no endpoint; the prompt is computed again, by another
// prefiller if there is one, and the decoder may be asked again.
func (s *split) blamesTransfer(a *attempt) bool {
	if s.prefillFailed(a) {
		return true
	}
	if s == nil || s.failedOnce || a.d.Leg != fleet.LegDecode || a.fin.Outcome != fleet.EngineError || a.status == 0 {
		return false
	}
	s.failedOnce, s.spared = true, len(a.c.Request.TriedPrefill)
	s.forgetInquiry()
	a.fin.Outcome = fleet.TransferFailed
	a.c.failedAt(&a.c.Request.TriedPrefill, &s.plan.Prefill.Endpoint)
	a.c.p.unreached(s.plan.Prefill.Endpoint.Name)
	return true
}

// unstatedID is the conversation's id if the client's own header does not have it; "" if it does, or if the id cannot
// stand in a header.
func (c *call) unstatedID(session string) string {
	if c.R.Header.Get("X-Correlation-Id") != "" || !httpguts.ValidHeaderFieldValue(session) {
		return ""
	}
	return session
}
