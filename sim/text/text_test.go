package text

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 7, 1000} {
		got := Of(9, n)
		if want := max(n, 0) * TokenBytes; len(got) != want {
			t.Errorf("%d tokens: %d bytes, want %d", n, len(got), want)
		}
		if n > 0 && !strings.HasSuffix(got, ".") {
			t.Errorf("%q does not end in a full stop", got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			t.Errorf("%q needs escaping", got)
		}
	}
	long, short := Of(9, 1000), Of(9, 500)
	if long[:1999] != short[:1999] {
		t.Error("a longer text does not begin as a shorter one of its seed")
	}
}
