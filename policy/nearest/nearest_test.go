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
}

func TestHint(t *testing.T) {
	names := []string{
		"dynamo.kv", "random", "rank.kv_cache_aware", "round_robin", "smg.cache_aware", "smg.prefix_hash",
		"trtllm.kv_cache_aware",
	}
	tests := []struct{ typed, want string }{
		{"randm", `; did you mean "random"?`},
		{"Round-Robin", `; did you mean "round_robin"?`},
		{"smg", `; did you mean "smg.cache_aware" or "smg.prefix_hash"?`},
		{"kv", `; did you mean "dynamo.kv" or "rank.kv_cache_aware" or "trtllm.kv_cache_aware"?`},
		{"foo", ""},
		{"xyz", ""},
		{"", ""},
		{"a", ""},
		{strings.Repeat("z", 1_000_000), ""},
	}
	for _, tt := range tests {
		if got := Hint(tt.typed, names); got != tt.want {
			t.Errorf("Hint(%.20q) = %q, want %q", tt.typed, got, tt.want)
		}
	}
}
