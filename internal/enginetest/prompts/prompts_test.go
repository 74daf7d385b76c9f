package prompts

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

// For any input, reading a prompt gives bytes or an error, reproducibly.
func FuzzPrompt(f *testing.F) {
	for _, s := range []string{
		`"text"`, `[1,2,3]`, `[[1,2]]`, `["a"]`, `["a","b"]`, `[]`, `[[]]`, `null`, `[null]`, `{}`, `[-1]`, `[[["x"]]]`,
		`[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:"}}]`,
		`[{"role":"user","content":"a"}]`, `[{"type":"function_call"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // the body has been decoded before
		}
		a, errA := PromptBytes(raw)
		b, errB := PromptBytes(raw)
		if !bytes.Equal(a, b) || (errA == nil) != (errB == nil) {
			t.Fatalf("%q, %v and %q, %v", a, errA, b, errB)
		}
		_, _ = appendContent(nil, raw)
	})
}

// What a client gets back is a prefix of what it sends next: prompt, answer, next turn.
func TestAnswersContinueThePrompt(t *testing.T) {
	text := func(s string) json.RawMessage { return Quoted(s) }
	first := []Message{{Role: "system", Content: text("be brief")}, {Role: "user", Content: text("hello \"you\"\n")}}
	prompt, err := Render(nil, nil, first)
	if err != nil {
		t.Fatal(err)
	}
	answer := "An answer of any length."
	next, err := Render(nil, nil, append(slices.Clone(first), Message{Role: "assistant", Content: text(answer)},
		Message{Role: "user", Content: text("go on")}))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(next, append(prompt, answer...)) {
		t.Errorf("%q does not begin with %q and the answer", next, prompt)
	}
	parts := []Message{first[0], {
		Role:    "user",
		Content: json.RawMessage(`[{"type":"text","text":"hello \u0022you\u0022"},{"type":"text","text":"\n"}]`),
	}}
	if same, err := Render(nil, nil, parts); err != nil || !bytes.Equal(same, prompt) {
		t.Errorf("parts render to %q (%v), the same text to %q", same, err, prompt)
	}
}

func TestChainCoversWhatIsBefore(t *testing.T) {
	a := bytes.Repeat([]byte("abcd"), 64)
	b := slices.Clone(a)
	b[100] = 'x' // in the second block of 16 tokens
	ca, cb := Chain(1, a, 16), Chain(1, b, 16)
	if len(ca) != 4 || ca[0] != cb[0] || ca[1] == cb[1] || ca[2] == cb[2] || ca[3] == cb[3] {
		t.Errorf("chains %x, %x", ca, cb)
	}
	if other := Chain(2, a, 16); other[0] == ca[0] {
		t.Error("two roots share a block")
	}
	if ids := TokenIDs([]byte("abcdefgh")); !bytes.Equal(TokenBytes(ids), []byte("abcdefgh")) {
		t.Errorf("token ids %v", ids)
	}
}
