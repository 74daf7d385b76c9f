package reported

import "testing"

// TestBounds: conversations beyond the bound are forgotten, the ones not used for longest first.
func TestBounds(t *testing.T) {
	k := New()
	k.open()
	for i := range uint64(mostBindings + 100) {
		x := k.bindings.make(i + 1)
		k.bindings.set(x, 0, []uint64{i})
	}
	if n := len(k.bindings.byKey); n != mostBindings || k.bindings.byKey[1] != nil ||
		k.bindings.byKey[mostBindings+100] == nil || k.bindings.names != mostBindings {
		t.Errorf("%d bindings with %d names", n, k.bindings.names)
	}
	x := k.bindings.make(1 << 40)
	k.bindings.set(x, 0, make([]uint64, mostNames))
	if k.bindings.names != mostNames || len(k.bindings.byKey) != 1 {
		t.Errorf("%d names in %d bindings", k.bindings.names, len(k.bindings.byKey))
	}
}
