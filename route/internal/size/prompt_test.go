package size

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/learnt"
)

// TestPrompt: the tokens of a prompt and of its beginnings: of all an even share, of a conversation's next turn what
// the engine counted for the last one and an estimate of the rest alone, with what stands in front of the text.
func TestPrompt(t *testing.T) {
	m := NewModel()
	m.Restore(&learnt.Size{TokensPerByte: 0.25, Counted: 9, Output: 100})
	for _, tt := range []struct {
		name   string
		req    fleet.Request
		last   Last
		tokens int
		at     map[int]int // by canonical bytes
	}{
		{"a text", fleet.Request{PromptBytes: 4000, Content: &fleet.Content{Bytes: 4000}}, Last{}, 1000, map[int]int{
			-1: 0, 0: 0, 1000: 250, 4000: 1000, 9000: 1000,
		}},
		{
			"tools in front",
			fleet.Request{PromptBytes: 4000, Content: &fleet.Content{Bytes: 3000, Lead: 1000}},
			Last{},
			1000,
			map[int]int{0: 0, 1000: 500, 3000: 1000},
		},
		{
			"a next turn",
			fleet.Request{PromptBytes: 4000, Content: &fleet.Content{Bytes: 4000}},
			Last{Bytes: 2000, Tokens: 800},
			800 + 500,
			map[int]int{1000: 400, 2000: 800, 3000: 1050, 4000: 1300},
		},
		{
			"a shorter one",
			fleet.Request{PromptBytes: 4000, Content: &fleet.Content{Bytes: 4000}},
			Last{Bytes: 5000, Tokens: 800},
			1000,
			map[int]int{2000: 500},
		},
		{
			"not a turn",
			fleet.Request{Class: fleet.Embed, PromptBytes: 4000, Content: &fleet.Content{Bytes: 4000}},
			Last{Bytes: 2000, Tokens: 800},
			1000,
			map[int]int{2000: 0},
		},
		{
			"after a stored response",
			fleet.Request{PromptBytes: 4000, Content: &fleet.Content{Bytes: 3000, Lead: 1000}},
			Last{Unsaid: 700},
			1700,
			map[int]int{0: 0, 1000: 1200, 3000: 1700},
		},
		{"token ids", fleet.Request{PromptTokens: 77}, Last{}, 77, map[int]int{100: 0}},
	} {
		p := m.Prompt(&tt.req, tt.last)
		if p.Tokens != tt.tokens {
			t.Errorf("%s: %d tokens, want %d", tt.name, p.Tokens, tt.tokens)
		}
		for bytes, want := range tt.at {
			if got := p.At(bytes); got != want {
				t.Errorf("%s: %d tokens in the first %d bytes, want %d", tt.name, got, bytes, want)
			}
		}
	}
	var after Model
	after.Restore(&m.Size)
	if after.Counted == 0 || after.TokensPerByte != 0.25 || after.Answer(&fleet.Request{}) != 100 ||
		after.Answer(&fleet.Request{MaxTokens: 10}) != 10 || after.Answer(&fleet.Request{Class: fleet.Embed}) != 0 {
		t.Errorf("after a snapshot %+v, want %+v", after, m)
	}
	p := m.Prompt(&fleet.Request{PromptBytes: 400, Content: &fleet.Content{Bytes: 400}}, Last{})
	for want, one := range map[int]fleet.Listed{7: {IDs: 7, Bytes: 100}, 25: {Bytes: 100}, 100: {Bytes: 900}} {
		if got := p.Listed(&one).Tokens; got != want {
			t.Errorf("one of several prompts, %+v: %d tokens, want %d", one, got, want)
		}
	}
}
