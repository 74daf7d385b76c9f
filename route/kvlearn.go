package route

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/conversation"
)

// kvLook finds the blocks that a prompt begins with: those of its conversation's last turn, if it goes on from there, else those of
// a prompt that began with the same text.
func (r *Router) kvLook(p *promptText, tenant string, t *conversation.Found) {
	k := &r.kv
	p.chain, p.limit, p.covers = nil, 0, 0
	keys := p.keys
	if x := k.ties.get(kvKey(tenant, t.ID)); t.ID != "" && x != nil && x.goesOn(keys) {
		p.chain, p.limit, p.covers = x.chain, x.prompt, len(keys)
		return
	}
	// The deepest place at which a chain is noted: where what an endpoint is believed to hold ends, or the prompt itself.
	for at := len(keys); at > 0; {
		if x := k.ties.get(anchorKey(keys[at-1])); x != nil {
			p.chain, p.covers = x.chain, at
			return
		}
		below := 0
		for _, d := range p.matches.All() {
			if d < at {
				below = max(below, d)
			}
		}
		at = below
	}
}

// goesOn reports whether a prompt, by the router's own blocks, goes on from the last turn of a tie's conversation, whose blocks are known.
func (x *tie) goesOn(keys []uint64) bool {
	return x.reach > 0 && x.reach <= len(keys) && keys[x.reach-1] == x.ends && len(x.chain) >= x.least && len(x.chain) <= x.most
}

// kvEnd is what is known of a prompt when its answer is over.
type kvEnd struct {
	lease  fleet.Lease
	key    uint64 // of its conversation
	ends   uint64 // of the router's own blocks of it, the last
	reach  int    // how many there are
	shared uint64 // of those that were believed to be cached, the last; 0 when it was none, or all
	block  int    // tokens
	ep     *endpoint
	slot   int
	since  int // runs that nobody had claimed when it was routed (see kvHead)
	usage  fleet.Usage

	claimed bool // its blocks are found
	adapter bool // see kvFlight
}

// learnTie notes, at the end of a request, where in its text the chain ends.
func (r *Router) learnTie(l fleet.Lease, f *flight, u *fleet.Usage) {
	k := &r.kv
	e := kvEnd{lease: l, block: f.ep.kvBlock(), usage: *u}
	if e.block <= 0 || len(f.chain) == 0 || f.session == "" || u.PromptTokens <= 0 {
		return
	}
	e.key, e.ends, e.reach = kvKey(f.tenant, f.session), f.chain[len(f.chain)-1], len(f.chain)
	if f.depth > 0 && f.depth < len(f.chain) {
		e.shared = f.chain[f.depth-1]
	}
	e.adapter, e.ep, e.slot, e.since = f.kv.adapter, f.ep, f.ep.slot, f.kv.heads
	if f.kv.tokens > 0 && !r.kvCounted(f.ep, f.kv.tokens, u.PromptTokens) {
		k.ties.forget(e.key)
	}
	if k.ties.get(e.key) != nil {
		k.learn(&e)
	}
	k.claim(&e)
	if k.over == nil {
		k.over = make([]kvEnd, mostOver)
	}
	k.over[k.overs%mostOver] = e
	k.overs++
}

const mostOver = 256 // requests that are over and whose tokens may still be told

func (k *kvTable) learn(e *kvEnd) {
	x, u := k.ties.make(e.key), &e.usage
	x.ends, x.reach, x.prompt = e.ends, e.reach, u.PromptTokens
	x.least, x.most = (u.PromptTokens-1)/e.block, (u.PromptTokens+u.OutputTokens)/e.block
	if len(x.chain) < x.least || len(x.chain) > x.most {
		return // the end of it is still to come, or it is another's
	}
	if whole := u.PromptTokens / e.block; whole > 0 && whole <= len(x.chain) {
		k.anchor(x.ends, x.chain[:whole])
	}
	// What it shared with an earlier prompt is known now to the block.
	if found := u.CachedTokens / e.block; u.CachedKnown && e.shared != 0 && found > 0 && found <= len(x.chain) {
		k.anchor(e.shared, x.chain[:found])
	}
}

// anchor notes that a text up to one of the router's own blocks is these blocks of the engine. Of several claims the longest holds:
// less is found of what was evicted.
func (k *kvTable) anchor(block uint64, chain []uint64) {
	x := k.ties.make(anchorKey(block))
	if len(x.chain) > len(chain) && slices.Equal(x.chain[:len(chain)], chain) {
		return
	}
	k.ties.set(x, 0, chain)
}

// kvBlock is how many tokens a block of the endpoint has, 0 unknown.
func (e *endpoint) kvBlock() int {
	if e.mirror.block > 0 {
		return e.mirror.block
	}
	return e.report.BlockTokens
}

// kvLoose keeps the latest blocks that were stored and not tied, by the block they follow, for when it becomes known whose that is.
type kvLoose struct {
	after map[uint64][]uint64
	order []uint64 // of the last so many, in a ring
	at    int
}

const mostLoose = 1024

func (l *kvLoose) put(parent uint64, names []uint64) {
	if parent == 0 {
		return // the beginning of a prompt follows nothing
	}
	if l.after == nil {
		l.after, l.order = map[uint64][]uint64{}, make([]uint64, mostLoose)
	}
	delete(l.after, l.order[l.at])
	l.after[parent] = append([]uint64(nil), names...)
	l.order[l.at] = parent
	l.at = (l.at + 1) % mostLoose
}

// beyond takes out what goes on from a chain: a run that begins after its last block, or after one before and has that one in it.
func (l *kvLoose) beyond(chain []uint64) []uint64 {
	if len(l.after) == 0 {
		return nil
	}
	tail := chain[len(chain)-1]
	for i := len(chain) - 1; i >= max(0, len(chain)-longestRun); i-- {
		names := l.after[chain[i]]
		if past := len(chain) - 1 - i; len(names) > past && (past == 0 || names[past-1] == tail) {
			delete(l.after, chain[i])
			return names[past:]
		}
	}
	return nil
}

const longestRun = 2048 // blocks of one event that are looked for the end of a prompt
