package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/session"
)

// bind stores where a conversation's turn goes. The cached tokens are only known after prefill, so the stored number is
// kept only if the conversation stays.
func (r *Router) bind(q *asked, v *pick.View, who *conversation.Found, res *reservation, model string) {
	if who.ID == "" {
		return
	}
	e := r.placedEntry(q.now, &who.Entry, res, model)
	res.conversation = r.conversations.Bind(q.now, q.scope(v.Leg), who, e)
	if r.cfg.Replicas {
		res.session = who.Leader(q.scope(fleet.LegUnsplit)) // it is told to other routers
	}
}

// placedEntry is a conversation's new entry once its turn has been placed; was is the old one.
func (r *Router) placedEntry(now time.Time, was *session.Entry, res *reservation, model string) session.Entry {
	ep := res.ep
	if slot, since, ok := r.endIdle(was); ok && res.retry {
		r.arrivals.Restart(now, slot, since)
	} else if ok {
		r.arrivals.Return(now, slot, since)
	}
	res.countsActive = true
	r.arrivals.Activate(ep.Slot())
	epoch := r.cache.Epoch(ep.Slot())
	e := session.Entry{
		Endpoint: ep.Name(),
		Model:    model,
		Epoch:    epoch,
		Turns:    was.Turns,
		Prompt:   was.Prompt,
		Bytes:    was.Bytes,
		Marks:    was.Marks,
		Last:     now,
	}
	if !res.retry || e.Turns == 0 {
		e.Turns++
	}
	if was.Endpoint == ep.Name() && was.Epoch == epoch && was.Model == model {
		e.Tokens, e.Flow = was.Tokens, was.Flow
	}
	return e
}

// endIdle takes a conversation out of the idle ones: those of the endpoint with the slot, since a tick. ok is false if
// it was not idle, or its endpoint is gone. The caller tells arrivals whether it has come back.
func (r *Router) endIdle(e *session.Entry) (slot int, since uint32, ok bool) {
	if e.IdleSince == 0 {
		return 0, 0, false
	}
	since, e.IdleSince = e.IdleSince, 0
	ep := r.registry.Named(e.Endpoint)
	if !ep.Exists() {
		return 0, 0, false
	}
	return ep.Slot(), since, true
}

// forgetIdle removes a conversation that is remembered no more from the idle ones: if it comes back, it is a new one.
func (r *Router) forgetIdle(e session.Entry) {
	if slot, since, ok := r.endIdle(&e); ok {
		r.arrivals.Forget(slot, since)
	}
}

// respond stores which endpoint holds a response, its conversation and, once it has ended, its tokens.
func (r *Router) respond(now time.Time, response session.Key, res *reservation, u *fleet.Usage) {
	e := session.Entry{Endpoint: res.ep.Name(), Model: res.decision.Model}
	if res.class == fleet.Turn {
		e.Leader = res.session
	}
	if u.PromptTokens > 0 && res.ep.Current() {
		r.storeTokens(res, &e, u.PromptTokens+u.OutputTokens, u.PromptTokens)
	}
	r.conversations.Respond(now, response, res.tenantNumber, e)
}

// storeComputed updates a conversation's cached tokens when its prompt has been computed, if the conversation is still
// at the endpoint.
func (r *Router) storeComputed(now time.Time, res *reservation) {
	if !res.ep.Current() { // its conversation is cold at the new address
		return
	}
	r.conversations.Revise(now, &res.conversation, res.ep.Name(), func(e session.Entry) session.Entry {
		r.storeTokens(res, &e, res.decision.PromptTokens, res.decision.PromptTokens)
		return e
	})
}

// storeEnded stores a conversation whose turn has ended, and makes it idle. A client that left or was rejected may
// return. A failed turn changes nothing: it is retried elsewhere, or another turn of the conversation was answered
// meanwhile.
func (r *Router) storeEnded(now time.Time, res *reservation, ev *Finished) {
	if res.countsActive {
		r.arrivals.Deactivate(res.ep.Slot())
	}
	if o := ev.Outcome; o != fleet.OK && o != fleet.ClientGone && o != fleet.ClientError || !res.ep.Current() {
		return
	}
	r.conversations.Revise(now, &res.conversation, res.ep.Name(), func(e session.Entry) session.Entry {
		if n := ev.Usage.PromptTokens; ev.Outcome == fleet.OK && n > 0 {
			r.storeTokens(res, &e, n+ev.Usage.OutputTokens, n)
		}
		if res.countsActive {
			if slot, since, ok := r.endIdle(&e); ok { // another turn of it has ended before
				r.arrivals.Restart(now, slot, since)
			}
			e.IdleSince = r.arrivals.BeginIdle(now, res.ep.Slot())
		}
		return e
	})
}

// storeTokens stores a conversation's cached tokens and the tokens of its last prompt.
func (r *Router) storeTokens(res *reservation, e *session.Entry, tokens, prompt int) {
	w := r.cache.Warmth(res.index)
	e.Epoch, e.Flow, e.Tokens = w.Epoch, w.Flow, tokens
	if prompt > 0 && w.Bytes > 0 {
		e.Prompt, e.Bytes, e.Marks = prompt, w.Bytes, w.Marks
	}
}
