package route

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
)

// asked is the predicted number of cached tokens at an endpoint for a prompt whose token ids are known before the
// decision.
func (w *kvWorld) asked(pin string, ids []uint32, c *fleet.Content, session string) int {
	w.Helper()
	d, err := w.r.Decide(w.now, &fleet.Request{
		Model: "m", Session: session, Content: c, PromptBytes: c.Bytes, Pin: pin, Seed: 1,
		Tokens: &fleet.Tokens{IDs: ids},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
	w.now = w.now.Add(time.Second)
	return d.CachedTokens
}

// TestKVOfOtherRouters: blocks of a prompt that another router placed count at once, exactly, if the prompt's token ids
// are known before the decision; without them the blocks cannot be matched.
func TestKVOfOtherRouters(t *testing.T) {
	w := newKVWorld(t)
	tokens, _ := kvPrompt(160, 640, 1)
	w.tell("a", blocksOf(tokens, 0, ""))
	longer, c := kvPrompt(160, 800, 1)
	if got := w.cached("x", "a", c); got != 0 {
		t.Errorf("without ids: %d tokens cached at a", got)
	}
	for _, tt := range []struct {
		name, at string
		evicted  int // first block of the prompt that a's engine has evicted; 0 none
		prompt   int // of the prompt
		want     int
	}{
		{"all of what was computed", "a", 0, len(longer), 800},
		{"nothing elsewhere", "b", 0, len(longer), 0},
		{"less than was computed, all but the last token", "a", 0, 480, 464},
		{"whole blocks only", "a", 0, 487, 480},
		{"after an eviction", "a", 20, len(longer), 320},
	} {
		if tt.evicted > 0 {
			w.tell("a", removedFrom(tokens, tt.evicted))
		}
		part := &fleet.Content{Bytes: tt.prompt * 8, Blocks: c.Blocks[:tt.prompt/16]}
		if got := w.asked(tt.at, longer[:tt.prompt], part, ""); got != tt.want {
			t.Errorf("%s: %d tokens cached at %s, want %d", tt.name, got, tt.at, tt.want)
		}
	}
	other, oc := kvPrompt(160, 640, 2)
	if got := w.asked("a", other, oc, ""); got != 160 {
		t.Errorf("another prompt behind the same system prompt: %d, want 160", got)
	}
}

// TestKVDeeperThanTheConversation: what another request had computed beyond a conversation's last turn counts: by
// events where blocks are matched to that text, else by belief.
func TestKVDeeperThanTheConversation(t *testing.T) {
	for _, tied := range []bool{true, false} {
		w := newKVWorld(t)
		short, cs := kvPrompt(0, 448, 1)
		deep, cd := kvPrompt(0, 512, 1)
		_, next := kvPrompt(0, 640, 1)
		w.turn("x", "a", "x", short, cs, 0)
		d := w.route("y", "a", cd) // another conversation continues with the same text
		label, other := "y", Decision{}
		if !tied {
			label, other = "", w.route("z", "a", cs) // so that unlabelled blocks cannot be assigned
		}
		w.tell("a", blocksOf(deep, 28, label))
		w.observe(Finished{Lease: other.Lease, Outcome: fleet.Abandoned})
		w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{
			PromptTokens: 512, CachedKnown: true, CachedTokens: 448, OutputTokens: 1,
		}})
		w.now = w.now.Add(time.Minute)
		// belief uses an estimated length
		if got := w.cached("x", "a", next); got < 512 || got > 528 || tied && got > 512 {
			t.Errorf("tied %v: %d tokens are cached, want 512", tied, got)
		}
		w.tell("a", removedFrom(deep, 20))
		if got := w.cached("x", "a", next); got != 320 {
			t.Errorf("tied %v, after an eviction: %d tokens are cached, want 320", tied, got)
		}
	}
}

// TestKVSizesOfBlocks: engines with two block sizes are looked up together; further sizes are not, which bounds the
// time. Token ids of a prompt's beginning tell what is cached of that part.
func TestKVSizesOfBlocks(t *testing.T) {
	w := newKVWorld(t)
	tokens, c := kvPrompt(0, 640, 1)
	var all []fleet.Endpoint
	sizes := []int{16, 32, 64}
	for i, name := range []string{"a", "b", "c"} {
		all = append(all, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1, Models: []string{"m"}})
		w.observe(Declared{Source: "s", Endpoints: all})
		w.observe(Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, BlockTokens: sizes[i], CacheTokens: 100_000,
		}})
		w.observe(KVStreamState{Endpoint: name, State: kvstream.Exact, Detail: "followed"})
		w.tellSized(name, tokens, sizes[i])
	}
	for _, tt := range []struct {
		name string
		ids  fleet.Tokens
		want []int // at a, b, c
	}{
		{"all ids", fleet.Tokens{IDs: tokens}, []int{624, 608, 0}},
		{"the first 320", fleet.Tokens{IDs: tokens[:320], More: true}, []int{320, 320, 0}},
	} {
		d, err := w.r.Decide(w.now, &fleet.Request{
			Model: "m", Content: c, PromptBytes: c.Bytes, Seed: 1, Tokens: &tt.ids,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.View.Candidates {
			if got := d.View.Candidates[i].CachedTokens; got != tt.want[i] {
				t.Errorf("%s: %d tokens cached at %s, want %d", tt.name, got, d.View.Candidates[i].Name, tt.want[i])
			}
		}
		w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
		w.now = w.now.Add(time.Minute)
	}
}

// tellSized publishes the blocks of a prompt with some block size.
func (w *kvWorld) tellSized(name string, tokens []uint32, size int) {
	e := kvstream.Event{Kind: kvstream.Stored, BlockTokens: size, Tokens: tokens[:len(tokens)/size*size]}
	for i := size; i <= len(tokens); i += size {
		e.Hashes = append(e.Hashes, kvHashOf(tokens[:i]))
	}
	var ops kvstream.Ops
	s := kvstream.New(0)
	s.Apply(0, &kvstream.Batch{Events: []kvstream.Event{e}}, &ops)
	w.observe(KVApplied{Endpoint: name, Ops: &ops, Blocks: s.Len(), Size: size})
}

// TestKVOfTextKnownBefore: block names derived from token ids are found by text at the next decision, and so is what
// another router had computed of that text since, at an endpoint that this router never sent it to.
func TestKVOfTextKnownBefore(t *testing.T) {
	w := newKVWorld(t)
	tokens, c := kvPrompt(0, 640, 1)
	d := w.route("x", "a", c)
	w.tell("a", blocksOf(tokens, 0, ""))
	w.observe(KVTokens{Lease: d.Lease, Tokens: tokens})
	w.observe(Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 640, CachedKnown: true, OutputTokens: 1}})
	w.now = w.now.Add(time.Minute)
	if got := w.cached("y", "b", c); got != 0 {
		t.Errorf("before anybody had it computed: %d tokens cached at b", got)
	}
	w.tell("b", blocksOf(tokens, 0, ""))
	if got := w.cached("y", "b", c); got < 624 || got > 640 { // from text, the number of tokens is an estimate
		t.Errorf("the same text: %d tokens cached at b, want 624 or all 640", got)
	}
	_, next := kvPrompt(0, 800, 1)
	if got := w.cached("z", "b", next); got != 640 {
		t.Errorf("a longer text: %d tokens cached at b, want 640", got)
	}
	if _, other := kvPrompt(0, 640, 2); w.cached("z", "b", other) != 0 {
		t.Error("another text counts as cached")
	}
}

// BenchmarkKVTokens names the blocks of a prompt of 128,000 tokens during its decision, for one block size and for two.
func BenchmarkKVTokens(b *testing.B) {
	for sizes := 1; sizes <= 2; sizes++ {
		b.Run(strconv.Itoa(sizes), func(b *testing.B) {
			w := newKVWorld(&testing.T{})
			tokens, c := kvPrompt(0, 128_000, 1)
			w.tell("a", blocksOf(tokens, 0, ""))
			if sizes > 1 {
				w.tellSized("b", tokens, 32)
			}
			for b.Loop() {
				d, err := w.r.Decide(w.now, &fleet.Request{
					Model: "m", Content: c, PromptBytes: c.Bytes, Seed: 1, Tokens: &fleet.Tokens{IDs: tokens},
				})
				if err != nil {
					b.Fatal(err)
				}
				w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
			}
		})
	}
}

// BenchmarkKVTokensOfAlias names the blocks of a prompt of 64,000 tokens for an alias of 1, 2, 4 and 8 models, which
// are the same for all of them.
func BenchmarkKVTokensOfAlias(b *testing.B) {
	for _, models := range []int{1, 2, 4, 8} {
		b.Run(strconv.Itoa(models), func(b *testing.B) {
			alias := fleet.Alias{Name: "all"}
			var endpoints []fleet.Endpoint
			for i := range models {
				name := strconv.Itoa(i)
				alias.Models = append(alias.Models, name)
				endpoints = append(endpoints, fleet.Endpoint{
					Name: name, URL: "http://" + name, Weight: 1, Models: []string{name},
				})
			}
			w := newKVWorld(&testing.T{})
			w.r = New(Config{Policy: func() pick.Policy { return firstPolicy{} }, Aliases: []fleet.Alias{alias}})
			w.observe(Declared{Source: "s", Endpoints: endpoints})
			tokens, c := kvPrompt(0, 64_000, 1)
			for _, name := range alias.Models {
				w.observe(Probed{Endpoint: name, Report: fleet.Report{
					Healthy: true, Kind: fleet.KindVLLM, BlockTokens: 16, CacheTokens: 100_000,
				}})
				w.observe(KVStreamState{Endpoint: name, State: kvstream.Exact, Detail: "followed"})
				w.tellSized(name, tokens[:1600], 16)
			}
			for b.Loop() {
				d, err := w.r.Decide(w.now, &fleet.Request{
					Model: "all", Content: c, PromptBytes: c.Bytes, Seed: 1, Tokens: &fleet.Tokens{IDs: tokens},
				})
				if err != nil {
					b.Fatal(err)
				}
				w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
			}
		})
	}
}
