package route

import (
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/session"
)

// Observe applies an event and returns its log entry.
func (r *Router) Observe(now time.Time, ev Event) Entry {
	e := Entry{Now: now, Event: ev}
	r.arrivals.Age(now)
	r.forgetRestored(now)
	r.replicas.news = r.replicas.news[:0]
	switch ev := ev.(type) {
	case Declared:
		e.Changes, e.Gone = r.declare(now, &ev)
	case Probed:
		if ep := r.endpoints.Named(ev.Endpoint); ep.Exists() {
			r.probe(now, ep, &ev.Report)
			e.Changes = r.changes(now, ep, e.Changes)
			r.describeShort(now, ep)
		}
	case Drain:
		if ep := r.endpoints.Named(ev.Endpoint); ep.Exists() && ep.Draining() == ev.Off {
			r.registry.Drain(ep, !ev.Off)
			r.describeShort(now, ep)
			detail := "draining: no new traffic"
			if ev.Off {
				detail = "takes traffic again"
			}
			state := r.health.Reader().Reported(ep.Slot())
			e.Changes = append(e.Changes, Change{Endpoint: ev.Endpoint, From: state, To: state, Detail: detail})
		}
	case FirstByte:
		r.firstByte(now, ev.Lease)
	case ResponseStarted:
		if f := r.reservation(ev.Lease); f != nil {
			r.respond(now, ev.Response, f)
			r.tellNews(News{Kind: NewsResponse, Lease: ev.Lease, Response: conversation.ResponseKey(f.tenant, ev.Response)})
		}
	case Transferring:
		if r.reservation(ev.Lease) != nil {
			r.backlog.Transferring(now, uint32(ev.Lease), r.speed.Reader())
			r.tellNews(News{Kind: NewsTransferring, Lease: ev.Lease})
		}
	case StreamsAlive:
		e.Changes = r.streamsAlive(now, &ev, e.Changes)
	case Finished:
		if admission.IsHold(ev.Lease) {
			if !r.admission.EndHold(ev.Lease) {
				r.doubleFinished++
			}
			break
		}
		var ep registry.Endpoint
		if f := r.reservation(ev.Lease); f != nil {
			ep = f.ep
		}
		if e.Ended = r.finish(now, &ev); ep.Exists() && ep.Current() {
			e.Changes = r.changes(now, ep, e.Changes)
		}
	case KVApplied:
		if ep := r.endpoints.Named(ev.Endpoint); ep.Exists() {
			r.kvApply(now, ep, &ev)
		}
	case KVStreamState:
		if ep := r.endpoints.Named(ev.Endpoint); ep.Exists() {
			e.Changes = r.kvStreamState(ep, &ev, e.Changes)
		}
	case KVTick:
		e.Changes = r.kvTick(now, e.Changes)
	case KVTokens:
		r.kvTokens(&ev)
	case Configured:
		r.configure(ev.Config, ev.Policies)
	case Closed:
		for _, name := range ev.Pools {
			for _, scope := range [...]string{name, pool.PrefillNamespace(name)} {
				key := session.KeyOf(ev.Tenant, scope, ev.Session)
				r.admission.ConversationEnded(key)
				if r.conversations.ForgetKey(key) { // of the many that never were, nobody is told
					e.Closed = true
					r.tellNews(News{Kind: NewsClosed, Conversation: key})
				}
			}
		}
	case PeerNews:
		r.peerNews(now, &ev)
	case PeerGone:
		r.peerGone(now, &ev)
	case FleetClock:
		r.replicas.self, r.replicas.clockOffset = ev.Self, ev.Offset
		r.backlog.SetClock(ev.Offset)
	case Tick:
	}
	r.pools.Refresh()
	r.registry.Settle()
	e.Dispatched = r.dispatch(now)
	e.More = len(e.Dispatched) >= bound.Step
	e.News = r.replicas.news
	return e
}

// dispatch sends the queued requests that are due and returns their leases.
func (r *Router) dispatch(now time.Time) []fleet.Lease {
	r.dispatchedLeases = r.dispatchedLeases[:0]
	r.dispatched = r.backlog.Dispatch(now, r.speed.Reader(), r.dispatched[:0])
	for _, s := range r.dispatched {
		if ep := r.endpoints.At(s.Slot); s.Ms > 0 {
			r.arrivals.Spend(now, ep.Slot(), s.Ms)
		}
		lease := r.reservations[s.N].decision.Lease
		r.dispatchedLeases = append(r.dispatchedLeases, lease)
		r.tellNews(News{Kind: NewsSent, Lease: lease})
	}
	r.admitHeld(now)
	return r.dispatchedLeases
}

// changes appends an endpoint's changes of state, each once.
func (r *Router) changes(now time.Time, ep registry.Endpoint, to []Change) []Change {
	r.health.Changes(now, ep.Slot(), func(c health.Change) {
		to = append(to, Change{Endpoint: ep.Name(), From: c.From, To: c.To, Detail: c.Detail})
	})
	return to
}

// Config is the configuration with its defaults. Its aliases must not be changed.
func (r *Router) Config() Config { return *r.cfg }

// Pools are the names of all pools, those of models, of aliases, and of requests without a model. They must not be
// changed.
func (r *Router) Pools() []string { return r.pools.Names() }

// Keepers appends the endpoints that keep KV cache by session, one for each URL, at most 64.
func (r *Router) Keepers(to []fleet.Endpoint) []fleet.Endpoint {
	for ep := range r.endpoints.All() {
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
func (r *Router) Endpoints() int { return r.endpoints.Len() }

// Status returns the state of the endpoints in order of declaration. The load of one whose address has changed includes
// running requests at older addresses.
func (r *Router) Status(now time.Time) []EndpointStatus {
	s := Statuses{Of: make([]EndpointStatus, 0, r.endpoints.Len())}
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
	if g := r.endpoints.Generation(); g != s.generation {
		s.Of, s.next, s.generation = s.Of[:0], 0, g
	}
	end := min(s.next+bound.Step, r.endpoints.Len())
	for ; s.next < end; s.next++ {
		if ep := r.endpoints.Nth(s.next); ep.Current() {
			s.Of = append(s.Of, r.statusOf(now, ep))
		}
	}
	if s.next < r.endpoints.Len() {
		return true
	}
	for ep := range r.endpoints.All() {
		if ep.Current() {
			continue
		}
		for i := range s.Of {
			if s.Of[i].Endpoint.Name == ep.Name() {
				s.Of[i].Load.Add(r.backlog.Reader().Load(ep.Slot()))
			}
		}
	}
	return false
}

func (r *Router) statusOf(now time.Time, ep registry.Endpoint) EndpointStatus {
	caches, judged := r.cache.Reader(), r.health.Reader()
	s := EndpointStatus{
		Endpoint: ep.Spec(), Kind: ep.Kind(), Source: ep.Source(), State: judged.State(now, ep.Slot()),
		Draining: ep.Draining(), Gone: ep.Gone(), Ramp: judged.Ramp(now, ep.Slot()), Load: r.backlog.Reader().Load(ep.Slot()), Report: ep.Report(),
		Models: ep.Models(), Requests: ep.Requests(), Failures: judged.Failures(ep.Slot()), Silent: judged.IsSilent(now, ep.Slot()), CacheLosses: caches.Losses(ep.Slot()), KV: caches.Figures(ep.Slot()),
		CacheTokens: caches.Capacity(ep.Slot()),
		CacheFilled: caches.Filled(ep.Slot()),
	}
	s.WorkingSet, s.WorkingRoom = r.readers.admission.WorkingSet(ep.Slot())
	if perToken := r.speed.Reader().Learnt(ep.Slot()); perToken > 0 {
		s.PrefillPerSec = 1000 / perToken
	}
	if t, ok := r.speed.Reader().LearntTransfer(ep.Slot()); ok {
		s.TransferMs, s.TransferPerSec = t.FixedMs, 1000/t.MsPerToken
	}
	at := pick.Endpoint{Slot: ep.Slot()}
	r.readers.reported(now, ep, &at)
	use := r.backlog.Reader().Use(now, &at, r.speed.Reader())
	s.PromptMs, s.WaitMs, s.Places, s.KVUsage = use.PromptMs, use.WaitMs, use.Places, at.KVUsage
	if n := ep.CacheTokens(); s.KVUsage < 0 && n > 0 {
		s.KVUsage = min(1, float64(s.Load.ContextTokens)/float64(n))
	}
	s.Detail, s.Until = judged.Why(ep.Slot(), s.State), judged.Until(ep.Slot(), s.State)
	return s
}

// Busy reports whether an endpoint has requests of this router.
func (r *Router) Busy(endpoint string) bool {
	ep := r.endpoints.Named(endpoint)
	return ep.Exists() && !r.backlog.Reader().Idle(ep.Slot())
}

// Each calls f with each declared endpoint, in order of declaration. f must not keep it.
func (r *Router) Each(f func(*fleet.Endpoint)) {
	for ep := range r.endpoints.All() {
		if ep.Current() && !ep.Gone() {
			spec := ep.Spec()
			f(&spec)
		}
	}
}

// Ready reports whether at least one endpoint is up and takes traffic; otherwise why says what is wrong.
func (r *Router) Ready(now time.Time) (ok bool, why string) {
	var excuses []string
	for ep := range r.endpoints.All() {
		if ep.Gone() || !ep.Role().Takes(fleet.LegUnsplit) {
			continue
		}
		if rank := r.readers.usable(now, ep, 0, false); rank == health.Fit || rank == health.Strained {
			if !r.Roles() {
				return true, ""
			}
			if unseen := r.unseenPrefillers(now); unseen != "" {
				return false, unseen
			}
			return true, r.missingRole()
		}
		excuses = append(excuses, r.readers.unavailableReason(now, ep, &fleet.Request{}, fleet.LegUnsplit))
	}
	if len(excuses) == 0 {
		if lone := r.missingRole(); lone != "" {
			return false, lone
		}
		return false, "no endpoint is declared"
	}
	return false, listed(excuses)
}

// unseenPrefillers names the prefillers that were not probed yet, if requests are split and no other prefiller of the
// same model is up: the first requests would be served whole only because they came early. A prefiller with unknown
// models may serve any. "" means that there is nothing to wait for; one found down is not waited for, since requests
// are served without it.
func (r *Router) unseenPrefillers(now time.Time) string {
	if r.cfg.Disaggregation.When == WhenNever {
		return ""
	}
	var unseen []registry.Endpoint
	// models of the decoders now, and of the fit prefillers; "" is any
	served, fit := map[string]bool{}, map[string]bool{}
	for ep := range r.endpoints.All() {
		if ep.Gone() {
			continue
		}
		rank := r.readers.usable(now, ep, 0, false)
		switch prefills := ep.Role() == fleet.RolePrefill; {
		case rank == health.Fit || rank == health.Strained:
			of := served
			if prefills {
				of = fit
			}
			for _, m := range ep.ModelNames() {
				of[m] = true
			}
		case prefills && rank < health.Unfit && r.health.Reader().State(now, ep.Slot()) == fleet.StateUnknown:
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
