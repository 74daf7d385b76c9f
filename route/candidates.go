package route

import (
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

// search says for which leg endpoints are sought.
type search struct {
	leg     fleet.Leg           // never LegDecode: its view is derived from that of whole requests
	decodes bool                // it is for a decode leg alone, not for a whole request
	who     *conversation.Found // the conversation, in the scope of the leg
	prices  prices
	// of an alias whose models divide its requests: the model of the other leg, which this one gets too. Where it is
	// "", the search chooses one
	model string
	// of an alias whose models are in order: ms for which admission would hold the turn with each, 0 where it would not
	// or is not asked; or nil
	holdMs []float64
}

// selection is the endpoints that may take a leg.
type selection struct {
	members []pool.Member // at least one
	forced  pick.Reason   // see filled
	modelChoice
	beyond pick.Beyond // of a shortlist
}

// selectMembers selects the endpoints of the best available health class that may take the leg. If the request is
// pinned or refers to a stored response, that is one.
func (r *readers) selectMembers(q *asked, seen *noticed, s *search, prompt *cache.Prompt) (a selection, err error) {
	if a.members, a.forced, err = r.namedMember(q); err != nil {
		return a, err
	}
	if a.forced != "" {
		a.model = s.model
	} else if r.shortlisted(q, s, prompt, &a) {
		return a, nil
	} else if a.members, a.modelChoice, err = r.available(q, seen, s); err != nil {
		return a, err
	}
	if !q.pool.Uniform() { // else all can
		a.members, a.model = r.keepPossible(q, s, a.members, a.model)
	}
	if len(a.members) == 0 {
		return a, r.noEndpoint(q, s, a.model)
	}
	if a.forced == "" {
		a.members = r.prefer(q, s.who, a.members)
	}
	return a, nil
}

// namedMember selects the member that the request names, by a stored response or a pin, and says by which; "" for
// neither.
func (r *readers) namedMember(q *asked) (_ []pool.Member, by pick.Reason, err error) {
	var m pool.Member
	by = pick.ReasonHolder
	name, holds := r.conversations.Holder(q.now, q.req.Tenant, q.req.Follows)
	if holds {
		m, holds, err = r.holder(q, name)
	}
	if !holds && err == nil {
		if by = pick.ReasonPinned; q.req.Pin == "" {
			return nil, "", nil
		}
		m, err = r.pinned(q)
	}
	if err != nil {
		return nil, "", err
	}
	q.members = r.pools.Serving(m, q.members[:0], &q.others)
	return q.members, by, nil
}

// available selects the members of the best available health class that may take the leg, and of these those that are
// not known to lack the request's path. Where all lack it they are those that have answered under it. The model is
// chosen also where there is none.
func (r *readers) available(q *asked, seen *noticed, s *search) (members []pool.Member, is modelChoice, err error) {
	is = r.chooseModel(q, s)
	if members = r.bestMembers(q, seen, s, is.model); len(members) == 0 {
		return nil, is, r.noEndpoint(q, s, is.model)
	}
	if path := r.registry.Path(q.req.Path); path.LackedByAny(q.now) {
		has := func(m pool.Member) bool { return !path.LackedBy(q.now, m.Endpoint()) }
		switch {
		case slices.ContainsFunc(members, has):
			members = keep(members, has)
		case len(q.req.Lacking) > 0:
			return nil, is, r.noEndpoint(q, s, is.model)
		default:
			members = keep(members, func(m pool.Member) bool { return path.AnsweredBy(m.Endpoint()) })
		}
	}
	return members, is, nil
}

// keepPossible keeps the members that can compute the request, and of an alias whose models divide it those with the
// model that is chosen, or is chosen here where the request names the endpoint: all that comes later sees one model.
// It may keep none for a leg whose model the other leg has.
func (r *readers) keepPossible(q *asked, s *search, members []pool.Member, model string) ([]pool.Member, string) {
	// engines reject a request whose longest answer would exceed their context
	tokens := q.size.Tokens + q.req.MaxTokens
	if !q.pool.Divides() {
		return keepContext(members, tokens), model
	}
	serves := func(model string) bool {
		return slices.ContainsFunc(members, func(m pool.Member) bool { return m.Model() == model })
	}
	if s.model == "" && !serves(model) { // the request names the endpoint
		members = keepContext(members, tokens)
		if model = q.who.Entry.Model; !q.who.Known || !serves(model) {
			model = r.pools.Drawn(q.pool.Name(), q.drawn(), serves)
		}
	}
	members = slices.DeleteFunc(members, func(m pool.Member) bool { return m.Model() != model })
	return keepContext(members, tokens), model
}

// answerModel is the model of a request that may be split, by the endpoints that may answer it.
func (r *readers) answerModel(q *asked, seen *noticed, s *search) string {
	if !q.pool.Divides() {
		return ""
	}
	members, by, err := r.namedMember(q)
	is := modelChoice{}
	if err == nil && by == "" {
		members, is, err = r.available(q, seen, s)
	}
	if err == nil {
		_, is.model = r.keepPossible(q, s, members, is.model)
	}
	return is.model
}

// shortlisted selects a shortlist of a large pool's members, see package shortlist, and reports whether it did; a is
// then complete.
func (r *readers) shortlisted(q *asked, s *search, prompt *cache.Prompt, a *selection) bool {
	if !r.mayShortlist(q) {
		return false
	}
	p := q.pool
	q.noteExcluded(r.registry)
	list := &q.list
	r.shortlist.Begin(list, p.Slots(), shortlist.Request{
		Tokens: q.size.Tokens, Cached: r.cache.Look(&q.lookups, prompt, p.Member(0).Model()),
		Hash: placeHash(q.req, s.who.ID), Seed: q.req.Seed, Not: q.not,
	})
	census := health.Census{All: p.Len() - len(list.Unverified)}
	for _, i := range list.Unverified {
		ep := p.Member(int(i)).Endpoint()
		rank := r.usable(q.now, ep, q.req.Caller)
		if rank >= health.Unfit {
			continue
		}
		if r.health.Count(q.now, ep.Slot(), rank, &census); rank == health.Fit {
			list.Add(i)
		}
	}
	if list.Count() <= r.shortlists || r.health.Panics(census) {
		return false
	}
	r.noteNamed(q, s.who)
	beyond := list.Close(q.named)
	members := q.members[:0]
	for _, i := range list.Rows {
		if m := p.Member(int(i)); r.usable(q.now, m.Endpoint(), q.req.Caller) == health.Fit {
			members = append(members, m)
		}
	}
	q.members = members
	if len(members) == 0 {
		return false
	}
	*a = selection{members: members, beyond: beyond}
	return true
}

// mayShortlist reports whether a shortlist may stand for a pool. The rare cases take a look at all members: unlike
// members, paths that some endpoints lack, kinds that may not take the request, and models that are loaded on demand,
// as do pools without a fit endpoint or in panic.
func (r *readers) mayShortlist(q *asked) bool {
	p := q.pool
	return r.shortlists >= 0 && p.Len() > r.shortlists && !p.Splits() && p.Uniform() && p.Shortlists() &&
		!r.registry.LoadOnDemand() && !r.registry.Path(q.req.Path).LackedByAny(q.now) && !r.health.Mutes() &&
		q.req.Kinds == nil
}

// noteExcluded notes the slots of the endpoints that are not to take the request.
func (q *asked) noteExcluded(of registry.Reader) {
	q.not = q.not[:0]
	for _, names := range [...][]string{q.req.Tried, q.req.Exclude} {
		for _, name := range names {
			if ep := of.Named(name); ep.Exists() {
				q.not = append(q.not, int32(ep.Slot()))
			}
		}
	}
}

// noteNamed notes where among the members those stand that the conversation names, and that may take it.
func (r *readers) noteNamed(q *asked, who *conversation.Found) {
	q.named = q.named[:0]
	for _, name := range [...]string{who.Entry.Endpoint, who.Hint, who.Parent} {
		if ep := r.registry.Named(name); ep.Exists() && r.usable(q.now, ep, q.req.Caller) == health.Fit &&
			!slices.Contains(q.not, int32(ep.Slot())) {
			if i := q.pool.Slots().Index(int32(ep.Slot())); i >= 0 {
				q.named = append(q.named, int32(i))
			}
		}
	}
}

// usable ranks an endpoint's fitness for new traffic.
func (r *readers) usable(now time.Time, e registry.Endpoint, caller uint64) health.Rank {
	return r.rank(now, e, caller, health.ObeyEjections)
}

// rank ranks an endpoint's fitness where ejections for failed requests may be ignored.
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
func (r *readers) bestMembers(q *asked, seen *noticed, s *search, model string) []pool.Member {
	members, census := r.selectBest(q, s, model, health.ObeyEjections)
	if r.health.Panics(census) {
		seen.panicked |= 1 << s.leg
		members, _ = r.selectBest(q, s, model, health.IgnoreEjections)
	}
	return members
}

// selectBest selects the members of the best rank present, where ejections for failed requests may be ignored. Those
// whose context the prompt exceeds come after busy ones. It counts the members of the right role.
func (r *readers) selectBest(q *asked, s *search, model string, by health.Ejections) (
	members []pool.Member,
	census health.Census,
) {
	members = q.members[:0]
	best, splits := standing(health.Unfit, false), q.pool.Splits()
	avoids := len(tried(q.req, s.leg))+len(q.req.Exclude) > 0
	slots, divides := q.pool.Slots(), q.pool.Divides() && model != ""
	plain := !splits && !q.pool.Divides() && !avoids && q.req.Kinds == nil // fit is all that it takes
	tokens, uniform := q.size.Tokens+q.req.MaxTokens, q.pool.Uniform()
	for i := range q.pool.Len() {
		m := q.pool.Member(i)
		short := !uniform && m.Context() > 0 && m.Context() <= tokens
		if plain && !short && best == standing(health.Fit, false) && r.shortlist.Fit(slots.At(i)) {
			census.All++
			members = append(members, m)
			continue
		}
		if splits && !q.takes(m, s) || q.req.Kinds != nil && !fits(q.req, m.Endpoint()) ||
			divides && !r.pools.Serves(m, model) {
			continue
		}
		rank := health.Fit
		if !r.shortlist.Fit(slots.At(i)) {
			if rank = r.rank(q.now, m.Endpoint(), q.req.Caller, by); rank >= health.Unfit {
				continue
			}
		}
		r.health.Count(q.now, m.Endpoint().Slot(), rank, &census)
		at := standing(rank, short)
		if at > best || avoids && q.avoids(m.Endpoint().Name(), s.leg) {
			continue
		}
		if at < best {
			best = at
			members = members[:0]
		}
		members = r.pools.Serving(m, members, &q.others)
	}
	q.members = members
	return members, census
}

// standing is the order of endpoints, the best first, by rank and by whether the prompt exceeds their context. One may
// take it all the same, since the size is an estimate; one that fails takes none.
func standing(rank health.Rank, short bool) (at int) {
	if rank >= health.Ejected {
		at = 2
	}
	if short {
		at++
	}
	return at*int(health.Unfit+1) + int(rank)
}

// avoids reports whether an endpoint is not to take a leg: it has failed, or is excluded by the request. For a
// shortlist noteExcluded says so, and for the models of an alias optionsFor.
func (q *asked) avoids(name string, l fleet.Leg) bool {
	return slices.Contains(tried(q.req, l), name) || slices.Contains(q.req.Exclude, name)
}

// fits reports whether an endpoint is of a kind that may take a request.
func fits(req *fleet.Request, ep registry.Endpoint) bool {
	return req.Kinds == nil || slices.Contains(req.Kinds, ep.Kind())
}

// takes reports whether a member may be given a leg of the request. SGLang's servers serve their role only: in a
// pool with such decoders whole requests go to endpoints of the role both.
func (q *asked) takes(m pool.Member, s *search) bool {
	ep, p := m.Endpoint(), q.pool
	role := ep.Role()
	if !p.Splits() || !ep.RoleOnly() {
		return role.Takes(s.leg)
	}
	switch {
	case s.leg == fleet.LegPrefill:
		return role == fleet.RolePrefill
	case s.decodes:
		return role == fleet.RoleDecode
	case !q.req.Splits && !p.ServesWhole(): // the engine itself may reject it
		return role == fleet.RoleDecode
	default:
		return role == fleet.RoleBoth
	}
}

// holder is the endpoint that holds a response, in any state but down: no other can answer for it. It is not found when
// a new turn refers to a holder that left or cannot take it now, since another engine may be able to answer.
func (r *readers) holder(q *asked, name string) (m pool.Member, found bool, err error) {
	if m, ok := q.pool.MemberAt(r.registry.Named(name)); ok {
		if r.health.State(q.now, m.Endpoint().Slot()) != fleet.StateDown && !slices.Contains(q.req.Tried, name) {
			return m, true, nil
		}
		q.away = Away{name, NeedResponse}
	}
	if q.req.Class == fleet.Turn {
		return m, false, nil
	}
	return m, false, &NoEndpointError{
		Pool:       q.pool.Name(),
		Why:        fmt.Sprintf("%s holds the response and is down or has left", name),
		RetryAfter: time.Second,
	}
}

// elsewhere is another endpoint that has what the request needs where the chosen one, of such a context, may lack that.
func (r *readers) elsewhere(q *asked, chosen registry.Endpoint, context int) Away {
	if q.away.Endpoint != "" {
		return q.away
	}
	tokens, path := q.size.Tokens+q.req.MaxTokens, r.registry.Path(q.req.Path)
	short := context > 0 && context <= tokens
	unsure := (len(q.req.Tried) > 0 || path.AnsweredByAny()) && !path.ServedBy(q.now, chosen)
	if !short && !unsure {
		return Away{}
	}
	for i := range q.pool.Len() {
		m := q.pool.Member(i)
		ep := m.Endpoint()
		switch has := slices.Contains(q.req.Tried, ep.Name()) || path.ServedBy(q.now, ep); {
		case ep == chosen, ep.Weight() <= 0, !ep.Role().Takes(fleet.LegUnsplit): // is not to take it later either
		case short && m.Context() > tokens:
			return Away{ep.Name(), NeedContext}
		case unsure && has && !slices.Contains(q.req.Lacking, ep.Name()):
			return Away{ep.Name(), NeedPath}
		}
	}
	return Away{}
}

func (r *readers) pinned(q *asked) (pool.Member, error) {
	req := q.req
	ep := r.registry.Named(req.Pin)
	if !ep.Exists() || ep.Gone() {
		return pool.Member{}, &PinError{req.Pin, "there is no such endpoint"}
	}
	m, ok := q.pool.MemberAt(ep)
	if !ok {
		return m, &PinError{req.Pin, fmt.Sprintf("it does not serve the model %q", req.Model)}
	}
	if s := r.health.State(q.now, ep.Slot()); s == fleet.StateDown || slices.Contains(req.Tried, req.Pin) {
		return m, &NoEndpointError{
			Pool: q.pool.Name(), Why: fmt.Sprintf("%s is %s and the request is pinned to it", req.Pin, s),
			RetryAfter: time.Second,
		}
	}
	return m, nil
}
