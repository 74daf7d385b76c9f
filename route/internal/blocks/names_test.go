package blocks

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
)

// TestNamesInCommon: prompts have as many names in common as blocks of their common beginning are kept, within a
// scope, and none between two: of other tenants, models or adapters.
func TestNamesInCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		same := rapid.IntRange(0, 700).Draw(t, "same")
		content := func(own uint64, blocks int) *fleet.Content {
			c := &fleet.Content{}
			for i := range same + blocks {
				name := Scramble(uint64(i))
				if i >= same {
					name = Scramble(name + own)
				}
				c.Blocks = append(c.Blocks, name)
			}
			return c
		}
		a, b := content(1, rapid.IntRange(0, 99).Draw(t, "of one")),
			content(2, rapid.IntRange(0, 99).Draw(t, "of the other"))
		scope := Scope("m", "t", a)
		names := Keys(nil, scope, a)
		if got := Common(names, Keys(nil, scope, b)); got != Kept(same) {
			t.Fatalf("%d names are common, want those of %d blocks, %d", got, same, Kept(same))
		}
		for what, other := range map[string]uint64{
			"tenant": Scope("m", "u", a), "no tenant": Scope("m", "", a), "model": Scope("n", "t", a),
			"salt":            Scope("m", "t", &fleet.Content{Scope: 1}),
			"model as tenant": Scope("t", "m", a),
		} {
			if n := Common(names, Keys(nil, other, a)); n != 0 {
				t.Fatalf("with another %s %d names are common", what, n)
			}
		}
		if slices.Contains(names, 0) {
			t.Fatal("a name is 0, which names no block")
		}
	})
	if got := Keys(nil, 5, &fleet.Content{Blocks: []uint64{5}}); got[0] == 0 {
		t.Error("a block that hashes to its scope has the name 0")
	}
	if Bytes(40) != Reach(40)*fleet.BlockBytes || Hash("", "m") == Hash("t", "m") {
		t.Error("bytes or tenants are not counted")
	}
}
