package engine

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestSlotCache: what /slots of llama-server tells after a first and after a second request.
func TestSlotCache(t *testing.T) {
	read := func(file string) *fleet.LoadReport {
		var r fleet.Report
		a := Answer{Ask: AskLoad, Path: "/slots", Status: 200, Body: fixture(t, "llamacpp/b11669/"+file)}
		if err := dialect(t, fleet.KindLlamaCpp).Read(a, fleet.Part{}, &r); err != nil {
			t.Fatal(err)
		}
		return r.Load
	}
	for _, row := range []struct {
		name string
		want fleet.SlotCache
	}{{"split", fleet.SlotCacheKept}, {"unified", fleet.SlotCacheCleared}} {
		first, second := read("slots_"+row.name+"_1.json"), read("slots_"+row.name+"_2.json")
		if n := len(second.SlotStates); n != 2 {
			t.Errorf("%s: %d slots have had a request, want 2", row.name, n)
		}
		if got := second.SlotCache(first); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		if got := first.SlotCache(first); got != fleet.SlotCacheUnknown {
			t.Errorf("%s: %q from one report", row.name, got)
		}
	}
}
