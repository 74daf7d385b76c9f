package route

import (
	"slices"

	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
)

// prefer keeps the members at which the request does best, whatever the policy.
func (r *readers) prefer(q *asked, t *conversation.Found, members []pool.Member) []pool.Member {
	if r.health.Mutes() {
		members = keep(members, func(m pool.Member) bool {
			return !r.health.IsMute(q.now, m.Endpoint().Slot(), Line(q.req.Class, m.Model(), q.req.Path))
		})
	}
	members = r.preferInMemory(q, members)
	if q.pool.Uniform() {
		return members
	}
	if t.Known && t.Entry.Model != "" {
		members = keep(members, func(m pool.Member) bool { return m.Model() == t.Entry.Model })
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

// preferInMemory prefers endpoints that have the model in memory, as long as a request waits at the least loaded of
// them no longer than one that has the model loaded elsewhere.
func (r *readers) preferInMemory(q *asked, members []pool.Member) []pool.Member {
	if !r.endpoints.LoadOnDemand() {
		return members
	}
	mustLoad := func(m pool.Member) bool { return m.Endpoint().MustLoad(q.now, r.staleAfter, m.Model(), q.req.Window) }
	if !slices.ContainsFunc(members, mustLoad) {
		return members
	}
	least := [2]float64{-1, -1} // wait in ms at the best endpoint with and without the model in memory
	for _, m := range members {
		ep, side := m.Endpoint(), 0
		load := r.backlog.Load(ep.Slot())
		wait := float64(load.PrefillTokens) * r.speed.MsPerToken(ep.Slot())
		// answers are computed together
		wait += float64(load.DecodeTokens) / float64(max(load.Working(), 1)) * r.speed.MsPerAnswer(ep.Slot())
		if mustLoad(m) {
			side, wait = 1, wait+float64(ep.ModelLoadTime().Milliseconds())
		}
		if least[side] < 0 || wait < least[side] {
			least[side] = wait
		}
	}
	switch {
	case least[0] < 0:
		return displaceOldest(q, members)
	case least[0] <= least[1]:
		return keep(members, func(m pool.Member) bool { return !mustLoad(m) })
	}
	return members
}

// displaceOldest keeps the endpoints at which a request that loads its model anew, with another context, takes the
// least from others: those that were longest not asked for the context that they have. So requests for two contexts
// part.
func displaceOldest(q *asked, members []pool.Member) []pool.Member {
	oldest := q.now
	for _, m := range members {
		if at := m.Endpoint().Displaces(m.Model(), q.req.Window); at.Before(oldest) {
			oldest = at
		}
	}
	return keep(members, func(m pool.Member) bool {
		return !m.Endpoint().Displaces(m.Model(), q.req.Window).After(oldest)
	})
}

// preferLoadedAdapter prefers, for a LoRA adapter, endpoints whose engine lists it to those declared to serve it, and
// among them those that have it loaded, as long as the least loaded of these has at most twice the work of the least
// loaded other plus 4,096 tokens, about half a second of prefill.
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
	least := [2]int64{-1, -1} // work of the least loaded endpoint without and with the adapter
	for _, m := range members {
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
		return keep(members, resident)
	}
	return members
}

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
