package nearest

import (
	"strings"
	"testing"
)

func TestEdits(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"random", "random", 0},
		{"randm", "random", 1},
		{"kitten", "sitting", 3},
		{"flaw", "lawn", 2},
	}
	for _, tt := range tests {
		if got := edits(tt.a, tt.b); got != tt.want {
			t.Errorf("edits(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	if got := Name(strings.Repeat("z", 1_000_000), []string{"random", "round_robin"}); got == "" {
		t.Error("no name is nearest to a very long one")
	}
}
