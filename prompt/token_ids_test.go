package prompt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/prompt"
)

// Token ids beside the messages of a chat are the prompt (TensorRT-LLM's routers use them directly): the messages and
// tools from which they were made do not count as well.
func TestTokenIDsBesideMessages(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function"}]`
	p := parserOf(t)
	for _, tt := range []struct {
		api  prompt.API
		body string
		ids  int  // counted
		text bool // counted
		bad  string
	}{
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":[1,2,3]}`, 3, false, ""},
		{prompt.Chat, `{"prompt_token_ids" : [ 1 , 128000 ],` + messages + `}`, 2, false, ""},
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":[1],"prompt_token_ids":[1,2]}`, 2, false, ""},
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":[]}`, 0, true, ""},
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":null}`, 0, true, ""},
		{prompt.Completions, `{"prompt":"hello","prompt_token_ids":[1,2]}`, 0, true, ""},
		{
			prompt.Chat, `{` + messages + `,"prompt_token_ids":"1,2"}`, 0, true,
			`"prompt_token_ids" must be a list of token ids, not a string`,
		},
		{
			prompt.Chat, `{` + messages + `,"prompt_token_ids":{"a":[1]}}`, 0, true,
			`"prompt_token_ids" must be a list of token ids, not an object`,
		},
		{
			prompt.Chat, `{` + messages + `,"prompt_token_ids":[1,"2"]}`, 0, true,
			`must be a list of token ids (integers from 0 on), and has something else in it`,
		},
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":[[1,2]]}`, 0, true, `has something else in it`},
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":[1,-2]}`, 0, true, `has something else in it`},
		{prompt.Chat, `{` + messages + `,"prompt_token_ids":[1.5]}`, 0, true, `has something else in it`},
	} {
		got, err := p.Parse(tt.api, []byte(tt.body), nil)
		if tt.bad != "" {
			if !errors.Is(err, prompt.ErrField) || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("%s: %v, want %q", tt.body, err, tt.bad)
			}
			continue
		}
		if err != nil || got.TokenIDs != tt.ids || (got.TextBytes > 0) != tt.text {
			t.Errorf("%s: %d ids, %d bytes of text, %v; want %d ids, text %t",
				tt.body, got.TokenIDs, got.TextBytes, err, tt.ids, tt.text)
		}
	}
}

func parserOf(t *testing.T) *prompt.Parser {
	t.Helper()
	p, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TokenIDs returns the ids in the body, wherever the API has them, and nothing for other prompts.
func TestTokenIDsOfChain(t *testing.T) {
	p := parserOf(t)
	for _, tt := range []struct {
		api  prompt.API
		body string
		most int
		want []uint32
		all  bool
	}{
		{prompt.Completions, `{"prompt":[1,2,128000]}`, 9, []uint32{1, 2, 128000}, true},
		{prompt.Completions, `{"prompt":[1,2,128000],"model":"m"}`, 3, []uint32{1, 2, 128000}, true},
		{prompt.Completions, `{"prompt":[1,2,128000]}`, 2, []uint32{1, 2}, false},
		{prompt.Completions, `{"prompt": [ [ 7 , 8 ] ] }`, 9, []uint32{7, 8}, true},
		{prompt.Completions, `{"prompt":[1,2],"prompt":[3]}`, 9, []uint32{3}, true},
		{prompt.Completions, `{"prompt":[1],"prompt":"a text"}`, 9, nil, false},
		{prompt.Completions, `{"prompt":[[7],[8]]}`, 9, nil, false},
		{prompt.Completions, `{"prompt":[7,"a"]}`, 9, nil, false},
		{prompt.Completions, `{"prompt":["abcd"]}`, 9, nil, false},
		{prompt.Completions, `{"prompt":"abcdefgh"}`, 9, nil, false},
		{prompt.Completions, `{"prompt":[]}`, 9, nil, false},
		{prompt.Completions, `{"prompt":[7],"suffix":"abcd"}`, 9, nil, false},
		{prompt.Generate, `{"input_ids":[5,6]}`, 9, []uint32{5, 6}, true},
		{prompt.Generate, `{"input_ids":[[5,6]]}`, 9, []uint32{5, 6}, true},
		{prompt.Generate, `{"text":"abcd","input_ids":[5,6]}`, 9, nil, false},
		{prompt.Chat, `{"messages":[{"role":"user","content":"x"}]}`, 9, nil, false},
		{prompt.OllamaGenerate, `{"prompt":[5,6],"system":"abcd"}`, 9, nil, false},
	} {
		var c prompt.Chain
		if _, err := p.ParseChain(tt.api, []byte(tt.body), nil, &c); err != nil {
			t.Errorf("%s: %v", tt.body, err)
			continue
		}
		if got, all := c.TokenIDs(nil, tt.most); !slices.Equal(got, tt.want) || all != tt.all {
			t.Errorf("%v %s: %v, all %t; want %v, %t", tt.api, tt.body, got, all, tt.want, tt.all)
		}
	}
}
