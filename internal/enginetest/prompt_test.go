package enginetest

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

// Whatever comes in, reading a prompt gives bytes or an error, the same each time.
func FuzzPrompt(f *testing.F) {
	for _, s := range []string{
		`"text"`, `[1,2,3]`, `[[1,2]]`, `["a"]`, `["a","b"]`, `[]`, `[[]]`, `null`, `[null]`, `{}`, `[-1]`, `[[["x"]]]`,
		`[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:"}}]`, `[{"role":"user","content":"a"}]`, `[{"type":"function_call"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // the body has been decoded before
		}
		a, errA := promptBytes(raw)
		b, errB := promptBytes(raw)
		if !bytes.Equal(a, b) || (errA == nil) != (errB == nil) {
			t.Fatalf("%q, %v and %q, %v", a, errA, b, errB)
		}
		if msgs, err := inputMessages(raw); err == nil {
			if _, err := render(nil, nil, msgs); err == nil && len(msgs) == 0 {
				t.Fatal("an input without messages was accepted")
			}
		}
		_, _ = appendContent(nil, raw)
	})
}

// What a client gets back is a prefix of what it sends next: prompt, answer, next turn.
func TestAnswersContinueThePrompt(t *testing.T) {
	text := func(s string) json.RawMessage { return quoted(s) }
	first := []message{{Role: "system", Content: text("be brief")}, {Role: "user", Content: text("hello \"you\"\n")}}
	prompt, err := render(nil, nil, first)
	if err != nil {
		t.Fatal(err)
	}
	answer := "An answer of any length."
	next, err := render(nil, nil, append(slices.Clone(first), message{Role: "assistant", Content: text(answer)}, message{Role: "user", Content: text("go on")}))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(next, append(prompt, answer...)) {
		t.Errorf("%q does not begin with %q and the answer", next, prompt)
	}
	parts := []message{first[0], {Role: "user", Content: json.RawMessage(`[{"type":"text","text":"hello \u0022you\u0022"},{"type":"text","text":"\n"}]`)}}
	if same, err := render(nil, nil, parts); err != nil || !bytes.Equal(same, prompt) {
		t.Errorf("parts render to %q (%v), the same text to %q", same, err, prompt)
	}
}

func TestChainCoversWhatIsBefore(t *testing.T) {
	a := bytes.Repeat([]byte("abcd"), 64)
	b := slices.Clone(a)
	b[100] = 'x' // in the second block of 16 tokens
	ca, cb := chain(1, a, 16), chain(1, b, 16)
	if len(ca) != 4 || ca[0] != cb[0] || ca[1] == cb[1] || ca[2] == cb[2] || ca[3] == cb[3] {
		t.Errorf("chains %x, %x", ca, cb)
	}
	if other := chain(2, a, 16); other[0] == ca[0] {
		t.Error("two roots share a block")
	}
	if ids := tokenIDs([]byte("abcdefgh")); !bytes.Equal(tokenBytes(ids), []byte("abcdefgh")) {
		t.Errorf("token ids %v", ids)
	}
}
