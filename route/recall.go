package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/session"
)

// talk is what the router remembers of the conversation that a request belongs to.
type talk struct {
	id      string
	minted  bool // under an id that the client has not sent, and new
	known   bool
	entry   session.Entry
	newborn bool        // known under an id that we minted, and now gone on with for the first time
	user    session.Key // the user's id is all that tells whose conversation it is; zero when more does
	hint    string      // endpoint of its last turn, as the client says; counts while the conversation is not known
	parent  string      // endpoint of the conversation that started this one, "" when there is none or it is not known
	repeats bool        // it is its latest prompt, word for word: tried again, or one of many that begin alike
}

// recall finds the conversation of a request: by its own id, by the response it goes on from, by what it says, by its user.
func (r *Router) recall(now time.Time, p *pool, req *fleet.Request) talk {
	t := talk{id: req.Session, hint: req.Hint}
	if t.id == "" {
		t.id, t.minted = r.recognise(now, p, req, &t)
	}
	if len(req.Tried) > 0 && req.User != "" && req.Class == fleet.Turn { // the attempt that failed is still open, and ends next
		t.user = session.KeyOf(req.Tenant, p.name, req.User)
	}
	if t.minted && len(req.Tried) == 0 {
		t.parent = r.parent(now, p, req)
		return t
	}
	if t.entry, t.known = r.sessions.Get(now, req.Tenant, p.name, t.id); t.known {
		return t
	}
	if t.entry, t.known = r.newborn.Get(now, req.Tenant, p.name, t.id); t.known {
		t.newborn = !t.minted
		return t
	}
	t.parent = r.parent(now, p, req)
	return t
}

// recognise finds the conversation of a request that does not name it. minted means that it is a new one under the fresh id.
func (r *Router) recognise(now time.Time, p *pool, req *fleet.Request, t *talk) (id string, minted bool) {
	if req.Class != fleet.Turn || len(req.Tried) > 0 { // a retry has been recognised: only of a new conversation does it not say which
		return req.MintedID, true
	}
	if req.Follows != "" {
		if e, ok := r.responses.Get(now, req.Tenant, "", req.Follows); ok && e.Leader != "" {
			return e.Leader, false
		}
	}
	user := session.Key{}
	if req.User != "" {
		user = session.KeyOf(req.Tenant, p.name, req.User)
	}
	if req.Trail.Says() {
		req.Trail.Scope = blocks.Hash(req.Tenant, p.name)
		req.Trail.Speaker = user.Uint64()
		id, known := r.trails.Follow(req.Trail, req.MintedID)
		t.repeats = req.Trail.Repeats
		if req.User != "" {
			r.users.Said(now, user, id)
		}
		return id, !known
	}
	if req.User == "" || req.Follows != "" {
		return req.MintedID, true
	}
	t.user = user
	id, known := r.users.Claim(now, user, req.MintedID)
	return id, !known
}

// parent is the endpoint of the conversation that started this one.
func (r *Router) parent(now time.Time, p *pool, req *fleet.Request) string {
	if req.Parent == "" || req.Class != fleet.Turn {
		return ""
	}
	e, ok := r.sessions.Get(now, req.Tenant, p.name, req.Parent)
	if !ok {
		e, _ = r.newborn.Get(now, req.Tenant, p.name, req.Parent)
	}
	return e.Endpoint
}

// bind remembers where a conversation's turn goes. What is warm there is only known once the prefill is done, so the
// tokens carry over only while the conversation stays.
func (r *Router) bind(now time.Time, p *pool, req *fleet.Request, t talk, ep *endpoint, d *Decision, model string) {
	if t.id == "" {
		return
	}
	if t.user != (session.Key{}) {
		r.users.Begin(t.user)
		r.flights[uint32(d.Lease)].user = t.user
	}
	again := len(tried(req, d.Leg)) > 0
	r.wake(now, &t.entry, !again)
	r.flights[uint32(d.Lease)].wakes = true
	r.arrivals.Activate(ep.slot, ep.key)
	name := p.nameFor(d.Leg)
	e := session.Entry{Endpoint: ep.spec.Name, Model: model, Epoch: ep.epoch, Turns: t.entry.Turns, Prompt: t.entry.Prompt, Bytes: t.entry.Bytes, Last: now}
	if !again || e.Turns == 0 {
		e.Turns++
	}
	if t.entry.Endpoint == ep.spec.Name && t.entry.Epoch == ep.epoch {
		e.Tokens, e.Flow = t.entry.Tokens, t.entry.Flow
	}
	if t.minted {
		r.newborn.Put(now, req.Tenant, name, t.id, e)
		return
	}
	r.sessions.Put(now, req.Tenant, name, t.id, e)
	if t.newborn {
		r.newborn.Delete(req.Tenant, name, t.id)
	}
}

// wake takes a conversation out of those that are idle.
func (r *Router) wake(now time.Time, e *session.Entry, back bool) {
	if ep := r.byName[e.Endpoint]; ep != nil && e.Rest > 0 {
		r.arrivals.Wake(now, ep.slot, ep.key, e.Rest, back)
	}
	e.Rest = 0
}

// release lets go of what a request held of its user.
func (r *Router) release(now time.Time, f *flight) {
	if f.user != (session.Key{}) {
		r.users.End(now, f.user)
	}
}

// rememberResponse notes who holds a response, and whose it is.
func (r *Router) rememberResponse(now time.Time, id string, f *flight) {
	leader := ""
	if f.class == fleet.Turn {
		leader = f.session
	}
	e, ok := r.responses.Get(now, f.tenant, "", id)
	if ok && e.Endpoint == f.ep.spec.Name && (leader == "" || leader == e.Leader) {
		return
	}
	e.Endpoint = f.ep.spec.Name
	if leader != "" {
		e.Leader = leader
	}
	r.responses.Put(now, f.tenant, "", id, e)
}
