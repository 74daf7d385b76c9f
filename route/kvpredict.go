package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/size"
)

// kvFlight is what a flight remembers of the events at the time of its decision.
type kvFlight struct {
	exact  bool   // its prediction was made of events
	guess  bool   // it counts on the last answer coming back as it was made
	known  bool   // the events said something, gone by or not:
	said   int    // so many tokens
	heads  int    // runs of blocks that had been noted, see kvHead
	stored uint64 // blocks that the endpoint had stored
	tokens int    // of its prompt, as they were told; 0 while they were not

	adapter bool // it asks for one, which its blocks depend on too
}

// kvPredict says how many tokens of the prompt a candidate holds by its events; ok is false when they do not say.
func (r *Router) kvPredict(i int) (tokens int, ok bool) {
	k, m := &r.kv, &r.members[i].ep.mirror
	if m.block <= 0 || len(k.prompt) == 0 || m.State == kvstream.None {
		return 0, false
	}
	held := k.matches.Depth(r.members[i].ep.slot) * m.block
	if k.limit > 0 && held > k.limit && r.answersChange(i) {
		held = k.limit - k.limit%m.block
	}
	whole := r.view.PromptTokens - 1
	return min(held, whole-whole%m.block), true
}

// answersChange reports whether prompts that go on from an answer do not have it as the engine made it: it is another text (reasoning
// left out), or other tokens for the same.
func (r *Router) answersChange(i int) bool { return r.members[i].ep.answers < -answerDoubt }

const answerDoubt = 3

// exact reports whether the prediction of a candidate was made of events.
func (k *kvTable) exact(i int) bool { return i < len(k.used) && k.used[i] }

// kvExact replaces the predictions of the candidates whose events say what they hold.
func (r *Router) kvExact(tenant string, t *talk, m *size.Prompt) {
	k, v := &r.kv, &r.view
	k.measure = *m
	k.used = k.used[:0]
	if !k.any {
		return
	}
	r.kvLook(tenant, t)
	if len(k.prompt) > 0 {
		k.index.Match(k.prompt, &k.matches)
	}
	v.Known = 0
	for i := range v.Candidates {
		c, ep := &v.Candidates[i], r.members[i].ep
		tokens, said := r.kvPredict(i)
		by := said && ep.mirror.trusted() && c.Model == r.belief.keysFor
		if by && (ep.mirror.State == kvstream.Partial || r.belief.depths[i] > k.covers) {
			by = tokens >= c.CachedTokens // more may be there than is known
		}
		k.used = append(k.used, by)
		if by {
			c.CachedTokens = max(tokens, r.comingTo(i))
		}
		v.Known = max(v.Known, c.CachedTokens)
	}
}

// commonBeyond is how many blocks two chains have in common where they are more than n, else n.
func commonBeyond(a, b []uint64, n int) int {
	if n < min(len(a), len(b)) && a[n] == b[n] {
		return blocks.Common(a, b)
	}
	return n
}

// comingTo is how much of the prompt another request that is being computed at a candidate, or has just been, leaves there.
func (r *Router) comingTo(i int) int {
	ep, most := r.members[i].ep, 0
	keys := r.belief.keys
	for _, j := range ep.pending {
		most = commonBeyond(keys, r.flights[j].chain, most)
	}
	for j := range ep.mirror.unheard {
		if u := &ep.mirror.unheard[j]; r.view.Now.Sub(u.at) < kvOverdue {
			most = commonBeyond(keys, u.chain, most)
		}
	}
	if most == 0 {
		return 0
	}
	return r.wholeBlocks(i, min(r.kv.measure.At(blocks.Bytes(most)), r.view.PromptTokens-1))
}

// kvNote keeps with a flight what its prediction was made of.
func (r *Router) kvNote(ep *endpoint, f *flight, index int) {
	f.kv = kvFlight{stored: ep.mirror.stored, heads: r.kv.nextHead, adapter: index < len(r.members) && r.members[index].adapter}
	if r.kv.any {
		r.kv.label(f.tenant, f.session)
	}
	if !r.kv.any || index >= len(r.kv.used) {
		return
	}
	f.kv.exact = r.kv.exact(index)
	if tokens, ok := r.kvPredict(index); ok {
		f.kv.known, f.kv.said = true, tokens
		f.kv.guess = r.kv.limit > 0 && tokens > r.kv.limit
	}
}

// kvEnded draws the conclusions of an answer about its endpoint's events.
func (r *Router) kvEnded(now time.Time, f *flight, ev *Finished) {
	if !r.kv.any || ev.Outcome != fleet.OK || f.class != fleet.Turn || f.incarnation != f.ep.incarnation {
		return
	}
	r.kvSettle(f, &ev.Usage)
	r.kvOwed(now, f, &ev.Usage)
	r.learnTie(ev.Lease, f, &ev.Usage)
}

// kvSettle compares what events said with what the engine found, and says so when they are given up or gone by again.
func (r *Router) kvSettle(f *flight, u *fleet.Usage) {
	ep := f.ep
	m := &ep.mirror
	if !f.kv.known || !u.CachedKnown || u.PromptTokens <= 0 || f.epoch != ep.epoch || m.block <= 0 {
		return
	}
	off := f.kv.said - u.CachedTokens
	if f.kv.guess {
		if off > m.block {
			ep.answers = max(ep.answers-1, -2*answerDoubt)
		} else {
			ep.answers = min(ep.answers+1, 2*answerDoubt)
		}
	}
	// Fewer than it holds is what counts: more may have come since.
	wrong := off > 2*m.block+u.PromptTokens/16 && !f.kv.guess
	switch {
	case wrong && m.trusted():
		if m.misses++; m.misses >= kvMisses {
			m.State, m.hits = kvstream.Wrong, 0
			m.Wrong++
			r.kvSay(ep, "give another picture than the answers; going by the answers")
		}
	case wrong:
		m.hits = 0
	default:
		m.misses = 0
		if m.hits++; m.State == kvstream.Wrong && m.hits >= kvHits {
			m.State = m.base
			r.kvSay(ep, "agree with the answers again")
		}
	}
}

// kvSay has a change told with the next observation's.
func (r *Router) kvSay(ep *endpoint, detail string) { ep.news = append(ep.news, "KV events: "+detail) }
