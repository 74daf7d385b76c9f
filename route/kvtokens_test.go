package route

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
)

// TestKVForeignTokens: token ids that differ from the engine's are ignored, which is reported once, and used again when
// they agree.
func TestKVForeignTokens(t *testing.T) {
	w := newKVWorld(t)
	ask := func(session string, id uint32, add int, late bool) {
		t.Helper()
		tokens, c := kvPrompt(0, 640, id)
		told := append(append([]uint32(nil), tokens...), make([]uint32, add)...)
		if add > 0 {
			told[0]++ // another template
		}
		d := w.route(session, "a", c)
		other := w.route("another", "a", c) // so that several requests could have caused the blocks
		tell := func() { w.observe(KVTokens{Lease: d.Lease, Tokens: told}) }
		if !late {
			tell()
		}
		w.tell("a", blocksOf(tokens, 0, ""))
		w.observe(Finished{Lease: other.Lease, Outcome: fleet.Abandoned})
		w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 640, CachedKnown: true, OutputTokens: 1}})
		if late {
			tell()
		}
	}
	cached := func(session string, id uint32) int {
		_, next := kvPrompt(0, 800, id)
		w.now = w.now.Add(2 * reported.Overdue) // what was just computed counts without events
		return w.cached(session, "a", next)
	}
	for i := range fourMisses {
		ask(fmt.Sprint("x", i), uint32(i)+1, 3, i%2 == 1)
		if got := cached(fmt.Sprint("x", i), uint32(i)+1); got < 600 {
			t.Errorf("after %d prompts with foreign tokens: %d cached are predicted, want what the engine holds",
				i+1, got)
		}
	}
	if len(w.said) != 1 || !strings.Contains(w.said[0], "has 643 ids, but the engine counted 640") {
		t.Fatalf("said %q", w.said)
	}
	for i := range eightHits {
		if len(w.said) != 1 {
			t.Fatalf("gone by again after %d", i)
		}
		ask(fmt.Sprint("y", i), uint32(i)+20, 0, i%2 == 1)
	}
	ask("z", 50, 0, false) // changes of an endpoint are reported with the next end there
	if len(w.said) != 2 || !strings.Contains(w.said[1], "agree") {
		t.Errorf("said %q", w.said)
	}
}

// TestKVOneRun: a run of blocks that begins in a prompt and ends in its answer is matched whether the prompt's tokens
// arrive before it or after.
func TestKVOneRun(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newKVWorld(t)
		tokens, c := kvPrompt(0, 640, 1)
		whole, next := kvPrompt(0, 800, 1) // the answer is 160 tokens
		d := w.route("x", "a", c)
		other := w.route("y", "a", c) // so that several requests could have caused the blocks
		tell := func() { w.observe(KVTokens{Lease: d.Lease, Tokens: tokens}) }
		w.tell("a", blocksOf(whole[:320], 0, ""))
		if !late {
			tell()
		}
		w.tell("a", blocksOf(whole, 20, ""))
		if late {
			tell()
		}
		w.observe(Finished{Lease: other.Lease, Outcome: fleet.Abandoned})
		w.observe(Finished{
			Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 640, CachedKnown: false, OutputTokens: 160},
		})
		w.tell("a", removedFrom(whole, 45))
		if got := w.cached("x", "a", next); got != 720 {
			t.Errorf("tokens late %v: %d cached after an eviction, want 720, a part of the answer included", late, got)
		}
	}
}

// TestKVUnheard: a prompt just computed counts as cached until its events should have arrived.
func TestKVUnheard(t *testing.T) {
	w := newKVWorld(t)
	tokens, c := kvPrompt(0, 640, 1)
	w.turn("x", "a", "x", tokens, c, 0)
	w.tell("a", removedFrom(tokens, 0))
	_, next := kvPrompt(0, 800, 1)
	d := w.route("x", "a", next)
	w.observe(FirstByte{Lease: d.Lease})
	asked := w.now
	w.now = w.now.Add(50 * time.Millisecond)
	if got := w.cached("x", "a", next); got < 780 {
		t.Errorf("before the engine was asked: %d cached, want nearly 800", got)
	}
	heard := func(at time.Time) {
		var ops kvstream.Ops
		other, _ := kvPrompt(0, 32, 7)
		w.streams["a"].Apply(w.seq["a"], &kvstream.Batch{
			At: float64(w.seq["a"]), Events: []kvstream.Event{blocksOf(other, 0, "y")},
		}, &ops)
		w.seq["a"]++
		w.observe(KVApplied{Endpoint: "a", Ops: &ops, Blocks: 2, Size: 16, Asked: at})
	}
	heard(asked.Add(-time.Millisecond))
	if got := w.cached("x", "a", next); got < 780 {
		t.Errorf("of an answer to a question from before: %d cached, want nearly 800", got)
	}
	heard(asked.Add(time.Millisecond))
	if got := w.cached("x", "a", next); got != 0 {
		t.Errorf("of one from after: %d cached, want none, since nothing was told", got)
	}
	w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
}

// TestKVTenants: two tenants with the same conversation id do not share its blocks, labelled or not.
func TestKVTenants(t *testing.T) {
	for _, label := range []string{"s", ""} {
		w := newKVWorld(t)
		ask := func(tenant string, c *fleet.Content) Decision {
			t.Helper()
			d, err := w.r.Decide(w.now, &fleet.Request{
				Model: "m", Tenant: tenant, Session: "s", Content: c, PromptBytes: c.Bytes, Pin: "a", Seed: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return d.Decision
		}
		turn := func(tenant string, tokens []uint32, c *fleet.Content) {
			d := ask(tenant, c)
			w.tell("a", blocksOf(tokens, 0, label))
			w.observe(Finished{
				Lease: d.Lease, Usage: fleet.Usage{PromptTokens: len(tokens), CachedKnown: true, OutputTokens: 1},
			})
			w.now = w.now.Add(time.Second)
		}
		one, c1 := kvPrompt(0, 640, 1)
		two, c2 := kvPrompt(0, 320, 2)
		turn("one", one, c1)
		turn("two", two, c2)
		w.tell("a", removedFrom(one, 10))
		_, next := kvPrompt(0, 800, 1)
		d := ask("one", next)
		if d.CachedTokens != 160 {
			t.Errorf("label %q: %d cached after an eviction, want 160", label, d.CachedTokens)
		}
		w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
	}
}
