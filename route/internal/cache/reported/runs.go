package reported

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// run is blocks that an engine stored, one after another, without saying for which request. When a request has ended,
// its prompt's length and what of it was cached tell which run is its own: it begins where the cached part ended, and
// ends with the prompt or within the answer.
type run struct {
	slot         int
	start, depth int // blocks of the prompt in front of the run, and with it
	tail         uint64
	matched      bool
	number       int // of runs noted before it
}

// runs is the latest runs without a conversation.
type runs struct{ bound.Ring[run] }

// request is what is known of a request that has ended.
type request struct {
	lease  fleet.Lease
	key    uint64 // of its conversation
	ends   uint64 // the last of the router's own blocks of its prompt
	reach  int    // how many there are
	shared uint64 // the last of those that were believed to be cached; 0 when none was, all were, or more was found
	block  int    // tokens
	slot   int
	born   uint32 // of the endpoint
	since  int    // runs that had been noted when it was placed
	usage  fleet.Usage

	bound   bool // its blocks are found
	adapter bool // see lease
}

// finished is the last requests that have ended.
type finished struct{ bound.Ring[request] }

const (
	mostRuns = 4 * bound.Few // and requests that have ended and whose tokens may still be reported
	mostLate = 16            // of these, the latest, whose events may still come
)

// noteRun records blocks without a conversation.
func (t *Table) noteRun(slot int, parent uint64, names []uint64) {
	k, tail := &t.runs, names[len(names)-1]
	for i := range k.All() {
		if h := &k.All()[i]; parent != 0 && h.tail == parent && h.slot == slot {
			// the next chunk, or the answer; or the conversation's next turn, which begins here
			h.tail, h.depth = tail, h.depth+len(names)
		}
	}
	start := 0
	if parent != 0 {
		if start = t.index.Depth(parent); start == 0 {
			return
		}
	}
	number := k.Count()
	*k.Next(mostRuns) = run{slot: slot, start: start, depth: start + len(names), tail: tail, number: number}
}

// find finds a request that has ended by its lease; nil when it is not kept.
func (f *finished) find(l fleet.Lease) (found *request) {
	for i := range f.All() {
		if e := &f.All()[i]; e.lease == l {
			found = e
		}
	}
	return found
}

// matchRun binds a prompt whose answer has ended to the run that is its own, if there is exactly one that can be.
func (t *Table) matchRun(e *request) {
	u := &e.usage
	if e.bound || t.runs.Count() == 0 || !u.CachedKnown {
		return
	}
	if x := t.bindings.byKey[e.key]; x != nil && x.ends == e.ends && len(x.chain) >= x.least && len(x.chain) <= x.most {
		e.bound = true
		return
	}
	own := t.runs.only(e)
	if own == nil {
		return
	}
	path, found := t.index.Chain(own.tail, t.chain[:0])
	t.chain = path
	if !found {
		return
	}
	own.matched, e.bound = true, true
	x := t.bindings.make(e.key)
	t.bindings.set(x, 0, path)
	t.recordTailOwner(x)
	t.learn(e)
}

// only is the run that can be a request's; nil when none can, or several.
func (k *runs) only(e *request) (own *run) {
	u := &e.usage
	found, least, most := u.CachedTokens/e.block, (u.PromptTokens-1)/e.block, (u.PromptTokens+u.OutputTokens)/e.block
	for i := range k.All() {
		h := &k.All()[i]
		if h.tail == 0 || h.matched || h.slot != e.slot || h.number < e.since || h.start != found || h.depth < least ||
			h.depth > most {
			continue
		}
		if own != nil {
			return nil
		}
		own = h
	}
	return own
}

// learn notes where in the router's own blocks of a prompt its chain ends.
func (t *Table) learn(e *request) {
	x, u := t.bindings.make(e.key), &e.usage
	x.ends, x.reach, x.prompt = e.ends, e.reach, u.PromptTokens
	x.least, x.most = (u.PromptTokens-1)/e.block, (u.PromptTokens+u.OutputTokens)/e.block
	if len(x.chain) < x.least || len(x.chain) > x.most {
		return // the end of it is still to come, or it is another prompt's
	}
	if whole := u.PromptTokens / e.block; whole > 0 && whole <= len(x.chain) {
		t.addCheckpoint(x.ends, x.chain[:whole])
	}
	// What it shared with an earlier prompt is known now to the block.
	if found := u.CachedTokens / e.block; u.CachedKnown && e.shared != 0 && found > 0 && found <= len(x.chain) {
		t.addCheckpoint(e.shared, x.chain[:found])
	}
}

// addCheckpoint notes that a text up to one of the router's own blocks is these blocks of the engine. Of several claims
// the longest holds: less is found of what was evicted.
func (t *Table) addCheckpoint(block uint64, chain []uint64) {
	x := t.bindings.make(checkpointKey(block))
	if len(x.chain) > len(chain) && slices.Equal(x.chain[:len(chain)], chain) {
		return
	}
	t.bindings.set(x, 0, chain)
}
