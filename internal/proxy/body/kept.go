package body

import "bytes"

// Kept is a copy of a body for a use beside its request, and what is read for that. All of it counts in a budget until
// Release.
type Kept struct {
	bytes []byte
	in    *Budget
	held  int
}

// Keep copies the whole body; nil if it is longer than most bytes, or if the budget has no room for it.
func (p *Payload) Keep(most int, in *Budget) *Kept {
	k := &Kept{in: in}
	if n := p.len(); n > most || !k.Take(n) {
		return nil
	}
	if k.bytes = bytes.Clone(p.Bytes); p.pieces != nil {
		k.bytes = bytes.Join(p.pieces, nil)
	}
	return k
}

// Bytes is the body.
func (k *Kept) Bytes() []byte { return k.bytes }

// Take counts n bytes more, unless fewer are left.
func (k *Kept) Take(n int) bool {
	if !k.in.Take(n) {
		return false
	}
	k.held += n
	return true
}

// Release ends the count. It is called once.
func (k *Kept) Release() { k.in.Give(k.held) }
