package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/prompt"
)

// reads takes in a body as the door does.
func reads(t testing.TB, p *prompt.Parser, api prompt.API, body string) *Content {
	t.Helper()
	c := NewContent()
	said, err := p.ParseChain(api, []byte(body), nil, &c.Chain)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if at := said.Field("prompt_token_ids"); api == prompt.Chat && said.TokenIDs > 0 {
		c.ReadIDs(p, []byte(body)[at.Start:at.End])
	}
	return c
}

// TestTokens: the token ids in a body are told where the engine's blocks depend on nothing else.
func TestTokens(t *testing.T) {
	const chat = `"messages":[{"role":"user","content":"x"}],"prompt_token_ids":[5,6]`
	var p prompt.Parser
	for _, tt := range []struct {
		api  prompt.API
		body string
		want []uint32
	}{
		{prompt.Completions, `{"prompt":[1,2,3]}`, []uint32{1, 2, 3}},
		{prompt.Generate, `{"input_ids":[1,2,3]}`, []uint32{1, 2, 3}},
		{prompt.Chat, `{` + chat + `}`, []uint32{5, 6}},
		{prompt.Chat, `{` + chat + `,"tools":[{"type":"function"}]}`, []uint32{5, 6}}, // they are rendered in the ids
		{prompt.Completions, `{"prompt":"text"}`, nil},
		{prompt.Completions, `{"prompt":[[1],[2]]}`, nil},
		{prompt.Completions, `{"prompt":[1,2,3],"cache_salt":"s"}`, nil},
		{prompt.Chat, `{` + chat + `,"cache_salt":"s"}`, nil},
		{prompt.Generate, `{"input_ids":[1,2,3],"extra_key":"s"}`, nil},
		{prompt.Generate, `{"input_ids":[1,2,3],"lora_path":"a"}`, nil},
		{prompt.Completions, `{"prompt":[1,2,3],"lora_request":{"lora_name":"a"}}`, nil},
		{prompt.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}],"prompt_token_ids":[5,6]}`, nil},
	} {
		c := reads(t, &p, tt.api, tt.body)
		got := c.Tokens()
		if (got == nil) != (tt.want == nil) || got != nil && (!slices.Equal(got.IDs, tt.want) || got.More) {
			t.Errorf("%s: %+v, want %v", tt.body, got, tt.want)
		}
		c.Release()
	}
	many := reads(t, &p, prompt.Completions, idsBody(mostIDs+1))
	if got := many.Tokens(); got == nil || len(got.IDs) != mostIDs || !got.More || got.IDs[mostIDs-1] != mostIDs-1 {
		t.Error("a prompt of more ids than are read is not told as its beginning")
	}
}

func idsBody(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", i)
	}
	return `{"prompt":[` + b.String()[1:] + `]}`
}

// TestTokensOfList: each of several prompts that are token ids has its own, as many as are read in all.
func TestTokensOfList(t *testing.T) {
	var p prompt.Parser
	lists := func(c *Content) (out []string) {
		for _, q := range c.ForRouter(prompt.Completions).List {
			out = append(out, fmt.Sprint(q.Tokens == nil, q.IDs, q.Bytes))
		}
		return out
	}
	c := reads(t, &p, prompt.Completions, `{"prompt":[[1,2,3],"text",[4]]}`)
	if got, want := lists(c), []string{"true 3 12", "true 0 4", "true 1 4"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	if c.Tokens() != nil {
		t.Error("ids of all prompts together are told")
	}
	for i, want := range [][]uint32{{1, 2, 3}, nil, {4}} {
		if got := c.about.List[i].Tokens; (got == nil) != (want == nil) ||
			got != nil && (!slices.Equal(got.IDs, want) || got.More) {
			t.Errorf("prompt %d: %+v, want %v", i, got, want)
		}
	}
	c.Release()
	salted := reads(t, &p, prompt.Completions, `{"prompt":[[1,2,3],[4]],"cache_salt":"s"}`)
	salted.ForRouter(prompt.Completions)
	if salted.Tokens(); salted.about.List[0].Tokens != nil {
		t.Error("ids are told of a salted request")
	}
	half := idsBody(mostIDs/2 + 10)
	half = strings.TrimSuffix(strings.TrimPrefix(half, `{"prompt":`), "}")
	many := reads(t, &p, prompt.Completions, `{"prompt":[`+half+`,`+half+`,[7]]}`)
	many.ForRouter(prompt.Completions)
	many.Tokens()
	first, second, third := many.about.List[0].Tokens, many.about.List[1].Tokens, many.about.List[2].Tokens
	if len(first.IDs) != mostIDs/2+10 || first.More || len(second.IDs) != mostIDs/2-10 || !second.More || third != nil {
		t.Errorf("%d, %d ids are read of %d in all; the third has %v", len(first.IDs), len(second.IDs), mostIDs, third)
	}
}

// BenchmarkTokens is what it takes to have the ids of a prompt of 128,000 tokens, beside the one scan of its body.
func BenchmarkTokens(b *testing.B) {
	var p prompt.Parser
	c := reads(b, &p, prompt.Completions, idsBody(128_000))
	b.ReportAllocs()
	for b.Loop() {
		if c.Tokens() == nil {
			b.Fatal("no ids")
		}
	}
}
