package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
	"github.com/warmpath/warmpath/route/shortlist"
)

// admit adds a row for each endpoint of the best available health class that may take the leg. If the request is pinned or
// refers to a stored response, it adds one row and sets Forced.
func (r *readers) admit(d *decision, v *pick.View, t *conversation.Found, prompt *cache.Prompt) error {
	if name, ok := r.conversations.Holder(d.now, d.req.Tenant, d.req.Follows); ok {
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
		if w := &v.Candidates[0].Weight; *w <= 0 { // operators use pins: they reach endpoints with weight 0 and draining ones too
			*w = 1
		}
		return nil
	}
	if r.shorten(d, v, t, prompt) {
		return nil
	}
	r.bestMembers(d, v.Leg)
	if len(d.members) == 0 {
		return r.noEndpoint(d, v.Leg)
	}
	if len(d.req.Kinds) > 0 {
		d.keep(func(m *member) bool { return slices.Contains(d.req.Kinds, m.ep.kind()) })
	}
	d.keepRoomy(d.size.Tokens + d.req.MaxTokens) // engines reject a request whose longest answer would exceed their context
	if t.Known && t.Entry.Model != "" {          // a conversation keeps the model that its alias resolved to
		d.keep(func(m *member) bool { return m.model == t.Entry.Model })
	}
	r.keepLoaded(d)
	for _, m := range d.members {
		r.addRow(d, v, m)
	}
	return nil
}

// shorten adds rows for a shortlist of a large pool's endpoints, see package shortlist, and reports whether it did. It leaves the
// rare cases to a look at all members: unlike members, requests for some kinds of engines, and pools without a fit endpoint or in
// panic.
func (r *readers) shorten(d *decision, v *pick.View, t *conversation.Found, prompt *cache.Prompt) bool {
	p := d.pool
	if r.cfg.Shortlist < 0 || len(p.members) <= r.cfg.Shortlist || p.parts || !p.alike || len(d.req.Kinds) > 0 {
		return false
	}
	if policy, ok := p.policy.(pick.Shortlisting); !ok || !policy.Shortlists() {
		return false
	}
	d.not = d.not[:0]
	for _, names := range [...][]string{d.req.Tried, d.req.Exclude} {
		for _, name := range names {
			if ep := r.byName[name]; ep != nil {
				d.not = append(d.not, int32(ep.slot))
			}
		}
	}
	l := &d.list
	r.shortlist.Begin(l, p.slots, shortlist.Request{
		Tokens: d.size.Tokens, Held: r.cache.Held(&d.text, prompt, p.members[0].model), Hash: placeHash(d.req, t.ID), Seed: d.req.Seed, Not: d.not,
	})
	all, ejected, judged := len(p.members)-len(l.Asked), 0, 0
	for _, i := range l.Asked {
		ep := p.members[i].ep
		rank := r.usable(d.now, ep, d.req.Caller, false)
		if rank >= health.Unfit {
			continue
		}
		all++
		switch {
		case rank == health.Fit:
			l.Add(i)
		case rank == health.Ejected:
			ejected++
			if r.health.Judged(d.now, ep.slot) {
				judged++
			}
		}
	}
	if l.Count() <= r.cfg.Shortlist || r.health.Panics(all, ejected, judged) {
		return false
	}
	d.named = d.named[:0]
	for _, name := range [...]string{t.Entry.Endpoint, t.Hint, t.Parent} {
		if ep := r.byName[name]; ep != nil && r.usable(d.now, ep, d.req.Caller, false) == health.Fit && !slices.Contains(d.not, int32(ep.slot)) {
			if i := slices.Index(p.slots, int32(ep.slot)); i >= 0 {
				d.named = append(d.named, int32(i))
			}
		}
	}
	v.Beyond = l.Close(d.named)
	for _, i := range l.Rows {
		if m := &p.members[i]; r.usable(d.now, m.ep, d.req.Caller, false) == health.Fit {
			r.addRow(d, v, m)
		}
	}
	if len(v.Candidates) == 0 {
		v.Beyond = pick.Beyond{}
		return false
	}
	return true
}

// addRow adds an endpoint's row, reusing the memory of an older one. Rows are long, so only the columns that no room always
// fills are reset.
func (r *readers) addRow(d *decision, v *pick.View, m *member) {
	ep := m.ep
	n := len(v.Candidates)
	v.Candidates = slices.Grow(v.Candidates, 1)[:n+1]
	c := &v.Candidates[n]
	c.CachedTokens, c.Blocks, c.Exact = 0, 0, false
	c.ActiveTokens, c.AddsTokens, c.ReturnsPerMs = 0, 0, 0
	c.LinkMs, c.DelayMs, c.WeighedMs, c.Terms = 0, 0, 0, pick.Terms{}
	c.Name, c.Key, c.Slot, c.Epoch = ep.spec.Name, ep.key, ep.slot, r.cache.Epoch(ep.slot)
	c.Ramp = r.health.Ramp(d.now, ep.slot)
	c.Weight = ep.spec.Weight * c.Ramp
	c.Kind, c.Model, c.Adapter = ep.kind(), m.model, m.adapter
	c.CacheTokens, c.BlockTokens, c.Slots = ep.report.CacheTokens, ep.report.BlockTokens, ep.places()
	r.backlog.FillLoad(c)
	c.Queue, c.KVUsage = -1, -1
	if l := ep.report.Load; l != nil && d.now.Sub(ep.loadAt) < r.cfg.StaleAfter {
		c.Load.Waiting = max(0, l.Waiting)
		c.KVUsage = max(-1, l.KVUsage)
		if l.Running >= 0 && l.Waiting >= 0 {
			c.Queue = l.Running + l.Waiting
		}
	}
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

// usable ranks an endpoint's fitness for new traffic.
func (r *readers) usable(now time.Time, e *endpoint, caller uint64, regardless bool) health.Rank {
	if e.gone || e.draining || e.spec.Weight <= 0 {
		return health.Unfit
	}
	return r.health.Rank(now, e.slot, caller, regardless)
}

// bestMembers selects the members of the best rank present. When too few members are left (see health.Panics), ejections for
// failed requests are ignored.
func (r *readers) bestMembers(d *decision, l fleet.Leg) {
	if all, ejected, judged := r.ranked(d, l, false); r.health.Panics(all, ejected, judged) {
		d.panicked++
		r.ranked(d, l, true)
	}
}

// ranked does that, with or without (regardless) ejections for failed requests. It counts the members of the right role that
// are not down, the ejected ones among them, and those ejected only for failed requests.
func (r *readers) ranked(d *decision, l fleet.Leg, regardless bool) (all, ejected, judged int) {
	d.members = d.members[:0]
	best := health.Unfit
	for i := range d.pool.members {
		m := &d.pool.members[i]
		if !d.takes(m.ep, l) {
			continue
		}
		rank := r.usable(d.now, m.ep, d.req.Caller, regardless)
		if rank >= health.Unfit {
			continue
		}
		all++
		if rank == health.Ejected {
			ejected++
			if r.health.Judged(d.now, m.ep.slot) {
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

// holder is the endpoint that holds a response, in any state but down: no other can answer for it. It is nil when a new turn
// refers to a holder that left, since another engine may be able to answer.
func (r *readers) holder(d *decision, name string) (*member, error) {
	for i := range d.pool.members {
		m := &d.pool.members[i]
		if m.ep.spec.Name != name {
			continue
		}
		if s := r.health.State(d.now, m.ep.slot); s == fleet.StateDown || slices.Contains(d.req.Tried, name) {
			break
		}
		return m, nil
	}
	if d.req.Class == fleet.Turn {
		return nil, nil
	}
	return nil, &NoEndpointError{Pool: d.pool.name, Why: fmt.Sprintf("%s holds the response and is down or has left", name), RetryAfter: time.Second}
}

// pinned is the endpoint that the request is pinned to.
func (r *readers) pinned(d *decision) (*member, error) {
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
		if s := r.health.State(d.now, ep.slot); s == fleet.StateDown || slices.Contains(req.Tried, req.Pin) {
			return nil, &NoEndpointError{Pool: d.pool.name, Why: fmt.Sprintf("%s is %s and the request is pinned to it", req.Pin, s), RetryAfter: time.Second}
		}
		return m, nil
	}
	return nil, &PinError{req.Pin, fmt.Sprintf("it does not serve the model %q", req.Model)}
}

// keepRoomy drops endpoints whose context the prompt exceeds. If none has room, those with the largest context stay, since the
// size is an estimate and the engine can reject the request.
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

// keepLoaded prefers, for a LoRA adapter, endpoints whose engine lists it to those declared to serve it, and among them those
// that have it loaded, as long as the least loaded of these has at most twice the work of the least loaded other plus 4,096
// tokens, about half a second of prefill.
func (r *readers) keepLoaded(d *decision) {
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
		load := r.backlog.Load(m.ep.slot)
		if w := load.Work(); least[side] < 0 || w < least[side] {
			least[side] = w
		}
	}
	if least[0] >= 0 && least[1] >= 0 && least[1] <= 2*least[0]+4096 {
		d.keep(resident)
	}
}

// noEndpoint returns the error that says why no endpoint can take the request.
func (r *readers) noEndpoint(d *decision, l fleet.Leg) error {
	p := d.pool
	e := &NoEndpointError{Pool: p.name, RetryAfter: time.Second}
	if len(p.members) == 0 {
		e.Why = "no endpoint is declared"
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

func (r *readers) excuse(now time.Time, e *endpoint, req *fleet.Request, l fleet.Leg) string {
	name := e.spec.Name
	switch s := r.health.State(now, e.slot); {
	case slices.Contains(tried(req, l), name):
		return name + " was tried and failed (" + r.health.Cause(e.slot) + ")"
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
