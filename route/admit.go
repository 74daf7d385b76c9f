package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
)

// admit makes a row of each endpoint that may take the leg, of the best class of health only. Where there is no choice, because the
// request is pinned or refers to a response that one endpoint holds, it makes one row and sets Forced.
func (r *Router) admit(d *decision, v *pick.View, t *conversation.Found) error {
	if name, ok := r.conversations.Reader().Holder(d.now, d.req.Tenant, d.req.Follows); ok {
		m, err := r.holder(d, name)
		if err != nil {
			return err
		}
		if m != nil {
			r.addRow(d, v, m)
			v.Forced = pick.ReasonHolder
			return nil
		}
	}
	if d.req.Pin != "" {
		m, err := r.pinned(d)
		if err != nil {
			return err
		}
		r.addRow(d, v, m)
		v.Forced = pick.ReasonPinned
		if w := &v.Candidates[0].Weight; *w <= 0 { // a pin is an operator's tool: it reaches endpoints of weight 0 and draining ones too
			*w = 1
		}
		return nil
	}
	r.bestMembers(d, v.Leg)
	if len(d.members) == 0 {
		return r.noEndpoint(d, v.Leg)
	}
	if len(d.req.Kinds) > 0 {
		d.keep(func(m *member) bool { return slices.Contains(d.req.Kinds, m.ep.kind()) })
	}
	d.keepRoomy(d.size.Tokens + d.req.MaxTokens) // engines refuse what would not fit with the longest answer that is asked for
	if t.Known && t.Entry.Model != "" {          // a conversation stays with the model that its alias was resolved to
		d.keep(func(m *member) bool { return m.model == t.Entry.Model })
	}
	r.keepLoaded(d)
	for _, m := range d.members {
		r.addRow(d, v, m)
	}
	return nil
}

// addRow makes an endpoint's row.
func (r *Router) addRow(d *decision, v *pick.View, m *member) {
	ep := m.ep
	load, usage, queue := r.backlog.Reader().Load(ep.slot), -1.0, -1
	if l := ep.report.Load; l != nil && d.now.Sub(ep.loadAt) < r.cfg.StaleAfter {
		load.Waiting = max(0, l.Waiting)
		usage = max(-1, l.KVUsage)
		if l.Running >= 0 && l.Waiting >= 0 {
			queue = l.Running + l.Waiting
		}
	}
	ramp := r.health.Reader().Ramp(d.now, ep.id())
	v.Candidates = append(v.Candidates, pick.Candidate{}) // filled in where it is: rows are long
	c := &v.Candidates[len(v.Candidates)-1]
	c.Name, c.Key, c.Slot, c.Epoch = ep.spec.Name, ep.key, ep.slot, r.cache.Reader().Epoch(ep.slot)
	c.Weight, c.Ramp = ep.spec.Weight*ramp, ramp
	c.Kind, c.Model, c.Adapter = ep.kind(), m.model, m.adapter
	c.Load, c.Queue, c.KVUsage = load, queue, usage
	c.CacheTokens, c.BlockTokens, c.Slots = ep.report.CacheTokens, ep.report.BlockTokens, ep.places()
}

// keep drops the members for which ok is false, unless that would leave none.
func (d *decision) keep(ok func(m *member) bool) {
	n := 0
	for _, m := range d.members {
		if ok(m) {
			n++
		}
	}
	if n == 0 || n == len(d.members) {
		return
	}
	n = 0
	for _, m := range d.members {
		if ok(m) {
			d.members[n] = m
			n++
		}
	}
	d.members = d.members[:n]
}

// usable ranks an endpoint's readiness for new traffic.
func (r *Router) usable(now time.Time, e *endpoint, caller uint64, regardless bool) health.Rank {
	if e.gone || e.draining || e.spec.Weight <= 0 {
		return health.Unfit
	}
	return r.health.Reader().Rank(now, e.id(), caller, regardless)
}

// bestMembers takes the members of the best rank that has any. Those that only failed requests have ejected are as good as others when
// too few others are left.
func (r *Router) bestMembers(d *decision, l fleet.Leg) {
	if all, ejected, judged := r.ranked(d, l, false); r.health.Reader().Panics(all, ejected, judged) {
		d.panicked++
		r.ranked(d, l, true)
	}
}

// ranked does so, with or without regard to failed requests. It counts the members that could do the work and are not down, those of them
// that are ejected, and those of these that failed requests alone have ejected.
func (r *Router) ranked(d *decision, l fleet.Leg, regardless bool) (all, ejected, judged int) {
	d.members = d.members[:0]
	best := health.Unfit
	for i := range d.pool.members {
		m := &d.pool.members[i]
		rank := r.usable(d.now, m.ep, d.req.Caller, regardless)
		if rank >= health.Unfit || !d.takes(m.ep, l) {
			continue
		}
		all++
		if rank == health.Ejected {
			ejected++
			if r.health.Reader().Judged(d.now, m.ep.id()) {
				judged++
			}
		}
		if rank > best || slices.Contains(tried(d.req, l), m.ep.spec.Name) || slices.Contains(d.req.Exclude, m.ep.spec.Name) {
			continue
		}
		if rank < best {
			best = rank
			d.members = d.members[:0]
		}
		d.members = append(d.members, m)
	}
	return all, ejected, judged
}

// holder is the endpoint that holds a response, in whatever state short of down: no other can answer for it. It is nil when a new turn
// refers to a holder that left: another engine may know what to do.
func (r *Router) holder(d *decision, name string) (*member, error) {
	for i := range d.pool.members {
		m := &d.pool.members[i]
		if m.ep.spec.Name != name {
			continue
		}
		if s := r.health.Reader().State(d.now, m.ep.id()); s == fleet.StateDown || slices.Contains(d.req.Tried, name) {
			break
		}
		return m, nil
	}
	if d.req.Class == fleet.Turn {
		return nil, nil
	}
	return nil, &NoEndpointError{Pool: d.pool.name, Why: fmt.Sprintf("%s holds the response and is not there", name), RetryAfter: time.Second}
}

// pinned is the endpoint that the request names.
func (r *Router) pinned(d *decision) (*member, error) {
	req := d.req
	ep := r.byName[req.Pin]
	if ep == nil || ep.gone {
		return nil, &PinError{req.Pin, "there is no such endpoint"}
	}
	for i := range d.pool.members {
		m := &d.pool.members[i]
		if m.ep != ep {
			continue
		}
		if s := r.health.Reader().State(d.now, ep.id()); s == fleet.StateDown || slices.Contains(req.Tried, req.Pin) {
			return nil, &NoEndpointError{Pool: d.pool.name, Why: fmt.Sprintf("%s is %s and the request is pinned to it", req.Pin, s), RetryAfter: time.Second}
		}
		return m, nil
	}
	return nil, &PinError{req.Pin, fmt.Sprintf("it does not serve the model %q", req.Model)}
}

// keepRoomy drops endpoints whose context the prompt exceeds. If none has room, the roomiest may say so themselves: the
// router only estimates.
func (d *decision) keepRoomy(tokens int) {
	longest, tight := 0, false
	for _, m := range d.members {
		longest = max(longest, m.context)
		tight = tight || m.context > 0 && m.context <= tokens
	}
	if !tight {
		return
	}
	need := min(tokens+1, longest)
	d.keep(func(m *member) bool { return m.context == 0 || m.context >= need })
}

// keepLoaded prefers, for a LoRA adapter, endpoints whose engine lists it over those only said to serve it, and endpoints
// that have it resident over those that would load it first, as long as the least loaded of the former has no more than
// twice the work of the least loaded of the latter plus 4,096 tokens, about half a second of prefill.
func (r *Router) keepLoaded(d *decision) {
	if !slices.ContainsFunc(d.members, func(m *member) bool { return m.adapter }) {
		return
	}
	d.keep(func(m *member) bool { return !m.stated })
	resident := func(m *member) bool {
		l := m.ep.report.Load
		return !m.adapter || l != nil && d.now.Sub(m.ep.loadAt) < r.cfg.StaleAfter && slices.Contains(l.Adapters, m.model)
	}
	least := [2]int64{-1, -1} // work of the least loaded endpoint without and with the adapter
	for _, m := range d.members {
		side := 0
		if resident(m) {
			side = 1
		}
		load := r.backlog.Reader().Load(m.ep.slot)
		if w := load.Work(); least[side] < 0 || w < least[side] {
			least[side] = w
		}
	}
	if least[0] >= 0 && least[1] >= 0 && least[1] <= 2*least[0]+4096 {
		d.keep(resident)
	}
}

// noEndpoint says why nobody can take the request.
func (r *Router) noEndpoint(d *decision, l fleet.Leg) error {
	p := d.pool
	e := &NoEndpointError{Pool: p.name, RetryAfter: time.Second}
	if len(p.members) == 0 {
		e.Why = "none is declared"
		return e
	}
	const most = 5
	var why []string
	for i := range p.members {
		if ep := p.members[i].ep; d.takes(ep, l) {
			why = append(why, r.excuse(d.now, ep, d.req, l))
		}
	}
	if len(why) == 0 {
		e.Why = "all of its endpoints only compute prompts (role prefill)"
		if l == fleet.LegPrefill {
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

func (r *Router) excuse(now time.Time, e *endpoint, req *fleet.Request, l fleet.Leg) string {
	name := e.spec.Name
	switch s := r.health.Reader().State(now, e.id()); {
	case slices.Contains(tried(req, l), name):
		return name + " was tried and failed (" + r.health.Reader().Cause(e.id()) + ")"
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
