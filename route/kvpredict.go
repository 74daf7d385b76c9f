package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/conversation"
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

// kvPredict says how many tokens of the prompt an endpoint holds by its events; ok is false when they do not say.
func (r *Router) kvPredict(x *promptText, promptTokens int, c *pick.Candidate) (tokens int, ok bool) {
	ep := r.bySlot[c.Slot]
	m := &ep.mirror
	if m.block <= 0 || len(x.chain) == 0 || m.State == kvstream.None {
		return 0, false
	}
	held := x.matched.Depth(c.Slot) * m.block
	if x.limit > 0 && held > x.limit && ep.answersChange() {
		held = x.limit - x.limit%m.block
	}
	whole := promptTokens - 1
	return min(held, whole-whole%m.block), true
}

// answersChange reports whether prompts that go on from an answer do not have it as the engine made it: it is another text (reasoning
// left out), or other tokens for the same.
func (ep *endpoint) answersChange() bool { return ep.answers < -answerDoubt }

const answerDoubt = 3

// kvExact replaces the predictions of the endpoints whose events say what they hold.
func (r *Router) kvExact(d *decision, v *table, t *conversation.Found) {
	k, x := &r.kv, &d.text
	if x.events = k.any; !x.events {
		return
	}
	r.kvLook(x, d.req.Tenant, t)
	if len(x.chain) > 0 {
		k.index.Match(x.chain, &x.matched)
	}
	v.Known = 0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		m := &r.bySlot[c.Slot].mirror
		tokens, said := r.kvPredict(x, v.PromptTokens, c)
		c.Exact = said && m.trusted() && c.Model == x.model
		if c.Exact && (m.State == kvstream.Partial || c.Blocks > x.covers) {
			c.Exact = tokens >= c.CachedTokens // more may be there than is known
		}
		if c.Exact {
			c.CachedTokens = max(tokens, r.comingTo(d, v, c))
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

// comingTo is how much of the prompt another request that is being computed at an endpoint, or has just been, leaves there.
func (r *Router) comingTo(d *decision, v *table, c *pick.Candidate) int {
	ep, most, keys := r.bySlot[c.Slot], 0, d.text.keys
	for _, j := range ep.pending {
		most = commonBeyond(keys, r.flights[j].chain, most)
	}
	for j := range ep.mirror.unheard {
		if u := &ep.mirror.unheard[j]; d.now.Sub(u.at) < kvOverdue {
			most = commonBeyond(keys, u.chain, most)
		}
	}
	if most == 0 {
		return 0
	}
	return wholeBlocks(c, min(d.size.At(blocks.Bytes(most)), v.PromptTokens-1))
}

// kvNote keeps with a flight what its prediction was made of.
func (r *Router) kvNote(d *decision, ep *endpoint, f *flight, c *pick.Candidate) {
	x := &d.text
	f.kv = kvFlight{stored: ep.mirror.stored, heads: r.kv.nextHead, adapter: c.Adapter}
	if r.kv.any {
		r.kv.label(f.tenant, f.session)
	}
	if !r.kv.any || !x.events {
		return
	}
	f.kv.exact = c.Exact
	if tokens, ok := r.kvPredict(x, d.size.Tokens, c); ok {
		f.kv.known, f.kv.said = true, tokens
		f.kv.guess = x.limit > 0 && tokens > x.limit
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
func (r *Router) kvSay(ep *endpoint, detail string) { r.health.Say(ep.id(), "KV events: "+detail) }
