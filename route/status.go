package route

import (
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// EndpointStatus is the router's knowledge of one endpoint, for display and metrics.
type EndpointStatus struct {
	Endpoint fleet.Endpoint
	Kind     fleet.Kind // declared or recognised
	Source   string
	State    fleet.State
	Detail   string    // why it is down, ejected or busy
	Until    time.Time // end of the ejected or busy state
	Draining bool
	Gone     bool    // has left; its last requests are running
	Ramp     float64 // share of its weight while it ramps up, 0 to 1
	Load     fleet.Load
	Report   fleet.Report // the latest of each figure
	Models   []fleet.Model
	Requests uint64 // requests sent to it since it was declared
	Failures uint64 // failed requests blamed on it
	Silent   bool   // ejected for silence: requests waiting there should be retried elsewhere
	// models and paths (see Service) that it gives no sign of life for, while it is well otherwise: the same holds for
	// their requests
	Mute []string
	// addresses that its name had before, which are down and where requests still wait: these should be retried
	Lost []string

	KV kvstream.Figures // from its KV events

	CacheLosses uint64  // times that its cache was lost: the process restarted or slept, or its events said so
	CacheTokens int64   // assumed capacity of its cache, from reports and observed hits; 0 before the first request
	CacheFilled float64 // share of that which is believed to hold blocks, 0 to 1
	// tokens of the conversations whose turns go on at once there, see Config.Admission; 0 unknown
	WorkingSet    int64
	WorkingRoom   int64   // tokens of its cache for them; 0 where nothing is held
	PrefillPerSec float64 // learnt prefill speed in tokens per second; 0 before the first answer

	PromptMs float64 // predicted time until the prompts that it was sent are computed
	WaitMs   float64 // predicted time until a prompt is computed that comes now, behind all that waits
	Places   int     // requests that it computes concurrently; 0 unknown
	// share of its KV cache in use by running requests, as it reports or else by this router's; -1 unknown
	KVUsage float64

	// Of decoders, learnt; both are 0 before the first transfer.
	TransferMs     float64 // time from hand-over to the first token if nothing had to be moved
	TransferPerSec float64 // prompt tokens moved per second
}

// Models lists the models and aliases, sorted by id, without the alias "*".
func (r *Router) Models() []fleet.ModelStatus { return r.pools.Models() }

// Config is the configuration with its defaults. Its aliases must not be changed.
func (r *Router) Config() Config { return *r.cfg }

// Pools are the names of all pools, those of models, of aliases, and of requests without a model. They must not be
// changed.
func (r *Router) Pools() []string { return r.pools.Names() }

// Keepers are the endpoints that keep KV cache by session, one for each URL, at most 64.
func (r *Router) Keepers() (to []fleet.Endpoint) {
	for ep := range r.registry.All() {
		if len(to) == bound.Few {
			break
		}
		if spec := ep.Spec(); ep.KeepsSessions() && ep.Current() && !ep.Gone() &&
			!slices.ContainsFunc(to, func(e fleet.Endpoint) bool { return e.URL == spec.URL }) {
			to = append(to, spec)
		}
	}
	return to
}

// Endpoints is how many endpoints are listed.
func (r *Router) Endpoints() int { return r.registry.Len() }

// Generation counts changes of endpoints, their models and kinds.
func (r *Router) Generation() uint64 { return r.registry.Generation() }

// Status returns the state of the endpoints in order of declaration. The load of one whose address has changed includes
// running requests at older addresses.
func (r *Router) Status(now time.Time) []EndpointStatus {
	s := Statuses{Of: make([]EndpointStatus, 0, r.registry.Len())}
	for r.Describe(now, &s) {
	}
	return s.Of
}

// Statuses collects what Status returns, in steps between which requests can be decided.
type Statuses struct {
	Of         []EndpointStatus
	next       int
	generation uint64 // of the registry, at the first step
}

// Describe takes one step and reports whether there are more. If endpoints have come or gone since the last step, it
// begins anew.
func (r *Router) Describe(now time.Time, s *Statuses) (more bool) {
	if g := r.registry.Generation(); g != s.generation {
		s.Of, s.next, s.generation = s.Of[:0], 0, g
	}
	end := min(s.next+bound.Step, r.registry.Len())
	for ; s.next < end; s.next++ {
		if ep := r.registry.Nth(s.next); ep.Current() {
			s.Of = append(s.Of, r.statusOf(now, ep))
		}
	}
	if s.next < r.registry.Len() {
		return true
	}
	for ep := range r.registry.All() {
		if ep.Current() {
			continue
		}
		for i := range s.Of {
			if s.Of[i].Endpoint.Name != ep.Name() {
				continue
			}
			s.Of[i].Load.Add(r.backlog.Load(ep.Slot()))
			if r.health.State(now, ep.Slot()) == fleet.StateDown {
				s.Of[i].Lost = append(s.Of[i].Lost, ep.Spec().URL)
			}
		}
	}
	return false
}

func (r *Router) statusOf(now time.Time, ep registry.Endpoint) EndpointStatus {
	s := EndpointStatus{
		Endpoint: ep.Spec(), Kind: ep.Kind(), Source: ep.Source(), State: r.health.State(now, ep.Slot()),
		Draining: ep.Draining(), Gone: ep.Gone(), Ramp: r.health.Ramp(now, ep.Slot()),
		Load: r.backlog.Load(ep.Slot()), Report: ep.Report(), Models: slices.Collect(ep.Models()),
		Requests: ep.Requests(), Failures: r.health.Failures(ep.Slot()),
		Silent: r.health.IsSilent(now, ep.Slot()), Mute: r.health.MuteFor(now, ep.Slot()),
		CacheLosses: r.cache.Losses(ep.Slot()), CacheTokens: r.cache.Capacity(ep.Slot()),
		CacheFilled: r.cache.Filled(ep.Slot()), KV: r.cache.Events.Figures(ep.Slot()),
	}
	s.Report.CacheTokens = ep.CacheTokens()
	s.WorkingSet, s.WorkingRoom = r.admission.WorkingSet(ep.Slot())
	if perToken := r.speed.OwnMsPerToken(ep.Slot()); perToken > 0 {
		s.PrefillPerSec = 1000 / perToken
	}
	if t, ok := r.speed.OwnTransfer(ep.Slot()); ok {
		s.TransferMs, s.TransferPerSec = t.FixedMs, 1000/t.MsPerToken
	}
	use, at := r.readers.use(now, ep)
	s.PromptMs, s.WaitMs, s.Places, s.KVUsage = use.PromptMs, use.WaitMs, use.Places, at.KVUsage
	if n := ep.CacheTokens(); s.KVUsage < 0 && n > 0 {
		s.KVUsage = min(1, float64(s.Load.ContextTokens)/float64(n))
	}
	s.Detail, s.Until = r.health.Why(ep.Slot(), s.State), r.health.Until(ep.Slot(), s.State)
	return s
}

// HasRequests reports whether an endpoint has requests of this router at an address, which may be one that its name had
// before; "" is the present one.
func (r *Router) HasRequests(endpoint, url string) bool {
	ep := r.registry.NamedAt(endpoint, url)
	return ep.Exists() && !r.backlog.Idle(ep.Slot())
}

// Each calls f with each declared endpoint, in order of declaration. f must not keep it.
func (r *Router) Each(f func(*fleet.Endpoint)) {
	for ep := range r.registry.All() {
		if ep.Current() && !ep.Gone() {
			spec := ep.Spec()
			f(&spec)
		}
	}
}

// EachModel calls f with the models that endpoints list, and the base of each adapter, until f returns false.
func (r *Router) EachModel(f func(kind fleet.Kind, id, parent string) bool) {
	for ep := range r.registry.All() {
		for m := range ep.Models() {
			if !ep.Gone() && !f(ep.Kind(), m.ID, m.Parent) {
				return
			}
		}
	}
}

// Ready reports whether at least one endpoint is up and takes traffic; otherwise why says what is wrong.
func (r *Router) Ready(now time.Time) (ok bool, why string) {
	var reasons []string
	for ep := range r.registry.All() {
		if ep.Gone() || !ep.Role().Takes(fleet.LegUnsplit) {
			continue
		}
		if rank := r.readers.usable(now, ep, 0); rank == health.Fit || rank == health.Strained {
			if !r.Roles() {
				return true, ""
			}
			if unseen := r.unseenPrefillers(now); unseen != "" {
				return false, unseen
			}
			return true, r.missingRole()
		}
		reasons = append(reasons, r.readers.unavailableReason(now, ep, &fleet.Request{}, fleet.LegUnsplit))
	}
	if len(reasons) == 0 {
		if lone := r.missingRole(); lone != "" {
			return false, lone
		}
		return false, "no endpoint is declared"
	}
	return false, listed(reasons)
}

// unseenPrefillers names the prefillers that were not probed yet, if requests are split and no other prefiller of the
// same model is up: the first requests would be served whole only because they came early. A prefiller with unknown
// models may serve any. "" means that there is nothing to wait for; one found down is not waited for, since requests
// are served without it.
func (r *Router) unseenPrefillers(now time.Time) string {
	if r.cfg.Disaggregation.When == fleet.WhenNever {
		return ""
	}
	var unseen []registry.Endpoint
	// models of the decoders now, and of the fit prefillers; "" is any
	served, fit := map[string]bool{}, map[string]bool{}
	for ep := range r.registry.All() {
		if ep.Gone() {
			continue
		}
		rank := r.readers.usable(now, ep, 0)
		switch prefills := ep.Role() == fleet.RolePrefill; {
		case rank == health.Fit || rank == health.Strained:
			of := served
			if prefills {
				of = fit
			}
			for _, m := range ep.ModelNames() {
				of[m] = true
			}
		case prefills && rank < health.Unfit && r.health.State(now, ep.Slot()) == fleet.StateUnknown:
			unseen = append(unseen, ep)
		}
	}
	maps.DeleteFunc(served, func(m string, _ bool) bool { return fit[m] })
	var waits []string
	for _, ep := range unseen {
		if m := ep.ModelNames(); len(served) > 0 && m[0] == "" ||
			slices.ContainsFunc(m, func(m string) bool { return served[m] }) {
			waits = append(waits, r.readers.unavailableReason(now, ep, &fleet.Request{}, fleet.LegPrefill))
		}
	}
	if len(waits) == 0 {
		return ""
	}
	return "prefillers are not known to be up yet: " + listed(waits)
}

// missingRole describes a role without peers, for a model or for the whole fleet; "" if there is none. Endpoints come
// and go, so this is not a configuration error.
func (r *Router) missingRole() string {
	var all []fleet.Endpoint
	for ep := range r.registry.All() {
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
			if ep := r.registry.Named(name); ep.Exists() && !ep.Gone() {
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
	if r.cfg.Disaggregation.When == fleet.WhenFree {
		return true
	}
	for ep := range r.registry.All() {
		if ep.Role() != fleet.RoleBoth {
			return true
		}
	}
	return false
}

// Running is a request, or a leg of one, that is placed and has not ended.
type Running struct {
	Request, Endpoint string
	Tenant, Pool      string
	Leg               fleet.Leg
	Routed            time.Time
	Sent              time.Time // zero while it waits in the router's queue
	Answers           bool      // its first byte has come
}

// Running lists what runs of a request of this router, by its X-Request-Id, bound.Few at most.
func (r *Router) Running(request string) (out []Running) {
	for res := range r.running() {
		if res.request != request || len(out) == bound.Few {
			continue
		}
		x := Running{
			Request: res.request, Endpoint: res.ep.Name(), Tenant: res.tenant, Pool: res.decision.Pool,
			Leg: res.decision.Leg, Routed: res.routed, Answers: res.prefilled,
		}
		if j := r.backlog.Job(res.index); !j.Queued {
			x.Sent = j.Sent
		}
		out = append(out, x)
	}
	return out
}
