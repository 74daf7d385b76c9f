package sim_test

import (
	"testing"

	simtext "github.com/warmpath/warmpath/sim/text"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// TestTextSharesWhatTheTraceSays: texts of a conversation share the prefix that its prompts share, others the system
// prompt, and each has the length in the trace.
func TestTextSharesWhatTheTraceSays(t *testing.T) {
	g := simtrace.DefaultGenerator()
	g.Conversations, g.System = 20, 100
	trace := g.Trace(1)
	last := map[int]string{}
	for i, turn := range trace.Turns {
		text := trace.Text(i, simtext.TokenBytes)
		if len(text) != turn.Prompt*simtext.TokenBytes {
			t.Fatalf("turn %d has %d bytes of text, want %d tokens of %d",
				i, len(text), turn.Prompt, simtext.TokenBytes)
		}
		if text != trace.Text(i, simtext.TokenBytes) {
			t.Fatalf("turn %d has two texts", i)
		}
		if before, ok := last[turn.Session]; ok && text[:len(before)] != before {
			t.Fatalf("turn %d does not go on from the turn before", i)
		}
		for session, other := range last {
			if n := alike(text, other); session != turn.Session && n/simtext.TokenBytes != g.System {
				t.Fatalf("turn %d of session %d shares %d bytes with session %d, want %d tokens",
					i, turn.Session, n, session, g.System)
			}
		}
		last[turn.Session] = text
	}
}

func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
