package proxy

import "testing"

// TestRelayMemory: a relay has a large buffer only while its pieces are large, so that an open stream keeps little.
func TestRelayMemory(t *testing.T) {
	var m relayMemory
	for i, large := range []bool{false, true, true, false, true} {
		buf := m.room(large)
		if want := map[bool]int{false: eventBytes, true: relayBytes}[large]; len(buf) != want ||
			(m.large != nil) != large {
			t.Errorf("piece %d: %d bytes", i, len(buf))
		}
	}
	if m.free(); m.large != nil {
		t.Error("a large buffer is kept after the end")
	}
}
