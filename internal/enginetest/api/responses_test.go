package api_test

import (
	"encoding/json"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// For any accepted input the messages can be rendered or are rejected.
func FuzzInputMessages(f *testing.F) {
	for _, s := range []string{
		`"text"`, `[1,2,3]`, `["a"]`, `[]`, `null`, `[null]`, `{}`, `[{"type":"text","text":"a"}]`,
		`[{"role":"user","content":"a"}]`, `[{"type":"function_call"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // the body has been decoded before
		}
		if msgs, err := api.InputMessages(raw); err == nil {
			if _, err := prompts.Render(nil, nil, msgs); err == nil && len(msgs) == 0 {
				t.Fatal("an input without messages was accepted")
			}
		}
	})
}
