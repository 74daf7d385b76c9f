package route

import "github.com/warmpath/warmpath/fleet"

// lonely says which role has no peers, of a model or of all endpoints there are; "" when none lacks them. Endpoints come and go, so that
// this is no fault of the configuration.
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

// Roles reports whether some endpoint says what it is there for, or none need say it. Otherwise nothing is split, and no door need look whether
// a request could be.
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
