package fleet

import "testing"

// TestSlotCache: only a slot that was idle while another one got a request shows what becomes of its cache.
func TestSlotCache(t *testing.T) {
	had, empty := SlotState{Slot: 0, Task: 1}, SlotState{Slot: 0, Task: 1, Empty: true}
	busy, next := SlotState{Slot: 0, Task: 1, Busy: true}, SlotState{Slot: 1, Task: 2, Busy: true}
	for _, row := range []struct {
		name          string
		before, after []SlotState
		want          SlotCache
	}{
		{"nothing told", nil, nil, SlotCacheUnknown},
		{"nothing has begun", []SlotState{had}, []SlotState{had}, SlotCacheUnknown},
		{"kept", []SlotState{had}, []SlotState{had, next}, SlotCacheKept},
		{"emptied", []SlotState{had}, []SlotState{empty, next}, SlotCacheCleared},
		{"ended in between", []SlotState{busy}, []SlotState{had, next}, SlotCacheUnknown},
		{"refused, or an embedding", []SlotState{busy}, []SlotState{empty, next}, SlotCacheUnknown},
		{"empty before", []SlotState{empty}, []SlotState{empty, next}, SlotCacheUnknown},
		{"taken by another request", []SlotState{had}, []SlotState{{Task: 2, Empty: true}}, SlotCacheUnknown},
	} {
		after, before := LoadReport{SlotStates: row.after}, LoadReport{SlotStates: row.before}
		if got := after.SlotCache(&before); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
