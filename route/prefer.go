package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
)

// prefer keeps the members at which the request does best, whatever the policy. A shortlist does not pass here: what is
// asked here mayShortlist has to ask too.
func (r *readers) prefer(q *asked, who *conversation.Found, members []pool.Member) []pool.Member {
	if r.health.Mutes() {
		members = keep(members, func(m pool.Member) bool {
			return !r.health.IsMute(q.now, m.Endpoint().Slot(), Service(q.req.Class, m.Model(), q.req.Path))
		})
	}
	members = r.preferLoadedModel(q, members)
	if q.pool.Uniform() {
		return members
	}
	if who.Known && who.Entry.Model != "" {
		members = keep(members, func(m pool.Member) bool { return m.Model() == who.Entry.Model })
	}
	return r.preferLoadedAdapter(q, members)
}

// keepContext drops endpoints whose context the prompt exceeds. If none has room, those with the largest context stay,
// since the size is an estimate and the engine can reject the request.
func keepContext(members []pool.Member, tokens int) []pool.Member {
	longest, tight := 0, false
	for _, m := range members {
		longest = max(longest, m.Context())
		tight = tight || m.Context() > 0 && m.Context() <= tokens
	}
	if !tight {
		return members
	}
	need := min(tokens+1, longest)
	return keep(members, func(m pool.Member) bool { return m.Context() == 0 || m.Context() >= need })
}

// preferLoadedModel prefers endpoints that have the model in memory, as long as a request waits at the least loaded of
// them no longer than one that has the model loaded elsewhere.
func (r *readers) preferLoadedModel(q *asked, members []pool.Member) []pool.Member {
	if !r.registry.LoadOnDemand() {
		return members
	}
	mustLoad := func(m pool.Member) bool { return m.Endpoint().MustLoad(q.now, r.staleAfter, m.Model(), q.req.Window) }
	if !slices.ContainsFunc(members, mustLoad) {
		return members
	}
	anew, loaded := leastOf(members, mustLoad, func(m pool.Member) float64 {
		ep := m.Endpoint()
		load := r.backlog.Load(ep.Slot())
		wait := float64(load.PrefillTokens) * r.speed.MsPerToken(ep.Slot())
		// answers are computed together
		wait += float64(load.DecodeTokens) / float64(max(load.Working(), 1)) * r.speed.MsPerAnswer(ep.Slot())
		if mustLoad(m) {
			wait += float64(ep.ModelLoadTime().Milliseconds())
		}
		return wait
	})
	switch {
	case loaded < 0:
		return displaceOldest(q, members)
	case loaded <= anew:
		return keep(members, func(m pool.Member) bool { return !mustLoad(m) })
	}
	return members
}

// leastOf is the least figure of the members for which ok is true, and that of the others; -1 where there are none.
func leastOf(members []pool.Member, ok func(pool.Member) bool, of func(pool.Member) float64) (least, others float64) {
	least, others = -1, -1
	for _, m := range members {
		side := &others
		if ok(m) {
			side = &least
		}
		if x := of(m); *side < 0 || x < *side {
			*side = x
		}
	}
	return least, others
}

// displaceOldest keeps the endpoints at which a request that loads its model takes the least from others: those that
// were longest not asked for another model, or for the model with the context that they have. So requests for two
// models or contexts part. A model that was not asked for lately counts as not in memory.
func displaceOldest(q *asked, members []pool.Member) []pool.Member {
	displaces := func(m pool.Member) time.Time {
		ep := m.Endpoint()
		if at := ep.Displaces(m.Model(), q.req.Window); q.now.Sub(at) < lately*ep.ModelLoadTime() {
			return at
		}
		return time.Time{}
	}
	oldest := q.now
	for _, m := range members {
		oldest = fleet.Earlier(oldest, displaces(m))
	}
	return keep(members, func(m pool.Member) bool { return !displaces(m).After(oldest) })
}

// lately is within how many load times a model is expected to be asked for again. The loads of one that is asked for
// less often cost less than to keep a faster endpoint free for it.
const lately = 6

// preferLoadedAdapter prefers, for a LoRA adapter, endpoints whose engine lists it to those declared to serve it, and
// among them those that have it loaded, as long as the least loaded of these has at most twice the work of the least
// loaded other, and adapterTokens more.
func (r *readers) preferLoadedAdapter(q *asked, members []pool.Member) []pool.Member {
	if !slices.ContainsFunc(members, pool.Member.Adapter) {
		return members
	}
	adapters := make([]string, 0, 4) // of an alias there may be several, and other models
	for _, m := range members {
		if m.Adapter() && !slices.Contains(adapters, m.Model()) {
			adapters = append(adapters, m.Model())
		}
	}
	members = keep(members, func(m pool.Member) bool { return !m.Stated() || !slices.Contains(adapters, m.Model()) })
	resident := func(m pool.Member) bool {
		if !m.Adapter() {
			return true
		}
		return m.Endpoint().HasLoad(q.now, r.staleAfter) && slices.Contains(m.Endpoint().Load().Adapters, m.Model())
	}
	with, without := leastOf(members, resident, func(m pool.Member) float64 {
		load := r.backlog.Load(m.Endpoint().Slot())
		return float64(load.Work())
	})
	if with >= 0 && without >= 0 && with <= 2*without+adapterTokens {
		return keep(members, resident)
	}
	return members
}

// adapterTokens of more work, about half a second of prefill, take no longer than to load an adapter.
const adapterTokens = 4096

// keep drops the members for which ok is false, unless that would leave none.
func keep(members []pool.Member, ok func(m pool.Member) bool) []pool.Member {
	n := 0
	for _, m := range members {
		if ok(m) {
			n++
		}
	}
	if n == 0 || n == len(members) {
		return members
	}
	n = 0
	for _, m := range members {
		if ok(m) {
			members[n] = m
			n++
		}
	}
	return members[:n]
}
