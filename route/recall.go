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
	e := session.Entry{Endpoint: ep.spec.Name, Model: model, Epoch: ep.epoch, Turns: t.entry.Turns, Prompt: t.entry.Prompt, Bytes: t.entry.Bytes, Last: now}
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
