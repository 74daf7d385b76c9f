package route

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// filled is a view of the endpoints that may take a leg.
type filled struct {
	view   *pick.View
	forced pick.Reason // set where there is no choice: there is one row then, and no policy is asked
	modelChoice
}

// fill fills a view with the endpoints that may take a leg of the request. Each room says what it knows of one, and is
// given what it has to know for that.
func (r *readers) fill(q *asked, seen *noticed, s *search) (f filled, err error) {
	leg, who := s.leg, s.who
	prompt := r.prompt(q, leg, who)
	a, err := r.selectMembers(q, seen, s, &prompt)
	if err != nil {
		return f, err
	}
	rows := grown(&q.rows[leg], len(a.members))
	for i := range rows {
		r.beginRow(q.now, &rows[i].Endpoint, a.members[i], a.forced == pick.ReasonPinned)
	}
	at := pick.EndpointsOf(rows)
	home, parent := rowNamed(who.Entry.Endpoint, rows), rowNamed(who.Parent, rows)
	if !who.Known {
		home = rowNamed(who.Hint, rows)
	}
	cached, found, missed := r.cache.Predict(&q.lookups, &prompt, at, home, seen.missed, q.cached)
	q.cached, seen.missed = cached, missed
	newcomer := backlog.Newcomer{
		Asker: q.asker, Now: q.now, PromptTokens: q.size.Tokens, OutputTokens: q.pool.ExpectedOutput(q.req),
	}
	if leg == fleet.LegPrefill { // which generates one token
		newcomer.OutputTokens = 1
	}
	first := q.req.Class == fleet.Turn && (!who.Known || q.retriesFirst(who, leg))
	common, others := q.size.Tokens, r.arrivals.Fleet(q.now, at)
	for i := range cached { // the prefix common to all conversations
		common = min(common, cached[i].CachedTokens)
	}
	for i := range rows {
		c, h := at.At(i), &cached[i]
		shared := common
		if first {
			shared = h.CachedTokens
		}
		pace := r.speed.Pace(c.Slot)
		wait := r.backlog.Expect(&newcomer, c, h, shared, &pace)
		var answers pick.DecodePace
		if s.prices.answerWaitCost > 0 {
			answers = r.speed.DecodePace(c.Slot, max(0, c.Load.Working()-wait.Prompts))
		}
		takes, idle := -1.0, uint32(0)
		if r.needs.Returns && len(rows) > 1 {
			own := cost.OwnTerms(q.size.Tokens, h, &pace, &wait)
			if takes = own.Wait + own.Prefill; who.Entry.Endpoint == c.Name {
				idle = who.Entry.IdleSince
			}
		}
		demand := r.arrivals.Demand(q.now, c.Slot, &others, idle, takes)
		rows[i].Complete(h, &pace, &wait, &answers, &demand, &pick.Link{})
	}
	chance := &q.chance[leg]
	pick.Seed(chance.source, q.req.Seed, leg)
	v := &q.views[leg]
	*v = pick.View{
		Now: q.now, Rand: chance.rand, Source: chance.source, Candidates: rows, Beyond: a.beyond,
		Home: home, Parent: parent, Repeats: who.Repeats, FirstTurn: first, Leg: leg, NewID: who.NewID,
		Splits: s.prices.splits, Interference: s.prices.interference, AnswerWaitCost: s.prices.answerWaitCost,
		Counted: found.Counted, MostCached: found.MostCached, Missed: found.Missed, Watched: others.Watched,
		PromptTokens: q.size.Tokens, OutputTokens: newcomer.OutputTokens, Hash: placeHash(q.req, who.ID),
	}
	if r.needs.Sharers && first && mayGoElsewhere(v) {
		v.Sharers = r.cache.Sharers(&q.lookups, &prompt, at, cached)
	}
	v.LaterTurns, v.TurnTokens = q.pool.Turns(leg, r.without)
	return filled{v, a.forced, a.modelChoice}, nil
}

// mayGoElsewhere reports whether a prompt waits less at an endpoint that has less of it cached than at any that has the
// most.
func mayGoElsewhere(v *pick.View) bool {
	least, warmest := math.Inf(1), math.Inf(1)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if least = min(least, c.WaitMs); c.CachedTokens >= v.MostCached {
			warmest = min(warmest, c.WaitMs)
		}
	}
	return least < warmest
}

// prompt is what the cache needs to know about the request.
func (r *readers) prompt(q *asked, l fleet.Leg, who *conversation.Found) cache.Prompt {
	return cache.Prompt{
		Request: q.req, Now: q.now, Leg: l, Size: q.size, TokensPerByte: q.pool.TokensPerByte(),
		Session: who.ID, Known: who.Known, Entry: who.Entry, Repeats: who.Repeats, AnswerReuse: q.pool.AnswerReuse(),
		CountsActive: r.needs.Active,
	}
}

// fillDecode derives the view of decode legs from that of whole requests, for a prompt computed elsewhere in readyMs:
// uncached tokens are transferred instead of computed, and work in front proceeds meanwhile.
func (r *readers) fillDecode(q *asked, whole *pick.View, readyMs float64) *pick.View {
	rows := grown(&q.rows[fleet.LegDecode], len(whole.Candidates))
	for i := range rows {
		c := &whole.Candidates[i]
		wait, link := r.backlog.ExpectDecode(q.now, c, whole.PromptTokens, readyMs)
		rows[i].Endpoint = c.Endpoint
		rows[i].Complete(&c.Cached, &c.Pace, &wait, &c.DecodePace, &c.Demand, &link)
	}
	v := &q.views[fleet.LegDecode]
	*v = *whole
	v.Leg, v.Candidates = fleet.LegDecode, rows
	return v
}

// fillArrived derives the view of whole requests for which what is still to be transferred does not count as cached.
func (q *asked) fillArrived(whole *pick.View) *pick.View {
	coming := false
	for i := range whole.Candidates {
		h := &whole.Candidates[i].Cached
		coming = coming || h.CachedTokens != h.PresentTokens || h.Counted != h.Present
	}
	if !coming {
		return whole
	}
	rows := grown(&q.arrivedRows, len(whole.Candidates))
	for i := range rows {
		c := &whole.Candidates[i]
		arrived := c.Arrived()
		rows[i].Endpoint = c.Endpoint
		rows[i].Complete(&arrived, &c.Pace, &c.Wait, &c.DecodePace, &c.Demand, &pick.Link{})
	}
	q.arrived = *whole
	q.arrived.Candidates = rows
	return &q.arrived
}

// rowNamed is the index of the row with a name; -1 where there is none, or the name is "".
func rowNamed(name string, rows []pick.Candidate) int {
	for i := range rows {
		if name != "" && rows[i].Name == name {
			return i
		}
	}
	return -1
}

// narrow drops the rows for which ok is false, perhaps all. ok is asked once for each, in order.
func narrow(v *pick.View, ok func(row int) bool) {
	n, home, parent := 0, -1, -1
	for i := range v.Candidates {
		if !ok(i) {
			continue
		}
		if n < i {
			v.Candidates[n] = v.Candidates[i]
		}
		if i == v.Home {
			home = n
		}
		if i == v.Parent {
			parent = n
		}
		n++
	}
	v.Candidates, v.Home, v.Parent = v.Candidates[:n], home, parent
}

// beginRow begins a row with a member's endpoint, and what it and its engine's reports say of it.
func (r *readers) beginRow(now time.Time, e *pick.Endpoint, m pool.Member, pinned bool) {
	ep := m.Endpoint()
	at := ep.Slot()
	e.Name, e.Key, e.Slot, e.Epoch = ep.Name(), ep.Key(), at, r.cache.Epoch(at)
	e.Ramp = r.health.Ramp(now, at)
	if e.Weight = ep.Weight() * e.Ramp; pinned && e.Weight <= 0 {
		e.Weight = 1 // operators use pins: they reach endpoints with weight 0 and draining ones too
	}
	e.Kind, e.Model, e.Adapter = ep.Kind(), m.Model(), m.Adapter()
	e.Context = m.Context()
	e.CacheTokens, e.BlockTokens, e.Places = ep.CacheTokens(), ep.BlockTokens(), ep.Places()
	r.backlog.LoadInto(at, &e.Load)
	r.reported(now, ep, e)
}

// use says what of an endpoint is in use, and what its engine says of that.
func (r *readers) use(now time.Time, ep registry.Endpoint) (backlog.Use, pick.Endpoint) {
	e := pick.Endpoint{Slot: ep.Slot()}
	r.reported(now, ep, &e)
	resident := r.cache.Resident(ep.Slot(), r.backlog.Load(ep.Slot()).ContextTokens)
	return r.backlog.Use(now, &e, resident), e
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
