package route

import "github.com/warmpath/warmpath/fleet"

// lonely describes a role without peers, for a model or for the whole fleet; "" if there is none. Endpoints come and go, so
// this is not a configuration error.
func (r *Router) lonely() string {
	var all []fleet.Endpoint
	for _, ep := range r.endpoints {
		if !ep.gone {
			all = append(all, ep.spec)
		}
	}
	if err := fleet.CheckRoles(all); err != nil {
		return err.Error()
	}
	for _, m := range r.Models() {
		var serve []fleet.Endpoint
		for _, name := range m.Endpoints {
			if ep := r.byName[name]; ep != nil && !ep.gone {
				serve = append(serve, ep.spec)
			}
		}
		if err := fleet.CheckRoles(serve); err != nil {
			return "model " + m.ID + ": " + err.Error()
		}
	}
	return ""
}

// Roles reports whether some endpoint has a role, or roles are not needed. Otherwise nothing is split, and frontends need not
// check whether a request could be.
func (r *Router) Roles() bool {
	if r.cfg.Disaggregation.When == WhenFree {
		return true
	}
	for _, ep := range r.endpoints {
		if ep.spec.Role != fleet.RoleBoth {
			return true
		}
	}
	return false
}
