package proxy

import (
	"errors"

	"github.com/warmpath/warmpath/internal/proxy/gate"
	"github.com/warmpath/warmpath/internal/proxy/who"
	"github.com/warmpath/warmpath/prompt"
)

// admit finds out whose request it is; false when it was refused.
func (c *call) admit() bool {
	name, byKey, err := c.p.cfg.Tenants.Of(c.r.Header)
	if err != nil {
		if errors.Is(err, who.ErrNoTenant) {
			c.w.Header()["Www-Authenticate"] = []string{"Bearer"}
		}
		c.refuse(err)
		return false
	}
	c.req.Tenant, c.ourKey = name, byKey
	c.req.Caller = who.CallerOf(c.p.callers, name, c.r.Header)
	return true
}

// salt adds to the edits of a request the one that keeps the engine's cache apart for the tenant.
func (a *attempt) salt(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if e, ok := c.p.cfg.Tenants.Salt(c.req.Tenant, a.d.Kind, c.api, &c.prompt, c.text()); ok {
		return append(edits, e)
	}
	return edits
}

// text is the body of a request that is held, nil for another.
func (c *call) text() []byte {
	if c.body == nil {
		return nil
	}
	return c.body.Bytes
}

// enters reports whether a request is let in: under a name that is known, on a path that is passed on, of a tenant. It has been refused when
// not.
func (c *call) enters() bool {
	p, path := c.p, c.r.URL.Path
	if err := gate.Foreign(p.cfg.Names, c.r); err != nil {
		c.refuse(err)
		return false
	}
	if gate.Climbs(path) {
		c.refuse(gate.ErrBadPath)
		return false
	}
	if !c.admit() {
		return false
	}
	if err := gate.Passes(c.api, c.r.Method, path, p.cfg.Paths); err != nil {
		c.refuse(err)
		return false
	}
	return true
}
