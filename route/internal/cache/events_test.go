package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/internal/size"
)

const (
	fourMisses = 4 // wrong predictions in a row after which events are not trusted
	eightHits  = 8 // right ones after which they are again
)

// ids gives the token ids of a request's prompt.
func (e *engines) ids(n uint32, tokens []uint32) {
	_, open := e.open[n]
	_, news := e.Tokens(&reported.TokenIDs{Lease: fleet.Lease(n), Open: open, Tokens: tokens})
	e.news = append(e.news, news...)
}

// TestEventsPredict follows two labelled conversations with one system prompt through evictions, another engine and a
// changed history.
func TestEventsPredict(t *testing.T) {
	e := newFollowed(t)
	first, longer := slices.Concat(words(0, 320), words(1, 320)), slices.Concat(words(0, 320), words(1, 480))
	e.told(0, "x", "x", first, 0)
	e.want("the same prompt again: all but the block of the last token", 0, "x", said(first), 624)
	e.want("the next turn", 0, "x", said(longer), 640)
	e.want("elsewhere", 1, "x", said(longer), 0)
	e.tell(1, storedFrom(longer, 16, 0, "another router")) // not through this router
	e.want("elsewhere, where another router had it computed", 1, "x", said(longer), 640)
	e.tell(0, removedFrom(first, 25))
	e.want("after the end of it was evicted", 0, "x", said(longer), 400)
	e.tell(0, kvstream.Event{Kind: kvstream.Cleared})
	e.want("after all was cleared", 0, "x", said(longer), 0)
}

// TestEventsOfModels: what an engine's events say of a prompt counts for each engine, by the model that it serves, in
// whatever order they are looked up.
func TestEventsOfModels(t *testing.T) {
	for _, models := range [][]string{{"m", "n"}, {"n", "m"}} {
		e := newFollowed(t)
		e.models = models
		for slot := range 2 {
			tokens := words(slot, 640)
			e.told(slot, fmt.Sprint(slot), fmt.Sprint(slot), tokens, 0)
			e.tell(slot, removedFrom(tokens, 25))
			var x Lookups
			v, _ := e.predict(&x, "", said(words(slot, 800)))
			for i, c := range v.Candidates {
				if want := map[bool]int{true: 400}[i == slot]; c.CachedTokens != want {
					t.Errorf("%v, after the end was evicted at %d: %d tokens at %d (exact %t), want %d",
						models, slot, c.CachedTokens, i, c.Exact, want)
				}
			}
		}
	}
}

// TestEventsOfSharedPrefixes: the prefix that a new conversation shares with others is known to the block once two have
// met.
func TestEventsOfSharedPrefixes(t *testing.T) {
	e := newFollowed(t)
	chat := func(n int) []uint32 { return slices.Concat(words(0, 328), words(n, 300)) } // 328 end within a block
	e.told(0, "one", "one", chat(1), 0)
	e.told(0, "two", "two", chat(2), 320)
	e.want("a third one", 0, "three", said(chat(3)), 320)
	e.tell(0, removedFrom(chat(1), 20), removedFrom(chat(2), 20))
	e.want("what the first two had of their own is evicted", 0, "three", said(chat(3)), 320)
	e.tell(0, removedFrom(chat(1)[:320], 10))
	e.want("half of the system prompt is evicted", 0, "three", said(chat(3)), 160)
}

// TestEventsFromBefore: a conversation of which an engine holds more than its first words, since another router or an
// earlier life of this one had it computed, does not have others that begin with these words be taken for cached.
func TestEventsFromBefore(t *testing.T) {
	e := newFollowed(t)
	chat := func(n int) []uint32 { return slices.Concat(words(0, 328), words(n, 300)) }
	e.told(0, "one", "one", chat(1), 0)
	e.tell(0, storedFrom(chat(2), 16, 20, "another router's"))
	e.told(0, "two", "two", slices.Concat(chat(2), words(20, 160)), 624)
	e.want("a third one", 0, "three", said(chat(3)), 320)
	e.want("the next turn of the second", 0, "two", said(chat(2), words(20, 160), words(21, 160)), 784)
	e.told(0, "three", "three", chat(3), 320)
	e.want("a fourth one", 0, "four", said(chat(4)), 320)
}

// TestEventsWithoutLabels: blocks are assigned by the one request that can have caused them, by length, and by tokens.
func TestEventsWithoutLabels(t *testing.T) {
	for _, how := range []string{"alone", "by length", "tokens", "tokens, late"} {
		e := newFollowed(t)
		tokens, other := words(1, 640), words(2, 320)
		n, _ := e.place(0, "x", said(tokens))
		k := uint32(0)
		if how != "alone" {
			k, _ = e.place(0, "y", said(other))
			e.tell(0, storedFrom(other, 16, 0, ""))
		}
		e.tell(0, storedFrom(tokens, 16, 0, ""))
		found := 0
		switch how {
		case "tokens":
			e.ids(n, tokens)
		case "tokens, late":
			found = -1
		}
		if e.end(n, fleet.OK, found, 1); k > 0 {
			e.end(k, fleet.OK, found, 1)
		}
		if how == "tokens, late" {
			e.ids(n, tokens)
		}
		e.tell(0, removedFrom(tokens, 10))
		e.want(how+", after an eviction", 0, "x", said(words(1, 800)), 160)
	}
}

// TestSilentEvents: an answer must have stored blocks, but no event arrives.
func TestSilentEvents(t *testing.T) {
	e := newFollowed(t)
	tokens := words(1, 640)
	e.told(0, "x", "x", tokens, 0)
	n, _ := e.place(0, "y", said(words(2, 900)))
	e.end(n, fleet.OK, 0, 1)
	if e.Events.Tick(e.now.Add(-time.Millisecond), 0) {
		t.Error("silent at once: engines take a moment")
	}
	e.now = e.now.Add(reported.Overdue)
	if first, second := e.Events.Tick(e.now, 0), e.Events.Tick(e.now, 0); !first || second {
		t.Errorf("silent: %t, and again %t", first, second)
	}
	if s := e.Events.Figures(0).State; s != kvstream.Silent || len(e.news) > 0 {
		t.Errorf("%s: %q", s, e.news)
	}
	e.tell(0, storedFrom(tokens, 16, 0, "x"))
	if s := e.Events.Figures(0).State; s != kvstream.Exact || len(e.news) != 1 {
		t.Errorf("heard again: %s, %q", s, e.news)
	}
}

// TestWrongEvents: events that contradict the answers are ignored, and used again once they agree.
func TestWrongEvents(t *testing.T) {
	e := newFollowed(t)
	tokens := words(1, 640)
	e.told(0, "x", "x", tokens, 0)
	for range fourMisses {
		e.serve(0, "x", said(tokens), 0, 1) // although the events say otherwise
	}
	if s := e.Events.Figures(0); s.State != kvstream.Wrong || s.Wrong != 1 || len(e.news) != 1 {
		t.Fatalf("%+v %q", s, e.news)
	}
	for range eightHits {
		e.serve(0, "x", said(tokens), 624, 1)
	}
	if s := e.Events.Figures(0); s.State != kvstream.Exact || len(e.news) != 2 {
		t.Errorf("%+v %q", s, e.news)
	}
}

// TestNoCacheIsRead: of a prompt for which an engine reads no cache nothing is predicted to be cached, and that nothing
// was found is no evidence. Afterwards it is cached.
func TestNoCacheIsRead(t *testing.T) {
	for name, followed := range map[string]bool{"by events": true, "by estimate": false} {
		t.Run(name, func(t *testing.T) {
			e, tokens := newFollowed(t), words(1, 640)
			if e.told(0, "x", "x", tokens, 0); !followed {
				e = newEngines(t, 2, e.facts[0])
				e.serve(0, "x", said(tokens), 0, 1)
			}
			whole := said(tokens)
			whole.ReadsNoCache = true
			for range fourMisses {
				if got := e.serve(0, "x", whole, -1, 1); got != 0 {
					t.Errorf("%d tokens are predicted to be found", got)
				}
			}
			if len(e.news) > 0 {
				t.Errorf("%q", e.news)
			}
			e.want("the same where the cache is read", 0, "x", said(tokens), 624)
			e.want("elsewhere", 1, "x", said(tokens), 0)
		})
	}
}

// TestForeignTokens: token ids that differ from the engine's are ignored, which is reported once, and used again when
// they agree.
func TestForeignTokens(t *testing.T) {
	e := newFollowed(t)
	ask := func(chat string, text, add int, late bool) {
		tokens := words(text, 640)
		given := append(slices.Clone(tokens), make([]uint32, add)...)
		if add > 0 {
			given[0]++ // another template
		}
		n, _ := e.place(0, chat, said(tokens))
		other, _ := e.place(0, "another", said(tokens)) // so that several requests could have caused the blocks
		if !late {
			e.ids(n, given)
		}
		e.tell(0, storedFrom(tokens, 16, 0, ""))
		e.end(other, fleet.Abandoned, -1, 0)
		if e.end(n, fleet.OK, 0, 1); late {
			e.ids(n, given)
		}
	}
	for i := range fourMisses {
		ask(fmt.Sprint("x", i), i+1, 3, i%2 == 1)
		e.now = e.now.Add(2 * reported.Overdue) // what was just computed counts without events
		e.want("after foreign tokens", 0, fmt.Sprint("x", i), said(words(i+1, 800)), 640)
	}
	if len(e.news) != 1 || !strings.Contains(e.news[0], "has 643 ids, but the engine counted 640") {
		t.Fatalf("told %q", e.news)
	}
	for i := range eightHits {
		if len(e.news) != 1 {
			t.Fatalf("used again after %d", i)
		}
		ask(fmt.Sprint("y", i), i+20, 0, i%2 == 1)
	}
	if len(e.news) != 2 || !strings.Contains(e.news[1], "agree") {
		t.Errorf("told %q", e.news)
	}
}

// TestRunsIntoAnAnswer: a run of blocks that begins in a prompt and ends in its answer is matched whether the prompt's
// tokens arrive before it or after.
func TestRunsIntoAnAnswer(t *testing.T) {
	for _, late := range []bool{false, true} {
		e := newFollowed(t)
		tokens, whole := words(1, 640), words(1, 800) // the answer is 160 tokens
		n, _ := e.place(0, "x", said(tokens))
		other, _ := e.place(0, "y", said(tokens)) // so that several requests could have caused the blocks
		e.tell(0, storedFrom(whole[:320], 16, 0, ""))
		if !late {
			e.ids(n, tokens)
		}
		e.tell(0, storedFrom(whole, 16, 20, ""))
		if late {
			e.ids(n, tokens)
		}
		e.end(other, fleet.Abandoned, -1, 0)
		e.end(n, fleet.OK, -1, 160)
		e.tell(0, removedFrom(whole, 45))
		e.want(fmt.Sprint("with a part of the answer, late: ", late), 0, "x", said(whole), 720)
	}
}

// TestUnheardEvents: a prompt just computed counts as cached until its events should have arrived.
func TestUnheardEvents(t *testing.T) {
	e := newFollowed(t)
	tokens := words(1, 640)
	e.told(0, "x", "x", tokens, 0)
	e.tell(0, removedFrom(tokens, 0))
	n, _ := e.place(0, "x", said(words(1, 800)))
	e.Computed(e.now, n)
	asked := e.now
	ask := func() int { // no time passes
		var x Lookups
		v, _ := e.predict(&x, "x", said(words(1, 800)))
		return v.Candidates[0].CachedTokens
	}
	other := storedFrom(words(7, 32), 16, 0, "y")
	e.now = e.now.Add(50 * time.Millisecond)
	if got := ask(); got != 784 {
		t.Errorf("before the engine was asked: %d tokens, want 784", got)
	}
	e.tellAsked(0, asked.Add(-time.Millisecond), other)
	if got := ask(); got != 784 {
		t.Errorf("of an answer to a question from before: %d tokens, want 784", got)
	}
	e.tellAsked(0, asked.Add(time.Millisecond), other)
	if got := ask(); got != 0 {
		t.Errorf("of one from after: %d tokens, want none, since nothing was told", got)
	}
}

// withIDs is a request whose token ids are known before its decision.
func withIDs(tokens []uint32, more bool) *fleet.Request {
	req := said(tokens)
	req.Tokens = &fleet.Tokens{IDs: tokens, More: more}
	return req
}

// TestEventsByIDs: blocks of a prompt that another router placed count at once, exactly, if the prompt's token ids are
// known before the decision; without them the blocks cannot be matched.
func TestEventsByIDs(t *testing.T) {
	e := newFollowed(t)
	tokens, longer := slices.Concat(words(0, 160), words(1, 640)), slices.Concat(words(0, 160), words(1, 800))
	e.tell(0, storedFrom(tokens, 16, 0, ""))
	e.want("without ids", 0, "x", said(longer), 0)
	e.want("all of what was computed", 0, "", withIDs(longer, false), 800)
	e.want("nothing elsewhere", 1, "", withIDs(longer, false), 0)
	e.want("less than was computed, all but the last token", 0, "", withIDs(longer[:480], false), 464)
	e.want("whole blocks only", 0, "", withIDs(longer[:487], false), 480)
	e.want("another prompt behind the same system prompt", 0, "",
		withIDs(slices.Concat(words(0, 160), words(2, 640)), false), 160)
	e.tell(0, removedFrom(tokens, 20))
	e.want("after an eviction", 0, "", withIDs(longer, false), 320)
}

// TestEventsBeyondAConversation: what another request had computed beyond a conversation's last turn counts: by events
// where blocks are tied to that text, else by belief.
func TestEventsBeyondAConversation(t *testing.T) {
	for _, tied := range []bool{true, false} {
		e := newFollowed(t)
		short, deep, next := words(1, 448), words(1, 512), said(words(1, 640))
		e.told(0, "x", "x", short, 0)
		n, _ := e.place(0, "y", said(deep)) // another conversation continues with the same text
		label, other := "y", uint32(0)
		if !tied {
			label = ""
			other, _ = e.place(0, "z", said(short)) // so that unlabelled blocks cannot be assigned
		}
		e.tell(0, storedFrom(deep, 16, 28, label))
		if !tied {
			e.end(other, fleet.Abandoned, -1, 0)
		}
		e.end(n, fleet.OK, 448, 1)
		e.now = e.now.Add(time.Minute)
		e.want(fmt.Sprint("tied: ", tied), 0, "x", next, 512)
		e.tell(0, removedFrom(deep, 20))
		e.want(fmt.Sprint("after an eviction, tied: ", tied), 0, "x", next, 320)
	}
}

// TestSizesOfBlocks: engines with two block sizes are looked up together; further sizes are not, which bounds the time.
// Token ids of a prompt's beginning tell what is cached of that part.
func TestSizesOfBlocks(t *testing.T) {
	e := newEngines(t, 3, Facts{CacheTokens: 100_000})
	tokens := words(1, 640)
	for slot, each := range []int{16, 32, 64} {
		e.facts[slot].BlockTokens = each
		e.Describe(slot, e.facts[slot])
		e.Events.SetStreamState(slot, kvstream.Exact)
		e.tell(slot, storedFrom(tokens, each, 0, ""))
	}
	part := said(tokens)
	part.Tokens = &fleet.Tokens{IDs: tokens[:320], More: true}
	for slot, want := range [][2]int{{624, 320}, {608, 320}, {0, 0}} {
		e.want("all ids", slot, "", withIDs(tokens, false), want[0])
		e.now = e.now.Add(time.Minute)
		e.want("the first 320", slot, "", part, want[1])
		e.now = e.now.Add(time.Minute)
	}
}

// TestEventsByText: block names derived from token ids are found by text at the next decision, and so is what another
// router had computed of that text since, at an engine that this router never sent it to.
func TestEventsByText(t *testing.T) {
	e := newFollowed(t)
	tokens := words(1, 640)
	n, _ := e.place(0, "x", said(tokens))
	e.tell(0, storedFrom(tokens, 16, 0, ""))
	e.ids(n, tokens)
	e.end(n, fleet.OK, 0, 1)
	e.now = e.now.Add(time.Minute)
	e.want("before it was computed", 1, "y", said(tokens), 0)
	e.tell(1, storedFrom(tokens, 16, 0, ""))
	e.want("the same text", 1, "y", said(tokens), 624)
	e.want("a longer text", 1, "z", said(words(1, 800)), 640)
	e.want("another text", 1, "z", said(words(2, 640)), 0)
	var x Lookups
	p := Prompt{Request: said(tokens), Size: e.size.Prompt(said(tokens), size.Last{})}
	e.Begin(&x)
	if got := e.Look(&x, &p, "m"); !slices.Equal(got, []int32{640, 624}) {
		t.Errorf("a look before the endpoints are known finds %d tokens", got)
	}
}

// TestEventsOfSeveralPrompts: the events of engines say what they hold of prompts whose token ids are known,
// also where another router had it computed.
func TestEventsOfSeveralPrompts(t *testing.T) {
	e := newFollowed(t)
	one, two := slices.Concat(words(0, 160), words(1, 480)), slices.Concat(words(0, 160), words(2, 160))
	e.tell(0, storedFrom(one, 16, 0, ""))
	e.tell(1, storedFrom(two, 16, 0, ""))
	list := func(prompts ...[]uint32) *fleet.Request {
		r := &fleet.Request{Content: &fleet.Content{}}
		for _, ids := range prompts {
			c := said(ids).Content
			r.Content.List = append(r.Content.List, fleet.Listed{
				Blocks: c.Blocks, Bytes: c.Bytes, IDs: len(ids), Tokens: &fleet.Tokens{IDs: ids},
			})
			r.PromptTokens += len(ids)
		}
		return r
	}
	e.want("both at the engine of the first", 0, "", list(one, two), 624+160)
	e.want("both at the engine of the second", 1, "", list(one, two), 160+304)
	e.want("part of one", 0, "", list(one[:320], two[:32]), 304+16)
	e.tell(0, removedFrom(one, 20))
	e.want("after an eviction", 0, "", list(one, two), 320+160)
}

// BenchmarkIDs names the blocks of a prompt of 64,000 tokens during its decision, for engines of several models, for
// which the names are the same, and of two sizes of blocks.
func BenchmarkIDs(b *testing.B) {
	for _, models := range []int{1, 2, 4, 8} {
		for sizes := range 2 {
			b.Run(fmt.Sprintf("%d models, %d sizes", models, sizes+1), func(b *testing.B) {
				e, tokens := newEngines(&testing.T{}, models+sizes, Facts{CacheTokens: 100_000}), words(1, 64_000)
				for slot := range e.models {
					e.models[slot] = fmt.Sprint(slot % models)
					e.Events.SetStreamState(slot, kvstream.Exact)
					e.tell(slot, storedFrom(tokens[:1600], 16<<(slot/models), 0, ""))
				}
				req := withIDs(tokens, false)
				var x Lookups
				for b.Loop() {
					e.predict(&x, "", req)
				}
			})
		}
	}
}
