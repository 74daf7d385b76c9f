package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/session"
)

// bind remembers where a conversation's turn goes. What is warm there is only known once the prefill is done, so the
// tokens carry over only while the conversation stays.
func (r *Router) bind(d *decision, v *pick.View, t *conversation.Found, f *flight, model string) {
	if t.ID == "" {
		return
	}
	again, ep := len(tried(d.req, v.Leg)) > 0, f.ep
	r.wake(d.now, &t.Entry, !again)
	f.wakes = true
	r.arrivals.Activate(ep.slot, ep.key)
	epoch := r.cache.Reader().Epoch(ep.slot)
	e := session.Entry{Endpoint: ep.spec.Name, Model: model, Epoch: epoch, Turns: t.Entry.Turns, Prompt: t.Entry.Prompt, Bytes: t.Entry.Bytes, Last: d.now}
	if !again || e.Turns == 0 {
		e.Turns++
	}
	if t.Entry.Endpoint == ep.spec.Name && t.Entry.Epoch == epoch {
		e.Tokens, e.Flow = t.Entry.Tokens, t.Entry.Flow
	}
	f.conversation = r.conversations.Bind(d.now, d.scope(v.Leg), t, e)
}

// wake takes a conversation out of those that are idle.
func (r *Router) wake(now time.Time, e *session.Entry, back bool) {
	if ep := r.byName[e.Endpoint]; ep != nil && e.Rest > 0 {
		r.arrivals.Wake(now, ep.slot, ep.key, e.Rest, back)
	}
	e.Rest = 0
}

// respond notes who holds a response, and whose it is.
func (r *Router) respond(now time.Time, id string, f *flight) {
	leader := ""
	if f.class == fleet.Turn {
		leader = f.session
	}
	r.conversations.Respond(now, f.tenant, id, f.ep.spec.Name, leader)
}

// warm updates how many tokens of a conversation its endpoint holds when its prompt has been computed, if the conversation is still there.
func (r *Router) warm(now time.Time, f *flight) {
	if f.incarnation != f.ep.incarnation {
		return
	}
	if e, ok := r.conversations.At(now, &f.conversation, f.ep.spec.Name); ok {
		r.warms(f, &e, f.decision.PromptTokens, f.decision.PromptTokens)
		r.conversations.Update(now, &f.conversation, e)
	}
}

// warmed does so when its turn has ended, and has it idle until the next one. Who has left, or was refused, may come again. Of a turn that
// failed nothing is remembered: it is tried elsewhere, or another one of the conversation was answered meanwhile.
func (r *Router) warmed(now time.Time, f *flight, ev *Finished) {
	if f.wakes {
		r.arrivals.Deactivate(f.ep.slot, f.ep.key)
	}
	if o := ev.Outcome; o != fleet.OK && o != fleet.ClientGone && o != fleet.ClientError || f.incarnation != f.ep.incarnation {
		return
	}
	e, ok := r.conversations.At(now, &f.conversation, f.ep.spec.Name)
	if !ok {
		return
	}
	if n := ev.Usage.PromptTokens; ev.Outcome == fleet.OK && n > 0 {
		r.warms(f, &e, n+ev.Usage.OutputTokens, n)
	}
	if f.wakes {
		r.wake(now, &e, false) // another turn of it has ended before
		e.Rest = r.arrivals.Rest(now, f.ep.slot, f.ep.key)
	}
	r.conversations.Update(now, &f.conversation, e)
}

// warms enters how many tokens of the conversation the endpoint holds, and of how many its last prompt was.
func (r *Router) warms(f *flight, e *session.Entry, tokens, prompt int) {
	w := r.cache.Reader().Warmth(f.index)
	e.Epoch, e.Flow, e.Tokens = w.Epoch, w.Flow, tokens
	if prompt > 0 && w.Bytes > 0 {
		e.Prompt, e.Bytes = prompt, w.Bytes
	}
}
