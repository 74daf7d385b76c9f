package rewrite

import (
	"bytes"
	"testing"
)

// FuzzCachedRewrite: however an answer is cut, the same comes out, and nothing but the number changes.
func FuzzCachedRewrite(f *testing.F) {
	f.Add([]byte(`{"usage":{"prompt_tokens":310,"prompt_tokens_details":{"cached_tokens":310,"x":null}}}`), 60)
	f.Add([]byte(`data: {"choices":[{"delta":{"content":"\"cached_tokens\":7 "}}]}`+"\n\n"), 50)
	f.Add([]byte(`"cached_tokens" : 1`), 3)
	f.Add([]byte(`{"a\"cached_tokens":5}`), 4)
	f.Fuzz(func(t *testing.T, answer []byte, cut int) {
		run := func(pieces ...[]byte) (out []byte) {
			w := &Cached{value: []byte("288")}
			for _, p := range pieces {
				out = append(out, w.Pass(p)...)
			}
			return append(out, w.Close()...)
		}
		whole := run(answer)
		cut = max(0, min(cut, len(answer)))
		if got := run(answer[:cut], answer[cut:]); !bytes.Equal(got, whole) {
			t.Fatalf("%q cut at %d gives %q, whole %q", answer, cut, got, whole)
		}
		if !bytes.Contains(answer, cachedKey) && !bytes.Equal(whole, answer) {
			t.Fatalf("%q became %q", answer, whole)
		}
	})
}

func TestCachedRewrite(t *testing.T) {
	for in, want := range map[string]string{
		`{"prompt_tokens_details":{"cached_tokens":310}}`: `{"prompt_tokens_details":{"cached_tokens":288}}`,
		`{"prompt_tokens_details":{"cached_tokens": 0, "b":1}}`: `{"prompt_tokens_details":{"cached_tokens": ` +
			`288, "b":1}}`,
		`{"prompt_tokens_details":{"cached_tokens":null}}`: `{"prompt_tokens_details":{"cached_tokens":null}}`,
		`{"content":"it says \"cached_tokens\":310, as you know"}`: `{"content":"it says \"cached_tokens\":310, ` +
			`as you know"}`,
		`{"cached_tokens"}`: `{"cached_tokens"}`,
	} {
		w := &Cached{value: []byte("288")}
		if got := string(w.Pass([]byte(in))) + string(w.Close()); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}
