package ablation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/route/ablation"
)

// TestOf: every name is one mechanism, another one for each.
func TestOf(t *testing.T) {
	var all ablation.Set
	for _, name := range ablation.Names() {
		s, err := ablation.Of(name)
		if err != nil || s == 0 || s&(s-1) != 0 || all.Has(s) {
			t.Errorf("%s: %b, %v", name, s, err)
		}
		all |= s
	}
	if !slices.IsSorted(ablation.Names()) {
		t.Error("the names are not sorted")
	}
	if s, err := ablation.Of(ablation.Names()...); s != all || err != nil {
		t.Errorf("all: %b, %v", s, err)
	}
	if s, err := ablation.Of(); s != 0 || err != nil {
		t.Errorf("none: %b, %v", s, err)
	}
	if s, err := ablation.Of("queue", "retruns"); err == nil || s != ablation.Queue ||
		!strings.Contains(err.Error(), `"retruns"; there are`) {
		t.Errorf("unknown: %b, %v", s, err)
	}
	if ablation.Set(0).Has(ablation.Queue) || !ablation.Returns.Has(ablation.Returns) {
		t.Error("Has")
	}
}
