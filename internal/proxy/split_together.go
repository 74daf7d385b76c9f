package proxy

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/route"
)

// concurrentLeg is a prefill leg that runs beside its decode leg. Until done is closed, only its goroutine touches the
// split's state of it (handed, prefill, ready).
type concurrentLeg struct {
	attempt  *attempt
	done     chan struct{}
	answered chan struct{} // closed when the decoder's header has come
	answers  sync.Once
	refused  bool                  // that header says that it failed; read when answered is closed
	failure  atomic.Pointer[error] // why it failed; the decode leg has been cancelled then
}

var (
	// errPrefillFailed is the cause that ends a decode leg whose prefill leg failed.
	errPrefillFailed = errors.New("the prompt was not computed")
	// errRefused says that a decoder that asks the prefiller itself answered with an error: whose fault it is shows
	// nowhere.
	errRefused = errors.New("the decoder answered with an error")
)

// blameWait is how long a decoder that answered with an error waits for an error of its prefill leg.
const blameWait = 250 * time.Millisecond

// replyWait is how long a prefiller may take to end its reply after the answer is complete.
const replyWait = time.Second

// together asks both engines at once, when the prefill leg is dispatched, and relays the decoder's answer.
func (s *split) together() (next *route.Plan) {
	a, err := s.startPrefill()
	for err != nil {
		a.over()
		next, again := s.instead(err)
		if !again {
			return next
		}
		a, err = s.startPrefill()
	}
	s.pairUp()
	s.inquire()
	toPrefill, err := s.conn.Prefill(&s.x)
	if err == nil {
		s.message, err = s.conn.Decode(&s.x, nil)
	}
	if err != nil {
		a.over()
		return s.fallBack(err)
	}
	b := &concurrentLeg{attempt: a, done: make(chan struct{}), answered: make(chan struct{})}
	s.concurrent, s.waiting = b, 0
	s.x.Attempt++
	decode := s.plan.Lease
	go func() {
		defer close(b.done)
		err := s.exchangeConcurrently(b.attempt, &toPrefill)
		s.took(b.attempt)
		switch {
		case err == nil && s.ready:
			s.c.p.fleet.Observe(route.Transferring{Lease: decode})
			return
		case errors.Is(err, errRefused):
			return // the decode leg's own attempt deals with it
		}
		if err == nil {
			err = fault.ErrBroken // the client left, or the decode leg ended first
		}
		b.failure.Store(&err)
		if w := s.c.watch.Load(); w != nil && w.At(s.plan.Endpoint.Name) {
			w.End(errPrefillFailed)
		}
	}()
	return s.c.attempt(&s.plan)
}

// exchangeConcurrently is exchange in a goroutine of its own, where an unrecovered panic would end the router.
func (s *split) exchangeConcurrently(a *attempt, message *handover.Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.c.p.log.Error("panic while serving", "request", s.c.served.ID, "leg", "prefill", "panic", v)
			s.ready, err = false, fault.ErrBroken
		}
	}()
	if s.conn.Order() == handover.ByDecoder {
		return s.awaitHandover(a)
	}
	return s.exchange(a, message)
}

// awaitHandover waits until the decoder, which asks the prefiller itself, has the prompt's KV cache: then the header of
// its answer comes. One that says that it failed tells nothing of the prefiller, and least of all how fast it is.
func (s *split) awaitHandover(a *attempt) error {
	select {
	case <-s.concurrent.answered:
	case <-a.watch.Done():
		return a.conclude(a.watch.Err())
	}
	if s.concurrent.refused {
		return errRefused
	}
	s.handed, _ = s.conn.Reply(&s.x, nil)
	a.fin.Outcome = fleet.OK
	s.c.p.fleet.Observe(route.FirstByte{Lease: s.prefill.Lease})
	s.ready, s.readyAt = true, time.Now()
	return nil
}

// decoderAnswered notes that the header of the decoder's answer has come, with its status.
func (s *split) decoderAnswered(status int) {
	if s != nil && s.concurrent != nil {
		s.concurrent.answers.Do(func() {
			s.concurrent.refused = status >= http.StatusBadRequest
			close(s.concurrent.answered)
		})
	}
}

// watchPrefill ends a decode leg whose prefill leg failed before it began.
func (s *split) watchPrefill(a *attempt) {
	if s != nil && s.concurrent != nil && s.concurrent.failure.Load() != nil {
		a.watch.End(errPrefillFailed)
	}
}

// prefillError is the client's error for a decode leg that was cancelled because its prefill leg failed.
func (s *split) prefillError() error {
	if s != nil && s.concurrent != nil {
		if err := s.concurrent.failure.Load(); err != nil {
			return fault.Failed(fleet.LegPrefill, *err)
		}
	}
	return errPrefillFailed
}

// blamed is the failure of the prefill leg when the decoder beside it answered with an error; nil when the prefill leg
// has not failed. Both fail at about the same time, and either may be seen first; the decoder is not blamed.
func (a *attempt) blamed() error {
	s := a.c.split
	if s == nil || s.concurrent == nil || a.d.Leg != fleet.LegDecode || a.fin.Outcome != fleet.EngineError {
		return nil
	}
	limit := time.NewTimer(blameWait)
	defer limit.Stop()
	s.replied(a, limit.C)
	if s.concurrent.failure.Load() == nil {
		return nil
	}
	a.fin.Outcome = fleet.Abandoned
	return s.prefillError()
}

// prefillFailed reports whether a decoder's attempt ended because its prefill leg failed, so that another prefiller
// should be asked.
func (s *split) prefillFailed(a *attempt) bool {
	if s == nil || s.concurrent == nil || a.d.Leg != fleet.LegDecode || a.fin.Outcome != fleet.Abandoned ||
		s.concurrent.failure.Load() == nil {
		return false
	}
	a.c.failedAt(&a.c.Request.TriedPrefill, &s.plan.Prefill.Endpoint)
	s.forgetInquiry()
	return true
}

// prefillOver reports that the prefill leg beside the decode leg, if any, is over: it does not send the body any more,
// and its state may be read.
func (s *split) prefillOver() bool {
	if s == nil || s.concurrent == nil {
		return true
	}
	select {
	case <-s.concurrent.done:
		return true
	default:
		return false
	}
}

// replied waits for the prefill leg beside a decode leg, until the attempt ends or the limit, if any, has passed. It
// reports whether the prefill leg is over.
func (s *split) replied(a *attempt, limit <-chan time.Time) bool {
	if s.concurrent == nil {
		return true
	}
	select {
	case <-s.concurrent.done:
		return true
	case <-limit:
	case <-a.watch.Done():
	}
	return false
}

// join waits for a running prefill leg, and ends it unless the answer is complete: then its reply is due.
func (s *split) join(answered bool) {
	if s == nil || s.concurrent == nil {
		return
	}
	b := s.concurrent
	if answered {
		select {
		case <-b.done:
		case <-time.After(replyWait):
		case <-s.c.p.aborted.Done():
		}
	}
	b.attempt.watch.End(errPrefillFailed)
	<-b.done
	b.attempt.over()
	s.concurrent = nil
	if s.ready && s.handed.Honest && !s.handed.Known { // the decoder reports the prefiller's count
		s.prefill.Usage = s.c.learnable(s.answer)
		s.prefill.Usage.OutputTokens = 0
	}
	s.endPrefill()
}
