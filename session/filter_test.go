package session

import (
	"testing"

	"pgregory.net/rapid"
)

// TestFilterHidesNothing: an lru with its filter gives what one without would, whatever is used in whatever order.
func TestFilterHidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 40).Draw(t, "room")
		l := newLRU[int](room)
		var order []uint64 // the latest used first
		use := func(key uint64) {
			for i, k := range order {
				if k == key {
					order = append(order[:i], order[i+1:]...)
					break
				}
			}
			if order = append([]uint64{key}, order...); len(order) > room {
				order = order[:room]
			}
		}
		for i := range 400 {
			key := rapid.Uint64Range(0, uint64(3*room)).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				l.put(key, i)
				use(key)
				continue
			}
			held := false
			for _, k := range order {
				held = held || k == key
			}
			if got := l.get(key) != nil; got != held {
				t.Fatalf("step %d: key %d is there: %v, want %v", i, key, got, held)
			}
			if held {
				use(key)
			}
		}
	})
}

// TestFilterSparesLookUps: of hashes that are not there few get through.
func TestFilterSparesLookUps(t *testing.T) {
	l := newLRU[int](1000)
	for i := range uint64(5000) {
		l.put(i*0x123456789abcdef1, 0)
	}
	through := 0
	for i := range uint64(10_000) {
		if l.seen.has(i*0x5851f42d4c957f2d + 7) {
			through++
		}
	}
	if through > 2000 {
		t.Errorf("%d of 10,000 hashes that are not there get through", through)
	}
}
