package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// idList is so many token ids from one on, in JSON and as they are.
func idList(from, n int) (text string, ids []uint32) {
	var list []string
	for i := range n {
		ids = append(ids, uint32(from+i))
		list = append(list, fmt.Sprint(from+i))
	}
	return "[" + strings.Join(list, ",") + "]", ids
}

// What is cached of several prompts in one request is added up, and the engine gets the bytes that came.
func TestSeveralPrompts(t *testing.T) {
	var got string
	r := newRig(t, proxy.Config{NeedsContent: true, ByContent: true}, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		got = string(body)
		answers(200, `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}`)(w, q)
	})
	one, _ := idList(0, 640)
	two, _ := idList(5000, 320)
	text := func(s string) string { return `"` + strings.Repeat(s, 100) + `"` }
	for i, tt := range []struct {
		name          string
		path, body    string
		prompt        int // tokens; 0 where they are estimated
		least, atMost int // cached
	}{
		{"token ids", "/v1/completions", `{"model":"m","prompt":[` + one + `,` + two + `]}`, 960, 0, 0},
		{"the same", "/v1/completions", `{"model":"m", "prompt" : [ ` + one + `, ` + two + ` ]}`, 960, 940, 958},
		{"the other way round", "/v1/completions", `{"model":"m","prompt":[` + two + `,` + one + `]}`, 960, 940, 958},
		{"one of them", "/v1/completions", `{"model":"m","prompt":` + two + `}`, 320, 300, 319},
		{"one and another", "/v1/completions", `{"model":"m","prompt":[[1],` + two + `]}`, 321, 300, 319},
		{
			"texts", "/v1/completions",
			`{"model":"m","prompt":[` + text("h\u00e9llo ") + `,` + text("good-bye ") + `]}`, 0, 0, 0,
		},
		{
			"the same texts", "/v1/completions", `{"model":"m","prompt":[` + text(`h\u00e9llo `) + `,` +
				text("good-bye ") + `],"max_tokens":5}`, 0, 200, 2000,
		},
		// another model
		{"texts of generate", "/generate", `{"text":[` + text("h\u00e9llo ") + `,` + text("hello ") + `]}`, 0, 0, 0},
	} {
		if res, body := r.post(tt.path, tt.body); res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", tt.name, res.StatusCode, body)
		}
		if got != tt.body {
			t.Errorf("%s: the engine got %q, want %q", tt.name, got, tt.body)
		}
		d := r.last(i + 1).Decision
		if tt.prompt > 0 && d.PromptTokens != tt.prompt || d.CachedTokens < tt.least || d.CachedTokens > tt.atMost {
			t.Errorf("%s: %d tokens, %d cached; want %d and %d to %d", tt.name, d.PromptTokens, d.CachedTokens,
				tt.prompt, tt.least, tt.atMost)
		}
	}
}

// Another attempt goes by the same token ids as the first, and by each prompt of a list.
func TestRetriesKnowTokenIDs(t *testing.T) {
	one, ids := idList(1, 640)
	two, more := idList(9000, 320)
	for _, tt := range []struct {
		name, path, body string
		want             int
	}{
		{"a prompt", "/v1/completions", `{"model":"m","prompt":` + one + `}`, 624},
		{
			"a chat", "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"hello"}],"prompt_token_ids":` + one + `}`, 624,
		},
		{"two prompts", "/v1/completions", `{"model":"m","prompt":[` + one + `,` + two + `]}`, 624 + 304},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{NeedsContent: true, ByContent: true}, answers(503, `{"error":"busy"}`),
				answers(200, `{"choices":[]}`))
			for _, list := range [][]uint32{ids, more} { // another router had them computed at e1
				e := kvstream.Event{Kind: kvstream.Stored, BlockTokens: 16, Tokens: list}
				for i := range len(list) / 16 {
					e.Hashes = append(e.Hashes, uint64(list[0])<<20|uint64(i+1))
				}
				var ops kvstream.Ops
				s := kvstream.New(0)
				s.Apply(0, &kvstream.Batch{Events: []kvstream.Event{e}}, &ops)
				r.fleet.Observe(route.KVApplied{Endpoint: "e1", Ops: &ops, Blocks: s.Len(), Size: 16})
			}
			r.fleet.Observe(route.KVStreamState{Endpoint: "e1", State: kvstream.Exact, Detail: "followed"})
			if res, body := r.post(tt.path, tt.body); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			s := r.last(1)
			if s.Attempts != 2 || s.Decision.Endpoint.Name != "e1" || s.Decision.CachedTokens != tt.want {
				t.Errorf("attempt %d at %s with %d tokens cached, want the second at e1 with %d",
					s.Attempts, s.Decision.Endpoint.Name, s.Decision.CachedTokens, tt.want)
			}
			if s.Outcome != fleet.OK {
				t.Errorf("%v", s.Outcome)
			}
		})
	}
}
