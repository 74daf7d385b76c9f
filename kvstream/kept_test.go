package kvstream

import "testing"

// TestLittleIsKept: what one message took is kept for the next within a bound, wherever in it the long event was.
func TestLittleIsKept(t *testing.T) {
	const long = 1 << 16
	var b Batch
	var o Ops
	s := New(0)
	for seq := range uint64(40) {
		b.Reset()
		for range seq {
			b.Next().Kind = Cleared
		}
		e := b.Next()
		e.Kind, e.BlockTokens = Stored, 1
		for i := range uint64(long) {
			e.Hashes, e.Tokens, e.Extra = append(e.Hashes, i+1), append(e.Tokens, uint32(i)), append(e.Extra, i)
		}
		b.At = float64(seq)
		s.Apply(seq, &b, &o)
		o.Reset()
		if n := 8 * cap(o.names); n > mostKept {
			t.Fatalf("message %d: operations keep %d bytes", seq, n)
		}
	}
	b.Reset()
	n := 0
	for _, e := range b.Events[:cap(b.Events)] {
		n += 8*cap(e.Hashes) + 4*cap(e.Tokens) + 8*cap(e.Extra)
	}
	if n > mostKept {
		t.Errorf("a batch keeps %d bytes", n)
	}
	b.Next().Tokens = make([]uint32, 0, 64)
	b.Reset()
	if cap(b.Next().Tokens) != 64 {
		t.Error("a batch keeps nothing of a short message")
	}
}
