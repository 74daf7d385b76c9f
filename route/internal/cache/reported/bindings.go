package reported

import (
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// binding says which blocks a conversation's prompt consists of, in the names of kvstream, and where in the router's
// own blocks of the prompt the last turn ended.
type binding struct {
	key        uint64 // a conversation, or what Conversation, labelKey, tailKey and checkpointKey make
	chain      []uint64
	ends       uint64 // the last of the router's own blocks of the last prompt; 0 unknown
	reach      int    // how many those were
	prompt     int    // tokens of that prompt by the engine's count
	least      int    // blocks that the chain has if it is the prompt's, and
	most       int    // with the answer
	prev, next *binding
}

// goesOn reports whether a prompt, by the router's own blocks, goes on from the last turn, whose blocks are known.
func (x *binding) goesOn(keys []uint64) bool {
	return x.reach > 0 && x.reach <= len(keys) && keys[x.reach-1] == x.ends && len(x.chain) >= x.least
}

// turn is the blocks of the last turn. The chain is longer when the next one is under way, or when another prompt went
// on from this one.
func (x *binding) turn() []uint64 { return x.chain[:min(len(x.chain), x.most)] }

// bindings remembers whose blocks are whose: by conversation, and by where in a prompt's text a chain of blocks ends
// (checkpoints). The names in it are bounded; what was not used for longest is forgotten.
type bindings struct {
	byKey map[uint64]*binding
	used  binding // head of the ring: next is the latest
	names int     // in all chains
}

const (
	mostNames    = bound.Few * bound.Most // 32 MB; 64 million tokens in blocks of 16
	mostBindings = 2 * bound.Most         // a conversation has another one for the end of its chain
)

// get finds a binding and marks it as used; nil when there is none.
func (b *bindings) get(key uint64) *binding {
	x := b.byKey[key]
	if x != nil {
		b.unlink(x)
		b.link(x)
	}
	return x
}

func (b *bindings) make(key uint64) *binding {
	x := b.get(key)
	if x == nil {
		x = &binding{key: key}
		b.byKey[key] = x
		b.link(x)
	}
	return x
}

// set replaces the end of a chain: what follows the first keep names.
func (b *bindings) set(x *binding, keep int, names []uint64) {
	b.names -= len(x.chain)
	x.chain = append(x.chain[:keep], names...)
	b.names += len(x.chain)
	for (b.names > mostNames || len(b.byKey) > mostBindings) && b.used.prev != x {
		b.drop(b.used.prev)
	}
}

func (b *bindings) drop(x *binding) {
	b.names -= len(x.chain)
	delete(b.byKey, x.key)
	b.unlink(x)
}

func (b *bindings) link(x *binding) {
	x.prev, x.next = &b.used, b.used.next
	x.next.prev, b.used.next = x, x
}

func (b *bindings) unlink(x *binding) { x.prev.next, x.next.prev = x.next, x.prev }

// Conversation names a tenant's conversation. It is never 0.
func Conversation(tenant, session string) uint64 { return blocks.Hash(tenant, session) | 1 }

// labelKey is where it is noted whose conversation an id is.
func labelKey(session string) uint64 {
	return blocks.Scramble(blocks.Hash("", session)^0x6c6162656c) &^ 1
}

// tailKey is where the owner of a chain's last block is noted.
func tailKey(name uint64) uint64 { return blocks.Scramble(name^0x7461696c) &^ 1 }

// checkpointKey is where the chain of a prompt that ends with one of the router's own blocks is noted.
func checkpointKey(block uint64) uint64 { return blocks.Scramble(block^0x616e63686f72) &^ 1 }

// label notes whose conversation an id is: engines label blocks with the id alone, and two tenants may use the same.
// Nothing has to be noted while there is one tenant.
func (t *Table) label(tenant, session string) {
	if t.tenants = t.tenants || tenant != ""; !t.tenants || session == "" {
		return
	}
	key, x := Conversation(tenant, session), t.bindings.make(labelKey(session))
	switch {
	case len(x.chain) == 0:
		t.bindings.set(x, 0, []uint64{key})
	case x.chain[0] != key:
		t.bindings.set(x, 0, []uint64{0}) // of two tenants: it names no conversation
	}
}

// labelled is the conversation that a label stands for; 0 when several tenants use it.
func (t *Table) labelled(session string) uint64 {
	if x := t.bindings.byKey[labelKey(session)]; x != nil && len(x.chain) == 1 {
		return x.chain[0]
	}
	return Conversation("", session)
}

// attachBlocks enters stored blocks into a conversation's chain, after their parent, and reports whether it could.
// Blocks without a label go to the conversation whose chain they go on from, else to the one request that can have
// caused them (only; 0 is none).
func (t *Table) attachBlocks(label, only, parent uint64, names []uint64) bool {
	key := label
	if key == 0 && parent != 0 {
		key = t.tailOwner(parent)
	}
	if key == 0 && t.tokens {
		// a run that begins in a prompt whose tokens are known and goes on into the answer
		if x, past := t.ownerInside(names); x != nil {
			t.bindings.set(x, len(x.chain), names[past:])
			t.recordTailOwner(x)
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
	x := t.bindings.make(key)
	if keep, ok := x.after(parent); ok {
		t.bindings.set(x, keep, names)
	} else if path, found := t.index.Chain(parent, t.chain[:0]); found {
		t.chain = path
		t.bindings.set(x, 0, path)
		t.bindings.set(x, len(x.chain), names)
	} else {
		return false
	}
	t.recordTailOwner(x)
	return true
}

// tailOwner is the conversation whose chain ends with a block; 0 for none.
func (t *Table) tailOwner(name uint64) uint64 {
	if o := t.bindings.byKey[tailKey(name)]; o != nil && len(o.chain) == 1 && t.bindings.byKey[o.chain[0]] != nil {
		return o.chain[0]
	}
	return 0
}

// ownerInside finds a conversation whose chain ends within a run, and how many blocks of the run come up to there.
func (t *Table) ownerInside(names []uint64) (x *binding, past int) {
	for i := len(names) - 1; i >= 0; i-- {
		if x := t.bindings.byKey[t.tailOwner(names[i])]; x != nil && len(x.chain) > 0 &&
			x.chain[len(x.chain)-1] == names[i] {
			return x, i + 1
		}
	}
	return nil, 0
}

// recordTailOwner notes whose the last block of a chain is, for events that do not say.
func (t *Table) recordTailOwner(x *binding) {
	o := t.bindings.make(tailKey(x.chain[len(x.chain)-1]))
	t.bindings.set(o, 0, []uint64{x.key})
}

// after is how many names of the chain come before what follows parent.
func (x *binding) after(parent uint64) (keep int, ok bool) {
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

// loose keeps the latest blocks that were stored and not bound, by the block they follow, for when it becomes known
// whose that is.
type loose struct {
	after map[uint64][]uint64
	order bound.Ring[uint64] // of the last bound.Many
}

func (l *loose) put(parent uint64, names []uint64) {
	if parent == 0 {
		return // the beginning of a prompt follows nothing
	}
	if l.after == nil {
		l.after = map[uint64][]uint64{}
	}
	oldest := l.order.Next(bound.Many)
	delete(l.after, *oldest)
	l.after[parent], *oldest = append([]uint64(nil), names...), parent
}

// takeContinuation takes out what goes on from a chain: a run that begins after its last block, or after an earlier one
// and contains the last.
func (l *loose) takeContinuation(chain []uint64) []uint64 {
	if len(l.after) == 0 {
		return nil
	}
	tail := chain[len(chain)-1]
	for i := len(chain) - 1; i >= max(0, len(chain)-bound.Look); i-- {
		names := l.after[chain[i]]
		if past := len(chain) - 1 - i; len(names) > past && (past == 0 || names[past-1] == tail) {
			delete(l.after, chain[i])
			return names[past:]
		}
	}
	return nil
}
