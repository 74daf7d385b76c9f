package send

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// TestAskBook: who is asked, and that a refusal is forgotten in the end.
func TestAskBook(t *testing.T) {
	var b askMemory
	now := time.Unix(1_800_000_000, 0)
	at := func(name string, kind fleet.Kind, api prompt.API, later time.Duration) bool {
		return b.allows(&route.Decision{Endpoint: fleet.Endpoint{Name: name}, Kind: kind}, api, now.Add(later))
	}
	for _, tt := range []struct {
		kind              fleet.Kind
		chat, completions bool
	}{
		{fleet.KindVLLM, true, true},
		{fleet.KindSGLang, true, true},
		{fleet.KindTRTLLM, true, true},
		{fleet.KindOllama, true, false},
		{fleet.KindLlamaCpp, false, false},
		{fleet.KindOther, false, false},
		{fleet.KindUnknown, false, false},
	} {
		if at("new", tt.kind, prompt.Chat, 0) != tt.chat ||
			at("new", tt.kind, prompt.Completions, 0) != tt.completions {
			t.Errorf("%q: asked %t %t, want %t %t", tt.kind, !tt.chat, !tt.completions, tt.chat, tt.completions)
		}
	}
	b.note("e", func(n *askNote) { n.usageRefused = now })
	b.note("e", func(n *askNote) { n.answers = true })
	for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindOther} {
		if at("e", kind, prompt.Chat, 0) || at("e", kind, prompt.Chat, askAgain-1) {
			t.Errorf("%s: asked although it refused", kind)
		}
		if !at("e", kind, prompt.Chat, askAgain) {
			t.Errorf("%s: never asked again", kind)
		}
	}
	if !at("f", fleet.KindVLLM, prompt.Chat, 0) {
		t.Error("another endpoint is held to its neighbour's refusal")
	}
	for i := range 3 * askNotes {
		b.note(strconv.Itoa(i), func(n *askNote) { n.answers = true })
		if len(b.notes) > askNotes {
			t.Fatalf("%d notes", len(b.notes))
		}
	}
	if last := strconv.Itoa(3*askNotes - 1); !at(last, fleet.KindOther, prompt.Chat, 0) {
		t.Error("the latest note is lost")
	}
}
