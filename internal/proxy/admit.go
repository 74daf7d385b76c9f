package proxy

import (
	"errors"
	"net/http"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/proxy/client"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/paths"
)

// admit checks the request's access, tenant and limits. It returns false after refusing the request.
func (c *call) admit() bool {
	from, err := c.p.cfg.Tenants.Of(c.R.Header, c.served.Started)
	if err != nil {
		if _, ended := errors.AsType[*identity.EndedError](err); ended {
			c.client.Header()["Www-Authenticate"] = []string{`Bearer error="invalid_token"`} // RFC 6750, section 3.1
		} else if errors.Is(err, identity.ErrNoTenant) {
			c.client.Header()["Www-Authenticate"] = []string{"Bearer"}
		}
		c.refuse(err)
		return false
	}
	name := from.Tenant
	c.Request.Tenant, c.OurKey, c.allowed = name, from.Key != nil, from.Allowed
	c.served.Tenant = name
	if from.Key != nil {
		c.served.Key = from.Key.ID
	}
	c.EngineID = c.p.cfg.Tenants.Apart(name, c.ID)
	c.Request.Caller = identity.CallerOf(c.p.callers, name, c.R.Header)
	return true
}

// enters checks host name, way, path and tenant. It returns false after refusing the request.
func (c *call) enters() bool {
	p, path := c.p, c.R.URL.Path
	if err := p.cfg.Names.Check(c.R); err != nil && c.Transport == nil { // who carries it has another listener
		c.refuseForeign(err)
		return false
	}
	if p.via.Passed(c.R.Header) {
		c.refuse(fault.ErrLoop)
		return false
	}
	if paths.Climbs(path) {
		c.refuse(paths.ErrBadPath)
		return false
	}
	if c.root = c.asksRoot(); preflight(c.R) { // browsers send no key with it (Fetch standard, CORS-preflight fetch)
		client.PassOver(c.client.Writer(), c.R, p.cfg.ReadBody)
		c.R = bare(c.R)
	} else if !c.root && !c.admit() {
		return false
	}
	method := c.R.Method
	if isUpgrade(c.R) && paths.Passes(http.MethodPost, path, nil) == nil {
		method = http.MethodPost // a WebSocket in the place of the request, which the engine may have
	}
	if err := paths.Passes(method, path, p.cfg.Paths); err != nil {
		c.refuse(err)
		return false
	}
	return true
}

// refuseForeign refuses a request of a page that may not use the engines. The log says so once for each name.
func (c *call) refuseForeign(err error) {
	var foreign *guard.ForeignError
	if errors.As(err, &foreign) {
		c.served.Foreign = foreign.Name[:min(len(foreign.Name), longestName)]
		if c.p.foreign.first(c.served.Foreign) {
			c.p.log.Warn("requests of a page under a name that is not known here are refused: "+err.Error(),
				"name", c.served.Foreign, "request", c.served.ID, "client", c.served.Client)
		}
	}
	c.refuse(err)
}
