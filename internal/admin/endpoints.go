package admin

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

const maxDeclaration = 1 << 20 // bytes of a POST

func (a *Admin) list(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"endpoints": a.views(nil), "stats": a.viewStats(), "held": a.viewHeld(shownHeld),
	})
}

// views are the endpoints of the fleet in order of declaration for which keep is true; nil keeps all.
func (a *Admin) views(keep func(*route.EndpointStatus) bool) []endpointView {
	now, status := a.c.Now(), a.c.Fleet.Status()
	heard := a.c.Tally.endpoints(status)
	out := []endpointView{}
	for i := range status {
		if keep == nil || keep(&status[i]) {
			out = append(out, viewEndpoint(now, &status[i], heard[status[i].Endpoint.Name]))
		}
	}
	return out
}

// find looks up the endpoint of a name or URL, or the ranks or slots of the engine of that name or URL.
func (a *Admin) find(name string) []route.EndpointStatus {
	called := calledBy(name)
	return slices.DeleteFunc(a.c.Fleet.Status(), func(s route.EndpointStatus) bool { return !called(&s) })
}

// calledBy reports whether an endpoint has that name or URL, or its engine has.
func calledBy(name string) func(*route.EndpointStatus) bool {
	url := strings.TrimRight(name, "/")
	return func(s *route.EndpointStatus) bool { return s.Endpoint.Answers(name) || s.Endpoint.URL == url }
}

func notFound(name string) *failure {
	return fail(http.StatusNotFound, "unknown_endpoint",
		"there is no endpoint %q; GET /admin/endpoints lists them", name)
}

func (a *Admin) show(w http.ResponseWriter, _ *http.Request, name string) {
	writeViews(w, http.StatusOK, name, a.views(calledBy(name)))
}

// writeViews answers with the one endpoint of a name, or with the list of its ranks or slots.
func writeViews(w http.ResponseWriter, status int, name string, v []endpointView) {
	switch {
	case len(v) == 0:
		notFound(name).write(w)
	case len(v) == 1 && v[0].Name == name:
		writeJSON(w, status, v[0])
	default:
		writeJSON(w, status, map[string]any{"endpoints": v})
	}
}

func (a *Admin) add(w http.ResponseWriter, r *http.Request) {
	if a.c.Endpoints == nil || a.c.Parse == nil {
		fail(http.StatusNotImplemented, "not_configured", "endpoints cannot be added here").write(w)
		return
	}
	d, f := readDeclaration(w, r)
	if f != nil {
		f.write(w)
		return
	}
	endpoints, err := a.c.Parse(d)
	if err != nil {
		faulty(err).write(w)
		return
	}
	names, urls := map[string]bool{}, map[string]bool{}
	for i := range endpoints {
		names[endpoints[i].Name], urls[endpoints[i].URL] = true, true
	}
	for _, s := range a.c.Fleet.Status() {
		// an engine under two names would get twice its share
		if e := &s.Endpoint; (names[e.Name] || urls[e.URL]) && !s.Gone {
			fail(http.StatusConflict, "duplicate_endpoint", "endpoint %q (%s) is declared already, by %s", e.Name,
				redactURL(e.URL), cmp.Or(s.Source, "another source")).write(w)
			return
		}
	}
	switch err := a.c.Endpoints.Add(endpoints...); {
	case errors.Is(err, a.c.Duplicate):
		fail(http.StatusConflict, "duplicate_endpoint", "%v", err).write(w)
	case err != nil:
		faulty(err).write(w)
	default:
		for i := range endpoints {
			noteCall(r, "endpoint", endpoints[i].Name, "url", redactURL(endpoints[i].URL))
		}
		writeJSON(w, http.StatusCreated, map[string]any{"endpoints": a.added(endpoints, names)})
	}
}

// added shows new endpoints as the fleet knows them; one not yet in the fleet is shown as declared.
func (a *Admin) added(endpoints []fleet.Endpoint, names map[string]bool) []endpointView {
	out := a.views(func(s *route.EndpointStatus) bool { return names[s.Endpoint.Name] })
	for i := range out {
		delete(names, out[i].Name)
	}
	for i := range endpoints {
		if e := endpoints[i]; names[e.Name] {
			s := route.EndpointStatus{Endpoint: e, Kind: e.Kind, Source: a.c.Source, State: fleet.StateUnknown}
			v := viewEndpoint(a.c.Now(), &s, nil)
			v.Models = append(v.Models, e.Models...)
			out = append(out, v)
		}
	}
	return out
}

func (a *Admin) remove(w http.ResponseWriter, r *http.Request, name string) {
	outstanding, names := 0, []string(nil)
	for _, s := range a.find(name) {
		if s.Source != a.c.Source {
			fail(http.StatusConflict, "declared_elsewhere",
				"endpoint %q is declared by the source %q and can only be removed there; drain it to stop its traffic",
				name, s.Source).write(w)
			return
		}
		outstanding += s.Load.Requests
		declared := name // ranks and slots are withdrawn by their engine's name
		if !s.Endpoint.Answers(name) {
			declared = s.Endpoint.Name // it was called by its URL
		}
		if !slices.Contains(names, declared) {
			names = append(names, declared)
		}
	}
	if names == nil {
		names = []string{name}
	}
	if a.c.Endpoints == nil {
		notFound(name).write(w)
		return
	}
	var err error
	for _, n := range names {
		err = cmp.Or(err, a.c.Endpoints.Remove(n))
	}
	switch {
	case errors.Is(err, a.c.NotDeclared):
		notFound(name).write(w)
	case err != nil:
		fail(http.StatusInternalServerError, "not_removed", "%v", err).write(w)
	default:
		noteCall(r, "endpoint", name)
		writeJSON(w, http.StatusOK, map[string]any{"name": name, "removed": true, "outstanding_requests": outstanding})
	}
}

func (a *Admin) models(w http.ResponseWriter, _ *http.Request) {
	models := a.c.Fleet.Models()
	out := make([]modelView, 0, len(models))
	pools := map[string]*full{}
	if a.c.Pools != nil {
		for _, p := range a.c.Pools() {
			pools[p.ID] = viewFull(&p)
		}
	}
	for i := range models {
		v := viewModel(&models[i])
		v.Full = pools[v.ID]
		for j := range a.c.ModelSettings {
			if s := &a.c.ModelSettings[j]; s.Models.Has(v.ID) {
				v.Settings = s.Text
				break
			}
		}
		out = append(out, v)
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": out})
}

func (a *Admin) stats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, a.viewStats())
}

// history answers with the last hour, a point for each ten seconds.
func (a *Admin) history(w http.ResponseWriter, _ *http.Request) {
	past := a.c.Tally.since(a.c.Now(), 0)
	if past == nil {
		past = []point{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"seconds": pointSeconds, "points": past})
}

func (a *Admin) viewStats() statsView {
	s := a.c.Fleet.Stats()
	ready, why := a.c.Fleet.Ready()
	var running *Running
	if a.c.Running != nil {
		now := a.c.Running()
		running = &now
	}
	var concerns []Concern
	if a.c.Concerns != nil {
		concerns = a.c.Concerns()
	}
	v := statsView{
		concerns: concerns,
		Config:   running, Ready: ready, Why: why, Version: a.c.Version,
		UptimeSeconds: a.c.Now().Sub(a.c.Started).Seconds(), Decisions: s.Decisions, Leases: s.Leases,
		DoubleFinished: s.DoubleFinished, Sessions: s.Sessions, SessionHits: s.SessionHits,
		SessionMisses: s.SessionMisses, SessionEvictions: s.SessionEvictions, Held: s.Held, HeldTokens: s.HeldTokens,
		Responses: s.Responses, Served: a.c.Tally.total(), Aliases: a.aliases(), Unserved: a.unserved(),
		Idle: a.unmatched(),
	}
	a.c.Tally.lately(a.c.Now(), &v)
	return v
}

// aliases are those of several models, with what became of the requests for each.
func (a *Admin) aliases() []aliasView {
	if len(a.c.Aliases) == 0 {
		return nil
	}
	return a.c.Tally.aliases(a.c.Fleet.Models())
}

// unserved lists the aliases of models that no engine serves, sorted.
func (a *Admin) unserved() (out []string) {
	if len(a.c.Aliases) == 0 {
		return nil
	}
	served := map[string]bool{"*": true} // stands for every name, and is listed nowhere
	for _, m := range a.c.Fleet.Models() {
		served[m.ID] = true
	}
	for _, name := range slices.Sorted(maps.Keys(a.c.Aliases)) {
		if !served[name] {
			out = append(out, name+" = "+strings.Join(a.c.Aliases[name], ", "))
		}
	}
	return out
}

// unmatched lists the patterns of settings that match no model which is served.
func (a *Admin) unmatched() (out []string) {
	if len(a.c.ModelSettings) == 0 {
		return nil
	}
	models := a.c.Fleet.Models()
	for i := range a.c.ModelSettings {
		for _, pattern := range a.c.ModelSettings[i].Models {
			has := func(m fleet.ModelStatus) bool { return fleet.Names{pattern}.Has(m.ID) }
			if pattern != "*" && !slices.ContainsFunc(models, has) {
				out = append(out, pattern)
			}
		}
	}
	return out
}

func (a *Admin) settings(w http.ResponseWriter, _ *http.Request) {
	if a.c.Settings == nil {
		fail(http.StatusNotFound, "not_configured", "no configuration to show").write(w)
		return
	}
	writeJSON(w, http.StatusOK, a.c.Settings())
}

// reload reloads the configuration. Faults are the caller's answer, and the running configuration stays.
func (a *Admin) reload(w http.ResponseWriter, r *http.Request) {
	if a.c.Reload == nil {
		fail(http.StatusNotImplemented, "not_configured", "this router cannot read its configuration again").write(w)
		return
	}
	now, err := a.c.Reload()
	if err != nil {
		f := faulty(err)
		f.code = "bad_config"
		f.write(w)
		return
	}
	writeJSON(w, http.StatusOK, now)
}

// faulty turns an error, or several joined ones, into a 400 that lists them.
func faulty(err error) *failure {
	lines := strings.Split(err.Error(), "\n")
	f := fail(http.StatusBadRequest, "bad_endpoint", "%s", strings.Join(lines, "; "))
	f.faults = lines
	return f
}
