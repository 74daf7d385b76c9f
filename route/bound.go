package route

import "github.com/warmpath/warmpath/fleet"

// SGLang's servers are started for one part of the work and reject the rest (0.5.23): a decoder takes no whole request, and a
// server without a role takes no leg. So in a pool with such decoders every request that can be split is split, whatever is
// configured, and whole requests go to endpoints of the role both.

// bound reports whether the endpoint's engine serves its role only.
func (e *endpoint) bound() bool { return e.kind() == fleet.KindSGLang }

// bound reports whether the pool's decoders take no whole requests.
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

// takes reports whether an endpoint may be given a leg of the request.
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
	case !d.req.Splits && !p.alone(): // the engine itself may reject it
		return role == fleet.RoleDecode
	default:
		return role == fleet.RoleBoth
	}
}

// peer is what is known of an endpoint for KV transfers.
func (e *endpoint) peer() fleet.Peer {
	return fleet.Peer{BootstrapPort: e.report.BootstrapPort, Ranks: e.report.Ranks, Version: e.report.Version}
}
