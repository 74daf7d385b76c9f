package route

import "github.com/warmpath/warmpath/fleet"

// missingRole describes a role without peers, for a model or for the whole fleet; "" if there is none. Endpoints come
// and go, so this is not a configuration error.
func (r *Router) missingRole() string {
	var all []fleet.Endpoint
	for ep := range r.endpoints.All() {
		if !ep.Gone() {
			all = append(all, ep.Spec())
		}
	}
	if err := fleet.CheckRoles(all); err != nil {
		return err.Error()
	}
	for _, m := range r.Models() {
		var serve []fleet.Endpoint
		for _, name := range m.Endpoints {
			if ep := r.endpoints.Named(name); ep.Exists() && !ep.Gone() {
				serve = append(serve, ep.Spec())
			}
		}
		if err := fleet.CheckRoles(serve); err != nil {
			return "model " + m.ID + ": " + err.Error()
		}
	}
	return ""
}

// Roles reports whether some endpoint has a role, or roles are not needed. Otherwise nothing is split, and frontends
// need not check whether a request could be.
func (r *Router) Roles() bool {
	if r.cfg.Disaggregation.When == WhenFree {
		return true
	}
	for ep := range r.endpoints.All() {
		if ep.Role() != fleet.RoleBoth {
			return true
		}
	}
	return false
}
