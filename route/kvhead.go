package route

// kvHead is a run of blocks that an engine stored and did not say for whom. When an answer is over, its prompt's length and what of it was
// cached tell which of the runs is its own: it begins where the cached part ended, and ends with the prompt or within the answer.
type kvHead struct {
	slot         int
	start, depth int // blocks of the prompt in front of the run, and with it
	tail         uint64
	claimed      bool
	number       int // of runs noted before it
}

const mostHeads = 256

// noteHead notes blocks that are nobody's.
func (k *kvTable) noteHead(slot int, parent uint64, names []uint64) {
	if k.heads == nil {
		k.heads = make([]kvHead, mostHeads)
	}
	tail := names[len(names)-1]
	for i := range k.heads {
		if h := &k.heads[i]; parent != 0 && h.tail == parent && h.slot == slot {
			h.tail, h.depth = tail, h.depth+len(names) // the next chunk, or the answer; or the conversation's next turn, which begins here
		}
	}
	start := 0
	if parent != 0 {
		if start = k.index.Depth(parent); start == 0 {
			return
		}
	}
	k.heads[k.nextHead%mostHeads] = kvHead{slot: slot, start: start, depth: start + len(names), tail: tail, number: k.nextHead}
	k.nextHead++
}

// claim ties a prompt that is over to the run that is its own, if there is exactly one that can be.
func (k *kvTable) claim(e *kvEnd) {
	u := &e.usage
	if e.claimed || k.heads == nil || !u.CachedKnown {
		return
	}
	if x := k.ties.byKey[e.key]; x != nil && x.ends == e.ends && len(x.chain) >= x.least && len(x.chain) <= x.most {
		e.claimed = true
		return
	}
	found, least, most := u.CachedTokens/e.block, (u.PromptTokens-1)/e.block, (u.PromptTokens+u.OutputTokens)/e.block
	var own *kvHead
	for i := range k.heads {
		h := &k.heads[i]
		if h.tail == 0 || h.claimed || h.slot != e.slot || h.number < e.since || h.start != found || h.depth < least || h.depth > most {
			continue
		}
		if own != nil {
			return
		}
		own = h
	}
	if own == nil {
		return
	}
	path, held := k.index.Chain(own.tail, k.chain[:0])
	k.chain = path
	if !held {
		return
	}
	own.claimed, e.claimed = true, true
	x := k.ties.make(e.key)
	k.ties.set(x, 0, path)
	k.own(x)
	k.learn(e)
}

// claimLate is claim for the prompts that were over before their blocks were told.
func (k *kvTable) claimLate(slot int) {
	for i := max(0, k.overs-lateEnds); i < k.overs; i++ {
		if e := &k.over[i%mostOver]; e.slot == slot && e.key != 0 {
			k.claim(e)
		}
	}
}

const lateEnds = 16
