package route

import "github.com/warmpath/warmpath/fleet"

// SGLang's servers are started for one part of the work and refuse the rest (0.5.23): one that decodes takes no whole request, and one
// that was started for neither takes no leg. So in a pool with such decoders all requests are split that can be, whatever is configured,
// and whole requests go to endpoints of the role both.

// bound reports whether the endpoint's engine does only what its role says.
func (e *endpoint) bound() bool { return e.kind() == fleet.KindSGLang }

// bound reports whether the members that decode take no whole requests.
func (p *pool) bound() bool {
	if !p.parts {
		return false
	}
	for i := range p.members {
		if ep := p.members[i].ep; ep.spec.Role == fleet.RoleDecode && ep.bound() {
			return true
		}
	}
	return false
}

// alone reports whether some member takes whole requests.
func (p *pool) alone() bool {
	for i := range p.members {
		if ep := p.members[i].ep; ep.spec.Role == fleet.RoleBoth || ep.spec.Role == fleet.RoleDecode && !ep.bound() {
			return true
		}
	}
	return false
}

// takes reports whether an endpoint may be given what is being decided.
func (d *decision) takes(ep *endpoint, l fleet.Leg) bool {
	role, p := ep.spec.Role, d.pool
	if !p.parts || !ep.bound() {
		return role.Takes(l)
	}
	switch {
	case l == fleet.LegPrefill:
		return role == fleet.RolePrefill
	case d.decodes:
		return role == fleet.RoleDecode
	case !d.req.Splits && !p.alone(): // it may say so itself
		return role == fleet.RoleDecode
	default:
		return role == fleet.RoleBoth
	}
}

// peer is what is known of an endpoint that KV cache is handed over from or to.
func (e *endpoint) peer() fleet.Peer {
	return fleet.Peer{BootstrapPort: e.report.BootstrapPort, Ranks: e.report.Ranks, Version: e.report.Version}
}
