package catalog

import (
	"encoding/json"
	"strconv"
	"testing"
)

// TestListsAreBounded: lists of many keys, each as long as an engine may make it, are kept within a bound, the newest
// among them.
func TestListsAreBounded(t *testing.T) {
	g := &Catalog{}
	raw := json.RawMessage(make([]byte, catalogBytes/mostEntries))
	long := make([]entry, mostEntries)
	for i := range long {
		long[i] = entry{id: strconv.Itoa(i), raw: raw}
	}
	for i := range 2 * mostLists {
		of := strconv.Itoa(i)
		g.begin(t.Context(), of)
		g.keep(of, long)
		if n := g.size(); n > mostBytes || g.lists[of] == nil || len(g.lists[of].entries) != mostEntries {
			t.Fatalf("after %d lists: %d bytes in %d lists", i+1, n, len(g.lists))
		}
		g.end(of, g.lists[of].fetching)
	}
	if len(g.lists) < 2 {
		t.Errorf("%d lists are kept", len(g.lists))
	}
}
