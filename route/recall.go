package route

import (
	"time"

	"github.com/warmpath/warmpath/session"
)

// talk is what the router remembers of the conversation that a request belongs to.
type talk struct {
	id      string
	minted  bool // the client sent no id
	known   bool
	entry   session.Entry
	newborn bool // known under an id that we minted, and now gone on with for the first time
}

// recall finds the conversation of a request.
func (r *Router) recall(now time.Time, p *pool, req *Request) talk {
	t := talk{id: req.Session, minted: req.Session == ""}
	if t.minted {
		t.id = req.MintedID
		if req.Trail == nil || req.Class != Turn {
			if len(req.Tried) > 0 {
				t.entry, t.known = r.newborn.Get(now, req.Tenant, p.name, t.id)
			}
			return t
		}
		followed := false
		req.Trail.Scope = placeHash(&Request{Tenant: req.Tenant, HashKey: p.name}, "")
		if t.id, followed = r.trails.Follow(req.Trail, t.id); !followed {
			return t
		}
		t.minted = false
	}
	if t.entry, t.known = r.sessions.Get(now, req.Tenant, p.name, t.id); t.known {
		return t
	}
	if t.entry, t.known = r.newborn.Get(now, req.Tenant, p.name, t.id); t.known {
		t.newborn = true
	}
	return t
}

// bind remembers where a conversation's turn goes. What is warm there is only known once the prefill is done, so the
// tokens carry over only while the conversation stays.
func (r *Router) bind(now time.Time, p *pool, req *Request, t talk, ep *endpoint, model string) {
	if t.id == "" {
		return
	}
	e := session.Entry{Endpoint: ep.spec.Name, Model: model, Epoch: ep.epoch, Turns: t.entry.Turns, Last: now}
	if len(req.Tried) == 0 || e.Turns == 0 {
		e.Turns++
	}
	if t.entry.Endpoint == ep.spec.Name && t.entry.Epoch == ep.epoch {
		e.Tokens = t.entry.Tokens
	}
	if t.minted {
		r.newborn.Put(now, req.Tenant, p.name, t.id, e)
		return
	}
	r.sessions.Put(now, req.Tenant, p.name, t.id, e)
	if t.newborn {
		r.newborn.Delete(req.Tenant, p.name, t.id)
	}
}

// warm updates how many tokens of a conversation its endpoint holds, if the conversation is still there.
func (r *Router) warm(now time.Time, f *flight, tokens int) {
	if f.class != Turn || f.session == "" {
		return
	}
	table := r.sessions
	e, ok := table.Get(now, f.tenant, f.pool.name, f.session)
	if !ok {
		table = r.newborn
		e, ok = table.Get(now, f.tenant, f.pool.name, f.session)
	}
	if !ok || e.Endpoint != f.ep.spec.Name || f.incarnation != f.ep.incarnation {
		return
	}
	e.Epoch, e.Tokens, e.Last = f.ep.epoch, tokens, now
	table.Put(now, f.tenant, f.pool.name, f.session, e)
}
