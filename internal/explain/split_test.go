package explain

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/route"
)

// TestEverySplitIsExplained: each reason for two legs or one has words of its own.
func TestEverySplitIsExplained(t *testing.T) {
	said := map[string]route.SplitWhy{}
	for _, w := range route.SplitWhys() {
		v := Decision{Split: &Split{Why: string(w), WholeMs: 100, SplitMs: 50}}
		if w.Splits() {
			v.Leg = "decode"
		}
		text := parted(&v)
		if strings.Contains(text, "by the rule") || !strings.HasSuffix(text, ".") {
			t.Errorf("%s is explained as %q", w, text)
		}
		if other, twice := said[text]; twice {
			t.Errorf("%s and %s are both explained as %q", w, other, text)
		}
		said[text] = w
	}
	if parted(&Decision{}) != "" {
		t.Error("something is said of a request that nothing could split")
	}
}
