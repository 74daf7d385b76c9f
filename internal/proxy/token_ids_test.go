package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// Token ids beside the messages of a chat decide: the prompt is as long as they are, and what is cached is found by
// them, whatever the messages say.
func TestTokenIDsBesideMessagesDecide(t *testing.T) {
	list := func(from, n int) string {
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprint(from+i))
		}
		return "[" + strings.Join(ids, ",") + "]"
	}
	chat := func(says, ids string) string {
		return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(says, 100) +
			`"}],"prompt_token_ids":` + ids + `}`
	}
	r := newRig(t, proxy.Config{NeedsContent: true}, answers(200, `{"choices":[]}`))
	for i, tt := range []struct {
		name           string
		body           string
		prompt, cached int // tokens; cached at least
		cold           bool
	}{
		{"the first", chat("hello ", list(0, 640)), 640, 0, true},
		{"other messages, the same ids", chat("goodbye ", list(0, 640)), 640, 600, false},
		{"a longer list", chat("hello ", list(0, 960)), 960, 600, false},
		{"the same messages, other ids", chat("hello ", list(5000, 640)), 640, 0, true},
	} {
		if res, body := r.post("/v1/chat/completions", tt.body); res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", tt.name, res.StatusCode, body)
		}
		d := r.last(i + 1).Decision
		if d.PromptTokens != tt.prompt || d.CachedTokens < tt.cached || tt.cold && d.CachedTokens > 0 {
			t.Errorf("%s: %d tokens, %d cached; want %d and %d", tt.name, d.PromptTokens, d.CachedTokens,
				tt.prompt, tt.cached)
		}
	}
	if res, body := r.post("/v1/chat/completions", chat("hello ", `"1,2"`)); res.StatusCode != 400 ||
		!strings.Contains(body, "prompt_token_ids") {
		t.Errorf("ids of the wrong type: %d %s", res.StatusCode, body)
	}
}
