package explain

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestMissed: each cause is told in words of its own, with its figures.
func TestMissed(t *testing.T) {
	for _, tt := range []struct {
		miss Miss
		says []string
	}{
		{Miss{Cause: string(fleet.MissNew)}, []string{"no prompt that begins so"}},
		{Miss{Cause: string(fleet.MissTenant), Tokens: 250}, []string{"another tenant", "kept apart"}},
		{Miss{Cause: string(fleet.MissAdapter), Tokens: 4000}, []string{"4,000 tokens", "another model or adapter"}},
		{
			Miss{Cause: string(fleet.MissPrefix), Tokens: 4000, From: 5120, To: 5376, In: 3},
			[]string{"4,000 tokens", "in message 3, between bytes 5,120 and 5,376"},
		},
		{
			Miss{Cause: string(fleet.MissPrefix), Tokens: 4000, From: 5120, To: 5376, In: 3, Until: 4},
			[]string{"in message 3 or 4, between bytes"},
		},
		{
			Miss{Cause: string(fleet.MissPrefix), Tokens: 4000, From: 5120, To: 5376},
			[]string{"last one between bytes 5,120 and 5,376"},
		},
		{Miss{Cause: string(fleet.MissPrefix), Tokens: 4000, To: 128, In: 1}, []string{"from its beginning", "tools"}},
		{Miss{Cause: string(fleet.MissElsewhere), Tokens: 4000}, []string{"it was at home"}},
		{Miss{Cause: string(fleet.MissRestarted), Tokens: 4000}, []string{"e has lost its cache", "restart"}},
		{
			Miss{Cause: string(fleet.MissEvicted), Tokens: 4000, Work: 123456},
			[]string{"evicted", "123,456 tokens of other prompts since"},
		},
		{Miss{Cause: string(fleet.MissEvicted), Tokens: 4000}, []string{"e has evicted it."}},
		{
			Miss{Cause: string(fleet.MissEvicted), Tokens: 4000, Unseen: true},
			[]string{"against what was expected", "salt"},
		},
		{Miss{Cause: string(fleet.MissUnclear), Tokens: 4000}, []string{"another router or before a restart"}},
	} {
		text := missed(&Decision{Endpoint: "e", Home: "home", Miss: &tt.miss})
		for _, want := range tt.says {
			if !strings.Contains(text, want) || !strings.HasSuffix(text, ".") || text[0] != ' ' {
				t.Errorf("%+v: %q; want it to say %q", tt.miss, text, want)
			}
		}
	}
	if got := missed(&Decision{
		Endpoint: "e", Miss: &Miss{Cause: string(fleet.MissElsewhere), Tokens: 300},
	}); got != " Its beginning is cached at another endpoint only." {
		t.Error(got)
	}
	if got := missed(&Decision{
		Endpoint: "e", Home: "e", Miss: &Miss{Cause: string(fleet.MissElsewhere), Tokens: 300},
	}); !strings.Contains(got, "e has not computed the conversation: the last turn that it got failed, or was") {
		t.Error(got)
	}
	if missed(&Decision{}) != "" {
		t.Error("something is said of a prompt that was found")
	}
}
