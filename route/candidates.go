package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// candidates fills r.view.Candidates and r.members with the endpoints that may take the request, best class of health
// only. holder is the index of the endpoint that holds the response the request refers to, -1 for none.
func (r *Router) candidates(now time.Time, p *pool, req *fleet.Request, tokens int, t talk) (holder int, err error) {
	r.members = r.members[:0]
	r.view.Candidates = r.view.Candidates[:0]
	if name, ok := r.holderOf(now, req); ok {
		if done, err := r.onlyHolder(now, p, req, name); done {
			return 0, err
		}
	}
	if req.Pin != "" {
		return -1, r.onlyPinned(now, p, req)
	}
	r.gather(now, p, req)
	if len(r.members) == 0 {
		return -1, r.noEndpoint(now, p, req)
	}
	if len(req.Kinds) > 0 {
		r.keep(func(i int) bool { return slices.Contains(req.Kinds, r.members[i].ep.kind()) })
	}
	r.keepRoomy(tokens + req.MaxTokens) // engines refuse what would not fit with the longest answer that is asked for
	r.keepModel(t)
	r.keepLoaded(now)
	return -1, nil
}

func (r *Router) add(now time.Time, m *member) {
	ep := m.ep
	load, usage, queue := ep.books(), -1.0, -1
	if l := ep.report.Load; l != nil && now.Sub(ep.loadAt) < r.cfg.StaleAfter {
		load.Waiting = max(0, l.Waiting)
		usage = max(-1, l.KVUsage)
		if l.Running >= 0 && l.Waiting >= 0 {
			queue = l.Running + l.Waiting
		}
	}
	r.members = append(r.members, m)
	ramp := ep.ramp(now, r.cfg.Ramp)
	r.view.Candidates = append(r.view.Candidates, pick.Candidate{
		Name: ep.spec.Name, Key: ep.key, Slot: ep.slot, Weight: ep.spec.Weight * ramp, Ramp: ramp, Load: load, Model: m.model, Epoch: ep.epoch,
		MsPerAnswer: ep.speed.perAnswer, CacheTokens: ep.report.CacheTokens, Slots: ep.places(), KVUsage: usage,
		Queue: queue, BlockTokens: ep.report.BlockTokens,
	})
}

// keep drops the candidates for which ok is false, unless that would leave none.
func (r *Router) keep(ok func(i int) bool) {
	n := 0
	for i := range r.members {
		if ok(i) {
			n++
		}
	}
	if n == 0 || n == len(r.members) {
		return
	}
	n = 0
	for i := range r.members {
		if ok(i) {
			r.members[n], r.view.Candidates[n] = r.members[i], r.view.Candidates[i]
			n++
		}
	}
	r.members, r.view.Candidates = r.members[:n], r.view.Candidates[:n]
}

// usable ranks an endpoint's readiness for new traffic; 0 is best, unusable is never. Endpoints of a worse rank are used only when
// no better one is left: one not probed yet may be up, an ejected one may have recovered, a busy one may have room again;
// trying is better than refusing.
func (e *endpoint) usable(now time.Time) int {
	if e.gone || e.draining || e.spec.Weight <= 0 {
		return unusable
	}
	switch e.state(now) {
	case fleet.StateUp:
		if e.trial && e.trials > 0 {
			return 2
		}
		return 0
	case fleet.StateUnknown:
		return 1
	case fleet.StateBusy:
		return 2
	case fleet.StateEjected:
		return outcast
	default:
		return unusable
	}
}

// The ranks with a name.
const (
	outcast  = 3
	unusable = 100
)

// gather takes the members of the best rank that has any. Those that only failed requests have ejected are as good as others when
// too few others are left.
func (r *Router) gather(now time.Time, p *pool, req *fleet.Request) {
	if all, ejected, judged := r.gatherBy(now, p, req, false); r.panics(all, ejected, judged) {
		r.panicked++
		r.members, r.view.Candidates = r.members[:0], r.view.Candidates[:0]
		r.gatherBy(now, p, req, true)
	}
}

// gatherBy does so, with or without regard to failed requests. It counts the members that could do the work and are not down, those of them
// that are ejected, and those of these that failed requests alone have ejected.
func (r *Router) gatherBy(now time.Time, p *pool, req *fleet.Request, regardless bool) (all, ejected, judged int) {
	best := unusable
	for i := range p.members {
		m := &p.members[i]
		rank := m.ep.usable(now)
		if rank >= unusable || !r.takes(p, m.ep, req) {
			continue
		}
		all++
		if rank == outcast {
			ejected++
			if m.ep.judged(now) {
				judged++
				if regardless {
					rank = 0
				}
			}
		}
		if rank < 2 && m.ep.refusals.stops(now, req.Caller) {
			rank = 2
		}
		if rank > best || slices.Contains(tried(req, r.leg), m.ep.spec.Name) || slices.Contains(req.Exclude, m.ep.spec.Name) {
			continue
		}
		if rank < best {
			best = rank
			r.members, r.view.Candidates = r.members[:0], r.view.Candidates[:0]
		}
		r.add(now, m)
	}
	return all, ejected, judged
}

func (r *Router) holderOf(now time.Time, req *fleet.Request) (string, bool) {
	if req.Follows == "" {
		return "", false
	}
	e, ok := r.responses.Get(now, req.Tenant, "", req.Follows)
	return e.Endpoint, ok
}

// onlyHolder narrows the choice to the endpoint that holds a response, in whatever state short of down: no other can
// answer for it. It is not done when a new turn refers to a holder that left: another engine may know what to do.
func (r *Router) onlyHolder(now time.Time, p *pool, req *fleet.Request, name string) (done bool, err error) {
	for i := range p.members {
		m := &p.members[i]
		if m.ep.spec.Name != name {
			continue
		}
		if s := m.ep.state(now); s == fleet.StateDown || slices.Contains(req.Tried, name) {
			break
		}
		r.add(now, m)
		return true, nil
	}
	if req.Class == fleet.Turn {
		return false, nil
	}
	return true, &NoEndpointError{Pool: p.name, Why: fmt.Sprintf("%s holds the response and is not there", name), RetryAfter: time.Second}
}

func (r *Router) onlyPinned(now time.Time, p *pool, req *fleet.Request) error {
	ep := r.byName[req.Pin]
	if ep == nil || ep.gone {
		return &PinError{req.Pin, "there is no such endpoint"}
	}
	for i := range p.members {
		m := &p.members[i]
		if m.ep != ep {
			continue
		}
		if s := ep.state(now); s == fleet.StateDown || slices.Contains(req.Tried, req.Pin) {
			return &NoEndpointError{Pool: p.name, Why: fmt.Sprintf("%s is %s and the request is pinned to it", req.Pin, s), RetryAfter: time.Second}
		}
		r.add(now, m)
		// A pin is an operator's tool: it reaches endpoints of weight 0 and draining ones too.
		if w := &r.view.Candidates[0].Weight; *w <= 0 {
			*w = 1
		}
		return nil
	}
	return &PinError{req.Pin, fmt.Sprintf("it does not serve the model %q", req.Model)}
}

// keepRoomy drops endpoints whose context the prompt exceeds. If none has room, the roomiest may say so themselves: the
// router only estimates.
func (r *Router) keepRoomy(tokens int) {
	longest, tight := 0, false
	for _, m := range r.members {
		longest = max(longest, m.context)
		tight = tight || m.context > 0 && m.context <= tokens
	}
	if !tight {
		return
	}
	need := min(tokens+1, longest)
	r.keep(func(i int) bool { c := r.members[i].context; return c == 0 || c >= need })
}

// keepModel holds a conversation to the model that its alias was resolved to.
func (r *Router) keepModel(t talk) {
	if !t.known || t.entry.Model == "" {
		return
	}
	r.keep(func(i int) bool { return r.view.Candidates[i].Model == t.entry.Model })
}

// keepLoaded prefers, for a LoRA adapter, endpoints whose engine lists it over those only said to serve it, and endpoints
// that have it resident over those that would load it first, as long as the least loaded of the former has no more than
// twice the work of the least loaded of the latter plus 4,096 tokens, about half a second of prefill.
func (r *Router) keepLoaded(now time.Time) {
	adapter := false
	for _, m := range r.members {
		adapter = adapter || m.adapter
	}
	if !adapter {
		return
	}
	r.keep(func(i int) bool { return !r.members[i].stated })
	resident := func(i int) bool {
		m := r.members[i]
		l := m.ep.report.Load
		return !m.adapter || l != nil && now.Sub(m.ep.loadAt) < r.cfg.StaleAfter && slices.Contains(l.Adapters, m.model)
	}
	least := [2]int64{-1, -1} // work of the least loaded endpoint without and with the adapter
	for i := range r.members {
		side := 0
		if resident(i) {
			side = 1
		}
		if w := r.members[i].ep.load.Work(); least[side] < 0 || w < least[side] {
			least[side] = w
		}
	}
	if least[0] >= 0 && least[1] >= 0 && least[1] <= 2*least[0]+4096 {
		r.keep(resident)
	}
}

// noEndpoint says why nobody can take the request.
func (r *Router) noEndpoint(now time.Time, p *pool, req *fleet.Request) error {
	e := &NoEndpointError{Pool: p.name, RetryAfter: time.Second}
	if len(p.members) == 0 {
		e.Why = "none is declared"
		return e
	}
	const most = 5
	var why []string
	for i := range p.members {
		if ep := p.members[i].ep; r.takes(p, ep, req) {
			why = append(why, ep.excuse(now, req, r.leg))
		}
	}
	if len(why) == 0 {
		e.Why = "all of its endpoints only compute prompts (role prefill)"
		if r.leg == fleet.LegPrefill {
			e.Why = "none of its endpoints computes prompts for others (role prefill or both)"
		} else if p.bound() {
			e.Why = "none of its endpoints serves whole requests (SGLang's decode servers do not, role both would)"
		}
		return e
	}
	if n := len(why); n > most {
		why = append(why[:most], fmt.Sprintf("and %d more", n-most))
	}
	e.Why = listed(why)
	return e
}

func (e *endpoint) excuse(now time.Time, req *fleet.Request, l fleet.Leg) string {
	name := e.spec.Name
	switch s := e.state(now); {
	case slices.Contains(tried(req, l), name):
		return name + " was tried and failed (" + e.cause + ")"
	case slices.Contains(req.Exclude, name):
		return name + " is excluded by the request"
	case e.draining:
		return name + " is draining"
	case e.spec.Weight <= 0:
		return name + " has weight 0"
	case s == fleet.StateDown && e.report.Detail != "":
		return name + " is down (" + e.report.Detail + ")"
	default:
		return name + " is " + string(s)
	}
}
