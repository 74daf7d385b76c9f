package route

import "github.com/warmpath/warmpath/route/blocks"

// tie says which blocks a conversation's prompt consists of, in the names of kvstream.Stream, and where in the router's own view of the prompt
// the last turn ended.
type tie struct {
	key        uint64 // conversation, or place in a prompt (see anchor)
	chain      []uint64
	ends       uint64 // of the router's own blocks of the last prompt, the last; 0 unknown
	reach      int    // how many those were
	prompt     int    // tokens of that prompt by the engine's count
	least      int    // blocks that the chain has if it is the prompt's, and
	most       int    // with the answer
	prev, next *tie
}

// kvTies remembers whose blocks are whose: by conversation, and by where in a prompt's text a chain of blocks ends (anchors). It is bounded
// by the names in it, and forgets what was not used for longest.
type kvTies struct {
	byKey map[uint64]*tie
	used  tie // head of the ring: next is the latest
	names int // in all chains
}

const (
	mostTieNames = 4 << 20 // 32 MB; 64 million tokens in blocks of 16
	mostTies     = 1 << 17
)

func (t *kvTies) init() {
	t.byKey = map[uint64]*tie{}
	t.used.prev, t.used.next = &t.used, &t.used
}

// get finds a tie and marks it as used; nil when there is none.
func (t *kvTies) get(key uint64) *tie {
	x := t.byKey[key]
	if x != nil {
		t.unlink(x)
		t.link(x)
	}
	return x
}

// make finds a tie or makes it.
func (t *kvTies) make(key uint64) *tie {
	x := t.get(key)
	if x == nil {
		x = &tie{key: key}
		t.byKey[key] = x
		t.link(x)
	}
	return x
}

// set replaces the end of a chain: what follows the first keep names.
func (t *kvTies) set(x *tie, keep int, names []uint64) {
	t.names -= len(x.chain)
	x.chain = append(x.chain[:keep], names...)
	t.names += len(x.chain)
	for (t.names > mostTieNames || len(t.byKey) > mostTies) && t.used.prev != x {
		t.drop(t.used.prev)
	}
}

// forget lets go of a conversation.
func (t *kvTies) forget(key uint64) {
	if x := t.byKey[key]; x != nil {
		t.drop(x)
	}
}

func (t *kvTies) drop(x *tie) {
	t.names -= len(x.chain)
	delete(t.byKey, x.key)
	t.unlink(x)
}

func (t *kvTies) link(x *tie) {
	x.prev, x.next = &t.used, t.used.next
	x.next.prev, t.used.next = x, x
}

func (t *kvTies) unlink(x *tie) { x.prev.next, x.next.prev = x.next, x.prev }

// tie enters stored blocks into a conversation's chain, after their parent. It reports whether they are tied: those without a label go to
// the conversation whose chain they go on from, else to the one request that can have caused them (only; 0 is nobody).
func (t *kvTable) tie(label, only, parent uint64, names []uint64) bool {
	key := label
	if key == 0 && parent != 0 {
		key = t.owner(parent)
	}
	if key == 0 && t.tokens {
		if x, past := t.within(names); x != nil { // a run that begins in a prompt whose tokens are known and goes on into the answer
			t.ties.set(x, len(x.chain), names[past:])
			t.own(x)
			return true
		}
	}
	if key == 0 {
		key = only
	}
	if key == 0 {
		t.loose.put(parent, names)
		return false
	}
	x := t.ties.make(key)
	if keep, ok := t.after(x, parent); ok {
		t.ties.set(x, keep, names)
	} else if path, held := t.index.Chain(parent, t.chain[:0]); held {
		t.chain = path
		t.ties.set(x, 0, path)
		t.ties.set(x, len(x.chain), names)
	} else {
		return false
	}
	t.own(x)
	return true
}

// owner is the conversation whose chain ends with a block; 0 for none.
func (t *kvTable) owner(name uint64) uint64 {
	if o := t.ties.byKey[tailKey(name)]; o != nil && len(o.chain) == 1 && t.ties.byKey[o.chain[0]] != nil {
		return o.chain[0]
	}
	return 0
}

// within finds a conversation whose chain ends within a run, and how many blocks of the run come up to there.
func (t *kvTable) within(names []uint64) (x *tie, past int) {
	for i := len(names) - 1; i >= 0; i-- {
		if x := t.ties.byKey[t.owner(names[i])]; x != nil && len(x.chain) > 0 && x.chain[len(x.chain)-1] == names[i] {
			return x, i + 1
		}
	}
	return nil, 0
}

// own notes whose the last block of a chain is, for events that do not say.
func (t *kvTable) own(x *tie) {
	o := t.ties.make(tailKey(x.chain[len(x.chain)-1]))
	t.ties.set(o, 0, []uint64{x.key})
}

// tailKey is where the owner of a chain's last block is noted.
func tailKey(name uint64) uint64 { return blocks.Scramble(name^0x7461696c) &^ 1 }

// anchorKey is where the chain of a prompt that ends with one of the router's own blocks is noted.
func anchorKey(block uint64) uint64 { return blocks.Scramble(block^0x616e63686f72) &^ 1 }

// after is how many names of a chain come before what follows parent.
func (t *kvTable) after(x *tie, parent uint64) (keep int, ok bool) {
	if parent == 0 {
		return 0, true
	}
	for i := len(x.chain) - 1; i >= 0; i-- {
		if x.chain[i] == parent {
			return i + 1, true
		}
	}
	return 0, false
}
