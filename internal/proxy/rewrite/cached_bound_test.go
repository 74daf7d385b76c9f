package rewrite

import (
	"bytes"
	"strings"
	"testing"
)

// TestCachedRewriteKeepsLittle: an engine that never ends the member is not waited for, and nothing of what it sends is
// lost.
func TestCachedRewriteKeepsLittle(t *testing.T) {
	for _, answer := range []string{
		`{"cached_tokens"` + strings.Repeat(" ", 1000) + `:7}`, `{"cached_tokens"` + strings.Repeat(":", 1000),
	} {
		whole := &Cached{value: []byte("288")}
		want := append(whole.Pass([]byte(answer)), whole.Close()...)
		w := &Cached{value: []byte("288")}
		var got []byte
		for i := range len(answer) {
			if got = append(got, w.Pass([]byte{answer[i]})...); len(w.carry) > longestCached {
				t.Fatalf("%d bytes are kept back after %d", len(w.carry), i)
			}
		}
		if got = append(got, w.Close()...); !bytes.Equal(got, want) || len(got) != len(answer) {
			t.Errorf("%d bytes became %d, in one piece %d", len(answer), len(got), len(want))
		}
	}
}
