package route

import "slices"

// kvLook finds the blocks that a prompt begins with: those of its conversation's last turn, if it goes on from there, else those of
// a prompt that began with the same text.
func (r *Router) kvLook(t *talk) {
	k := &r.kv
	k.prompt, k.limit, k.covers = nil, 0, 0
	keys := r.belief.keys
	if x := k.ties.get(kvKey(t.id)); t.id != "" && x != nil && x.goesOn(keys) {
		k.prompt, k.limit, k.covers = x.chain, x.prompt, len(keys)
		return
	}
	// The deepest place at which a chain is noted: where what an endpoint is believed to hold ends, or the prompt itself.
	for at := len(keys); at > 0; {
		if x := k.ties.get(anchorKey(keys[at-1])); x != nil {
			k.prompt, k.covers = x.chain, at
			return
		}
		below := 0
		for _, d := range r.belief.matches.All() {
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
	lease  Lease
	key    uint64 // of its conversation
	ends   uint64 // of the router's own blocks of it, the last
	reach  int    // how many there are
	shared uint64 // of those that were believed to be cached, the last; 0 when it was none, or all
	block  int    // tokens
	slot   int
	since  int // runs that nobody had claimed when it was routed (see kvHead)
	usage  Usage

	claimed bool // its blocks are found
}

// learnTie notes, at the end of a request, where in its text the chain ends.
func (r *Router) learnTie(l Lease, f *flight, u *Usage) {
	k := &r.kv
	e := kvEnd{lease: l, block: f.ep.kvBlock(), usage: *u}
	if e.block <= 0 || len(f.chain) == 0 || f.session == "" || u.PromptTokens <= 0 {
		return
	}
	e.key, e.ends, e.reach = kvKey(f.session), f.chain[len(f.chain)-1], len(f.chain)
	if f.depth > 0 && f.depth < len(f.chain) {
		e.shared = f.chain[f.depth-1]
	}
	e.slot, e.since = f.ep.slot, f.kv.heads
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

// kvTokens ties a request to the blocks that its tokens make; it may be over by now.
func (r *Router) kvTokens(ev *KVTokens) {
	k := &r.kv
	if !k.any {
		return
	}
	var key uint64
	block, end := 0, (*kvEnd)(nil)
	if f := r.flight(ev.Lease); f != nil && f.session != "" {
		key, block = kvKey(f.session), f.ep.kvBlock()
	} else {
		for i := range k.over {
			if e := &k.over[i]; e.lease == ev.Lease && e.key != 0 {
				key, block, end = e.key, e.block, e
			}
		}
	}
	names := KVNames(ev.Tokens, block, ev.Salt, ev.Extra, k.chain[:0])
	k.chain = names
	if key == 0 || len(names) == 0 {
		return
	}
	x := k.ties.make(key)
	if len(x.chain) < len(names) || !slices.Equal(x.chain[:len(names)], names) {
		k.ties.set(x, 0, names)
	}
	for more := k.loose.take(x.chain[len(x.chain)-1]); more != nil; more = k.loose.take(x.chain[len(x.chain)-1]) {
		k.ties.set(x, len(x.chain), more)
	}
	k.own(x)
	if end != nil {
		k.learn(end)
	}
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

func (l *kvLoose) take(parent uint64) []uint64 {
	names := l.after[parent]
	delete(l.after, parent)
	return names
}
