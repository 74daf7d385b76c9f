package proxy

import (
	"errors"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/route"
)

// startPrefill begins an attempt at the prefill leg when it is dispatched: a decoder asked earlier would reserve memory
// for a prompt that is not being computed yet. The caller must end the attempt with over in any case.
func (s *split) startPrefill() (*attempt, error) {
	limit := s.c.bounds.Load().FirstByte
	a := s.c.startAttempt(&s.plan.Prefill)
	a.watch.Wait(limit)
	err := a.awaitDispatch(limit)
	if err != nil {
		if err = a.conclude(err); err == nil {
			err = fault.ErrBroken // the client left
		}
		s.took(a)
	}
	s.wasQueued = a.waits
	return a, err
}

// instead reserves another prefiller for the one that failed. If again is false there is none, and next is the decision
// to continue with; nil when the client has its answer or left.
func (s *split) instead(err error) (next *route.Plan, again bool) {
	c := s.c
	switch {
	case c.ctx.Err() != nil:
		c.served.Outcome = fleet.ClientGone
		s.release(fleet.ClientGone)
		return nil, false
	case errors.Is(err, timeouts.ErrShutdown):
		c.refuse(err)
		return nil, false
	}
	if !s.prefill.Refused { // see retriesLeft
		s.failed++
	}
	if s.elsewhere() {
		return nil, true
	}
	return s.fallBack(err), false
}

// elsewhere reserves another prefiller for the one that failed.
func (s *split) elsewhere() bool {
	c := s.c
	switch s.prefill.Outcome {
	case fleet.ConnectFailed, fleet.Busy, fleet.EngineError, fleet.TimedOut, fleet.TransferFailed:
	case fleet.Abandoned:
		if !s.wasQueued {
			return false
		}
	default:
		return false // another one would give the same answer
	}
	if most := c.bounds.Load().Retries; most == 0 || s.failed > most || c.shutdown.Load() {
		return false
	}
	failed := s.plan.Prefill.Endpoint.Name
	if s.prefill.Outcome != fleet.TransferFailed {
		c.failedAt(&c.Request.TriedPrefill, &s.plan.Prefill.Endpoint)
	}
	c.refusedAt(failed, s.prefill.Outcome)
	c.Request.Leg, c.Request.Decoder, c.Request.LegModel = fleet.LegPrefill, s.plan.Endpoint.Name, s.plan.Model
	c.keepSession(s.plan.Session)
	c.Request.Again = s.charged
	c.rememberContent()
	plan, err := c.p.fleet.Decide(&c.Request)
	c.forgetContent(&plan.Decision)
	c.Request.Leg, c.Request.Again = fleet.LegUnsplit, false
	if err != nil {
		return false
	}
	c.p.fleet.Retried(failed, s.prefill.Outcome)
	s.endPrefill()
	s.plan.Prefill, c.served.Prefill = plan.Prefill, plan.Prefill
	s.prefill = route.Finished{Lease: plan.Prefill.Lease, Outcome: fleet.Abandoned}
	s.x.Attempt++
	return true
}
