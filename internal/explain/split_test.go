package explain

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestEverySplitIsExplained: each reason for two legs or one has words of its own.
func TestEverySplitIsExplained(t *testing.T) {
	said := map[string]fleet.SplitWhy{}
	for _, w := range fleet.SplitWhys() {
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

// TestWhatALegIsDue: a leg's own candidates say when its own part is done, and what generates nothing has no first
// token.
func TestWhatALegIsDue(t *testing.T) {
	for leg, want := range map[string]string{
		"":        "the first token is due in 80 ms",
		"prefill": "the prompt is due to be computed in 80 ms",
		"decode":  "the first token is due 80 ms after the prompt is computed",
	} {
		v := Decision{Class: "turn", Leg: leg, Candidates: []Candidate{{TTFTMs: 80}}}
		if got := due(&v); got != want {
			t.Errorf("leg %q: %q, want %q", leg, got, want)
		}
	}
	for _, class := range []string{"embed", "aside"} {
		v := Decision{Class: class, Endpoint: "a", Candidates: []Candidate{{TTFTMs: 80}}}
		if got := due(&v); got != "the answer is due in 80 ms" {
			t.Errorf("%s: %q", class, got)
		}
		if got := strings.Join(v.Texts(), "\n"); strings.Contains(got, "first token") {
			t.Errorf("%s: %q", class, got)
		}
	}
}
