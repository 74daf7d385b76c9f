package proxy

import (
	"errors"

	"github.com/warmpath/warmpath/internal/proxy/gate"
	"github.com/warmpath/warmpath/internal/proxy/who"
)

// admit checks the request's access, tenant and limits. It returns false after refusing the request.
func (c *call) admit() bool {
	name, byKey, err := c.p.cfg.Tenants.Of(c.R.Header)
	if err != nil {
		if errors.Is(err, who.ErrNoTenant) {
			c.client.Header()["Www-Authenticate"] = []string{"Bearer"}
		}
		c.refuse(err)
		return false
	}
	c.Request.Tenant, c.OurKey = name, byKey
	c.served.Tenant = name
	c.Request.Caller = who.CallerOf(c.p.callers, name, c.R.Header)
	return true
}

// enters checks host name, path and tenant. It returns false after refusing the request.
func (c *call) enters() bool {
	p, path := c.p, c.R.URL.Path
	if err := gate.Foreign(p.cfg.Names, c.R); err != nil && c.Carrier == nil { // who carries it has another listener
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
	if err := gate.Passes(c.API, c.R.Method, path, p.cfg.Paths); err != nil {
		c.refuse(err)
		return false
	}
	return true
}
