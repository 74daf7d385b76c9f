package byhash

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestEqualWeightsOrderAsTheirScores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		w := rapid.Float64Range(1e-6, 1e6).Draw(t, "weight")
		sa, sb := score(a, w), score(b, w)
		if !(sa > 0) || math.IsInf(sa, 0) {
			t.Fatalf("score of %x is %v", a, sa)
		}
		if a>>12 > b>>12 && sa < sb || a>>12 < b>>12 && sa > sb {
			t.Fatalf("hashes %x and %x are in one order, scores %v and %v in the other", a, b, sa, sb)
		}
	})
	for _, hash := range []uint64{0, math.MaxUint64} {
		if s := score(hash, 1); !(s > 0) || math.IsInf(s, 0) {
			t.Errorf("score of %x is %v", hash, s)
		}
	}
}
