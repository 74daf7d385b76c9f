package route

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/shortlist"
)

// candidateSet is what is known of the endpoints of rows.
type candidateSet struct {
	forced pick.Reason // see fill
	beyond pick.Beyond // of a shortlist
	look   cache.Look  // done before they were known
}

// candidates begins a row for each endpoint of the best available health class that may take the leg. If the request is
// pinned or refers to a stored response, that is one.
func (r *readers) candidates(d *decision, l fleet.Leg, t *conversation.Found, prompt *cache.Prompt) (a candidateSet,
	err error,
) {
	if a.forced, err = r.namedMember(d, l); err != nil {
		return a, err
	}
	short := false
	if a.forced == "" {
		short = r.shortlisted(d, l, t, prompt, &a)
	}
	if !short {
		if err := r.selectMembers(d, l, t, a.forced); err != nil {
			return a, err
		}
	}
	rows := d.rowsOf(l, len(d.members))
	for i := range rows {
		r.begin(d, &rows[i].Endpoint, d.members[i])
	}
	// operators use pins: they reach endpoints with weight 0 and draining ones too
	if w := &rows[0].Weight; a.forced == pick.ReasonPinned && *w <= 0 {
		*w = 1
	}
	return a, nil
}

// selectMembers selects, of all members or those that the request names (forced), the ones that take part.
func (r *readers) selectMembers(d *decision, l fleet.Leg, t *conversation.Found, forced pick.Reason) error {
	if forced == "" {
		if err := r.available(d, l); err != nil {
			return err
		}
	}
	r.keepPossible(d, l)
	if len(d.members) == 0 {
		return r.noEndpoint(d, l)
	}
	if forced == "" {
		r.prefer(d, t)
	}
	return nil
}

// namedMember selects the member that the request names, by a stored response or a pin, and says by which; "" for
// neither.
func (r *readers) namedMember(d *decision, l fleet.Leg) (by pick.Reason, err error) {
	if name, ok := r.conversations.Holder(d.now, d.req.Tenant, d.req.Follows); ok {
		m, found, err := r.holder(d, name)
		if err != nil {
			return "", err
		}
		if found {
			d.members = r.pools.Serving(m, d.members[:0], &d.others)
			return pick.ReasonHolder, nil
		}
	}
	if d.req.Pin == "" {
		return "", nil
	}
	m, err := r.pinned(d)
	if err != nil {
		return "", err
	}
	d.members = r.pools.Serving(m, d.members[:0], &d.others)
	return pick.ReasonPinned, nil
}

// available selects the members of the best available health class that may take the leg, and of these those that are
// not known to lack the request's path.
func (r *readers) available(d *decision, l fleet.Leg) error {
	r.settle(d, l)
	r.bestMembers(d, l)
	if len(d.members) == 0 {
		return r.noEndpoint(d, l)
	}
	if lacking := r.endpoints.Absences(d.req.Path); lacking.Any() {
		has := func(m pool.Member) bool { return !lacking.Has(d.now, m.Endpoint()) }
		if d.req.Lacked && !slices.ContainsFunc(d.members, has) {
			return r.noEndpoint(d, l)
		}
		d.keep(has)
	}
	return nil
}

// keepPossible keeps the members that can compute the request, and of an alias whose models divide it those with the
// model that is settled: all that comes later sees one model. It may keep none for a leg whose model the other leg has
// settled.
func (r *readers) keepPossible(d *decision, l fleet.Leg) {
	if d.pool.Uniform() { // it would keep all
		return
	}
	serves := func(model string) bool {
		return slices.ContainsFunc(d.members, func(m pool.Member) bool { return m.Model() == model })
	}
	// engines reject a request whose longest answer would exceed their context
	tokens := d.size.Tokens + d.req.MaxTokens
	switch {
	case !d.pool.Divides():
		d.keepContext(tokens)
		return
	case d.settled(l) || serves(d.model):
	default: // the request names the endpoint
		d.keepContext(tokens)
		if d.model = d.who.Entry.Model; !d.who.Known || !serves(d.model) {
			d.model = r.pools.Drawn(d.pool.Name(), d.drawn(), serves)
		}
	}
	d.members = slices.DeleteFunc(d.members, func(m pool.Member) bool { return m.Model() != d.model })
	d.keepContext(tokens)
}

// settleModel settles the model of a request that may be split, by the endpoints that may answer it.
func (r *readers) settleModel(d *decision) {
	if !d.pool.Divides() {
		return
	}
	by, err := r.namedMember(d, fleet.LegUnsplit)
	if err == nil && (by != "" || r.available(d, fleet.LegUnsplit) == nil) {
		r.keepPossible(d, fleet.LegUnsplit)
	}
}

// prefer keeps the members at which the request does best, whatever the policy.
func (r *readers) prefer(d *decision, t *conversation.Found) {
	if r.health.Mutes() {
		d.keep(func(m pool.Member) bool {
			return !r.health.IsMute(d.now, m.Endpoint().Slot(), Line(d.req.Class, m.Model(), d.req.Path))
		})
	}
	r.preferInMemory(d)
	if d.pool.Uniform() {
		return
	}
	if t.Known && t.Entry.Model != "" {
		d.keep(func(m pool.Member) bool { return m.Model() == t.Entry.Model })
	}
	r.preferLoadedAdapter(d)
}

// shortlisted selects a shortlist of a large pool's members, see package shortlist, and reports whether it did; a is
// then complete. It leaves the rare cases to a look at all members: unlike members, paths that some endpoints lack,
// kinds that may not take the request, and pools without a fit endpoint or in panic.
func (r *readers) shortlisted(
	d *decision,
	l fleet.Leg,
	t *conversation.Found,
	prompt *cache.Prompt,
	a *candidateSet,
) bool {
	p := d.pool
	if r.shortlists < 0 || p.Len() <= r.shortlists || p.Splits() || !p.Uniform() ||
		r.endpoints.Absences(d.req.Path).Any() ||
		!p.Shortlists() || r.health.Mutes() ||
		d.req.Kinds != nil {
		return false
	}
	d.not = d.not[:0]
	for _, names := range [...][]string{d.req.Tried, d.req.Exclude} {
		for _, name := range names {
			if ep := r.endpoints.Named(name); ep.Exists() {
				d.not = append(d.not, int32(ep.Slot()))
			}
		}
	}
	look := r.cache.Look(&d.text, prompt, p.Member(0).Model())
	list := &d.list
	slots := p.Slots()
	r.shortlist.Begin(list, slots, shortlist.Request{
		Tokens: d.size.Tokens, Cached: look.Slots, Hash: placeHash(d.req, t.ID), Seed: d.req.Seed, Not: d.not,
	})
	census := health.Census{All: p.Len() - len(list.Unverified)}
	for _, i := range list.Unverified {
		ep := p.Member(int(i)).Endpoint()
		rank := r.usable(d.now, ep, d.req.Caller)
		if rank >= health.Unfit {
			continue
		}
		if r.health.Count(d.now, ep.Slot(), rank, &census); rank == health.Fit {
			list.Add(i)
		}
	}
	if list.Count() <= r.shortlists || r.health.Panics(census) {
		return false
	}
	d.named = d.named[:0]
	for _, name := range [...]string{t.Entry.Endpoint, t.Hint, t.Parent} {
		if ep := r.endpoints.Named(name); ep.Exists() && r.usable(d.now, ep, d.req.Caller) == health.Fit &&
			!slices.Contains(d.not, int32(ep.Slot())) {
			if i := slots.Index(int32(ep.Slot())); i >= 0 {
				d.named = append(d.named, int32(i))
			}
		}
	}
	beyond := list.Close(d.named)
	d.members = d.members[:0]
	for _, i := range list.Rows {
		if m := p.Member(int(i)); r.usable(d.now, m.Endpoint(), d.req.Caller) == health.Fit {
			d.members = append(d.members, m)
		}
	}
	if len(d.members) == 0 {
		return false
	}
	a.look, a.beyond = look, beyond
	return true
}

// begin begins a row with a member's endpoint, and what it and its engine's reports say of it.
func (r *readers) begin(d *decision, e *pick.Endpoint, m pool.Member) {
	ep := m.Endpoint()
	at := ep.Slot()
	e.Name, e.Key, e.Slot, e.Epoch = ep.Name(), ep.Key(), at, r.cache.Epoch(at)
	e.Ramp = r.health.Ramp(d.now, at)
	e.Weight = ep.Weight() * e.Ramp
	e.Kind, e.Model, e.Adapter = ep.Kind(), m.Model(), m.Adapter()
	e.CacheTokens, e.BlockTokens, e.Slots = ep.CacheTokens(), ep.BlockTokens(), ep.Places()
	r.backlog.LoadInto(at, &e.Load)
	r.reported(d.now, ep, e)
}

// reported fills in what the endpoint's engine says of its load.
func (r *readers) reported(now time.Time, ep registry.Endpoint, e *pick.Endpoint) {
	e.EngineRequests, e.KVUsage = -1, -1
	if ep.HasLoad(now, r.staleAfter) {
		l := ep.Load()
		e.Load.EngineWaiting = max(0, l.Waiting)
		e.KVUsage = max(-1, l.KVUsage)
		if l.Running >= 0 && l.Waiting >= 0 {
			e.EngineRequests = l.Running + l.Waiting
		}
	}
}

// keep drops the members for which ok is false, unless that would leave none.
func (d *decision) keep(ok func(m pool.Member) bool) {
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
func (r *readers) usable(now time.Time, e registry.Endpoint, caller uint64) health.Rank {
	return r.rank(now, e, caller, health.ObeyEjections)
}

// rank does that, where ejections for failed requests may be ignored.
func (r *readers) rank(now time.Time, e registry.Endpoint, caller uint64, by health.Ejections) health.Rank {
	if e.Gone() || e.Draining() || e.Weight() <= 0 {
		return health.Unfit
	}
	if _, asleep := e.Asleep(); asleep {
		return health.Unfit
	}
	return r.health.Rank(now, e.Slot(), caller, by)
}

// bestMembers selects the members of the best rank present. When too few members are left (see health.Panics),
// ejections for failed requests are ignored.
func (r *readers) bestMembers(d *decision, l fleet.Leg) {
	if r.health.Panics(r.selectBest(d, l, health.ObeyEjections)) {
		d.panicked |= 1 << l
		r.selectBest(d, l, health.IgnoreEjections)
	}
}

// selectBest does that, where ejections for failed requests may be ignored. It counts the members of the right role.
func (r *readers) selectBest(d *decision, l fleet.Leg, by health.Ejections) (census health.Census) {
	d.members = d.members[:0]
	best, splits, without := health.Unfit, d.pool.Splits(), len(tried(d.req, l))+len(d.req.Exclude) > 0
	slots, divides := d.pool.Slots(), d.pool.Divides() && d.model != ""
	plain := !splits && !d.pool.Divides() && !without && d.req.Kinds == nil // fit is all that it takes
	for i := range d.pool.Len() {
		m := d.pool.Member(i)
		if plain && best == health.Fit && r.shortlist.Fit(slots.At(i)) {
			census.All++
			d.members = append(d.members, m)
			continue
		}
		if splits && !d.takes(m, l) || d.req.Kinds != nil && !d.fits(m.Endpoint()) || divides && !r.serves(d, m) {
			continue
		}
		rank := health.Fit
		if !r.shortlist.Fit(slots.At(i)) {
			if rank = r.rank(d.now, m.Endpoint(), d.req.Caller, by); rank >= health.Unfit {
				continue
			}
		}
		r.health.Count(d.now, m.Endpoint().Slot(), rank, &census)
		if rank > best || without && d.without(m.Endpoint().Name(), l) {
			continue
		}
		if rank < best {
			best = rank
			d.members = d.members[:0]
		}
		d.members = r.pools.Serving(m, d.members, &d.others)
	}
	return census
}

// without reports whether an endpoint is not to take a leg: it has failed, or is excluded by the request.
func (d *decision) without(name string, l fleet.Leg) bool {
	return slices.Contains(tried(d.req, l), name) || slices.Contains(d.req.Exclude, name)
}

// fits reports whether an endpoint is of a kind that may take the request.
func (d *decision) fits(ep registry.Endpoint) bool {
	return d.req.Kinds == nil || slices.Contains(d.req.Kinds, ep.Kind())
}

// takes reports whether a member may be given a leg of the request. SGLang's servers serve their role only: in a
// pool with such decoders whole requests go to endpoints of the role both.
func (d *decision) takes(m pool.Member, l fleet.Leg) bool {
	role, p := m.Role(), d.pool
	if !p.Splits() || !m.RoleOnly() {
		return role.Takes(l)
	}
	switch {
	case l == fleet.LegPrefill:
		return role == fleet.RolePrefill
	case d.decodes:
		return role == fleet.RoleDecode
	case !d.req.Splits && !p.ServesWhole(): // the engine itself may reject it
		return role == fleet.RoleDecode
	default:
		return role == fleet.RoleBoth
	}
}

// holder is the endpoint that holds a response, in any state but down: no other can answer for it. It is not found when
// a new turn refers to a holder that left, since another engine may be able to answer.
func (r *readers) holder(d *decision, name string) (m pool.Member, found bool, err error) {
	for i := range d.pool.Len() {
		m := d.pool.Member(i)
		if m.Endpoint().Name() != name {
			continue
		}
		if s := r.health.State(d.now, m.Endpoint().Slot()); s == fleet.StateDown || slices.Contains(d.req.Tried, name) {
			break
		}
		return m, true, nil
	}
	if d.req.Class == fleet.Turn {
		return m, false, nil
	}
	return m, false, &NoEndpointError{
		Pool:       d.pool.Name(),
		Why:        fmt.Sprintf("%s holds the response and is down or has left", name),
		RetryAfter: time.Second,
	}
}

// pinned is the endpoint that the request is pinned to.
func (r *readers) pinned(d *decision) (pool.Member, error) {
	req := d.req
	ep := r.endpoints.Named(req.Pin)
	if !ep.Exists() || ep.Gone() {
		return pool.Member{}, &PinError{req.Pin, "there is no such endpoint"}
	}
	if m, ok := d.pool.MemberAt(ep); ok {
		if s := r.health.State(d.now, ep.Slot()); s == fleet.StateDown || slices.Contains(req.Tried, req.Pin) {
			return m, &NoEndpointError{
				Pool:       d.pool.Name(),
				Why:        fmt.Sprintf("%s is %s and the request is pinned to it", req.Pin, s),
				RetryAfter: time.Second,
			}
		}
		return m, nil
	}
	return pool.Member{}, &PinError{req.Pin, fmt.Sprintf("it does not serve the model %q", req.Model)}
}

// keepContext drops endpoints whose context the prompt exceeds. If none has room, those with the largest context stay,
// since the size is an estimate and the engine can reject the request.
func (d *decision) keepContext(tokens int) {
	longest, tight := 0, false
	for _, m := range d.members {
		longest = max(longest, m.Context())
		tight = tight || m.Context() > 0 && m.Context() <= tokens
	}
	if !tight {
		return
	}
	need := min(tokens+1, longest)
	d.keep(func(m pool.Member) bool { return m.Context() == 0 || m.Context() >= need })
}

// preferInMemory prefers endpoints that have the model in memory, as long as a request waits at the least loaded of
// them no longer than one that has the model loaded elsewhere.
func (r *readers) preferInMemory(d *decision) {
	if !r.endpoints.LoadOnDemand() {
		return
	}
	cold := func(m pool.Member) bool { return m.Endpoint().Cold(d.now, r.staleAfter, m.Model(), d.req.Window) }
	if !slices.ContainsFunc(d.members, cold) {
		return
	}
	least := [2]float64{-1, -1} // wait in ms at the best endpoint with and without the model in memory
	for _, m := range d.members {
		ep, side := m.Endpoint(), 0
		load := r.backlog.Load(ep.Slot())
		wait := float64(load.PrefillTokens) * r.speed.MsPerToken(ep.Slot())
		// answers are computed together
		wait += float64(load.DecodeTokens) / float64(max(load.Working(), 1)) * r.speed.MsPerAnswer(ep.Slot())
		if cold(m) {
			side, wait = 1, wait+float64(ep.Loading().Milliseconds())
		}
		if least[side] < 0 || wait < least[side] {
			least[side] = wait
		}
	}
	switch {
	case least[0] < 0:
		r.displaceOldest(d)
	case least[0] <= least[1]:
		d.keep(func(m pool.Member) bool { return !cold(m) })
	}
}

// displaceOldest keeps the endpoints at which a request that loads its model anew, with another context, takes the
// least from others: those that were longest not asked for the context that they have. So requests for two contexts
// part.
func (r *readers) displaceOldest(d *decision) {
	oldest := d.now
	for _, m := range d.members {
		if at := m.Endpoint().Displaces(m.Model(), d.req.Window); at.Before(oldest) {
			oldest = at
		}
	}
	d.keep(func(m pool.Member) bool { return !m.Endpoint().Displaces(m.Model(), d.req.Window).After(oldest) })
}

// preferLoadedAdapter prefers, for a LoRA adapter, endpoints whose engine lists it to those declared to serve it, and
// among them those that have it loaded, as long as the least loaded of these has at most twice the work of the least
// loaded other plus 4,096 tokens, about half a second of prefill.
func (r *readers) preferLoadedAdapter(d *decision) {
	if !slices.ContainsFunc(d.members, pool.Member.Adapter) {
		return
	}
	adapters := make([]string, 0, 4) // of an alias there may be several, and other models
	for _, m := range d.members {
		if m.Adapter() && !slices.Contains(adapters, m.Model()) {
			adapters = append(adapters, m.Model())
		}
	}
	d.keep(func(m pool.Member) bool { return !m.Stated() || !slices.Contains(adapters, m.Model()) })
	resident := func(m pool.Member) bool {
		if !m.Adapter() {
			return true
		}
		return m.Endpoint().HasLoad(d.now, r.staleAfter) && slices.Contains(m.Endpoint().Load().Adapters, m.Model())
	}
	least := [2]int64{-1, -1} // work of the least loaded endpoint without and with the adapter
	for _, m := range d.members {
		side := 0
		if resident(m) {
			side = 1
		}
		load := r.backlog.Load(m.Endpoint().Slot())
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
	e := &NoEndpointError{Pool: p.Name(), RetryAfter: time.Second}
	if p.Name() == pool.Any && d.req.Model != "" {
		e.Pool = d.req.Model // the client's word
	}
	if p.Len() == 0 {
		e.Why = "no endpoint is declared"
		return e
	}
	never := true // will an endpoint fit
	for i := range p.Len() {
		ep := p.Member(i).Endpoint()
		never = never && ep.Kind() != fleet.KindUnknown && !d.fits(ep)
	}
	if never {
		return &KindError{Pool: e.Pool, Kinds: d.req.Kinds}
	}
	const most = 5
	var why []string
	for i := range p.Len() {
		m := p.Member(i)
		serves := func(m pool.Member) bool { return m.Model() == d.model }
		switch ep := m.Endpoint(); {
		case !d.takes(m, l):
		case d.model != "" && !slices.ContainsFunc(r.pools.Serving(m, nil, &d.others), serves):
			why = append(why, ep.Name()+" does not serve "+d.model)
		default:
			why = append(why, r.unavailableReason(d.now, ep, d.req, l))
		}
	}
	if len(why) == 0 {
		e.Why = "all of its endpoints only compute prompts (role prefill)"
		if l == fleet.LegPrefill {
			e.Why = "none of its endpoints computes prompts for others (role prefill or both)"
		} else if p.SplitsAlways() {
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

func (r *readers) unavailableReason(now time.Time, e registry.Endpoint, req *fleet.Request, l fleet.Leg) string {
	name := e.Name()
	why, asleep := e.Asleep()
	switch s := r.health.State(now, e.Slot()); {
	case slices.Contains(tried(req, l), name):
		return name + " was tried and failed (" + r.health.Cause(e.Slot()) + ")"
	case slices.Contains(req.Exclude, name):
		return name + " is excluded by the request"
	case req.Kinds != nil && !slices.Contains(req.Kinds, e.Kind()):
		return name + " is " + cmp.Or(
			string(e.Kind()),
			"of a kind that is not known yet",
		) + ", which may not take the request"
	case asleep:
		return name + " is " + why
	case e.Draining():
		return name + " is draining"
	case e.Weight() <= 0:
		return name + " has weight 0"
	case s == fleet.StateDown && e.Detail() != "":
		return name + " is down (" + e.Detail() + ")"
	default:
		return name + " is " + string(s)
	}
}
