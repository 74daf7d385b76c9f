package reported

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
