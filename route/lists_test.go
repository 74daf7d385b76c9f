package route

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
)

// listRequest is a request of several prompts, each of so many token ids of a text; token ids of different texts have
// nothing in common.
func listRequest(pin string, prompts ...[2]int) *fleet.Request {
	r := &fleet.Request{Model: "m", Pin: pin, Seed: 1, Content: &fleet.Content{}}
	for _, p := range prompts {
		tokens, c := kvPrompt(0, p[1], uint32(p[0]))
		r.Content.List = append(r.Content.List, fleet.Listed{Blocks: c.Blocks, Bytes: c.Bytes, IDs: len(tokens)})
		r.PromptTokens += len(tokens)
	}
	return r
}

// listWorld is a router with two engines without events.
type listWorld struct {
	*testing.T
	r   *Router
	now time.Time
}

func newListWorld(t *testing.T) *listWorld {
	w := &listWorld{T: t, r: New(Config{Policy: func() pick.Policy { return firstPolicy{} }}), now: kvNow}
	w.r.Observe(w.now, Declared{Source: "s", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
	}})
	for _, name := range []string{"a", "b"} {
		w.r.Observe(w.now, Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m"}}, BlockTokens: 16, CacheTokens: 100_000,
		}})
	}
	return w
}

// ask is what is predicted of a request, which ends as it is said.
func (w *listWorld) ask(r *fleet.Request, o fleet.Outcome, u fleet.Usage) int {
	w.Helper()
	d, err := w.r.Decide(w.now, r)
	if err != nil {
		w.Fatal(err)
	}
	if o == fleet.OK {
		w.r.Observe(w.now, FirstByte{Lease: d.Lease})
	}
	w.r.Observe(w.now, Finished{Lease: d.Lease, Outcome: o, Usage: u})
	w.now = w.now.Add(time.Second)
	return d.CachedTokens
}

// What an endpoint holds of the prompts of one request is added up, and each of them is held by itself afterwards; what
// failed is not.
func TestListsAreSummed(t *testing.T) {
	w := newListWorld(t)
	// Some engines report the cached tokens of the first prompt alone: that says nothing of what is held.
	usage := fleet.Usage{PromptTokens: 640, CachedTokens: 0, CachedKnown: true, OutputTokens: 1}
	one, two, three := [2]int{1, 320}, [2]int{2, 320}, [2]int{3, 320}
	for _, step := range []struct {
		name    string
		at      string
		prompts [][2]int
		outcome fleet.Outcome
		want    int
	}{
		{"nothing is held", "a", [][2]int{one, two}, fleet.OK, 0},
		{"both", "a", [][2]int{one, two}, fleet.OK, 608}, // all but the block of the last token of each
		{"in another order", "a", [][2]int{two, one}, fleet.OK, 608},
		{"one of two", "a", [][2]int{two, three}, fleet.EngineError, 304},
		{"what failed is not held", "a", [][2]int{two, three}, fleet.ClientGone, 304},
		{"the same prompt twice", "a", [][2]int{one, one}, fleet.OK, 608},
		{"a longer one", "a", [][2]int{{1, 640}, {4, 64}}, fleet.OK, 320},
		{"nothing elsewhere", "b", [][2]int{one, two}, fleet.Abandoned, 0},
		{"and still both here", "a", [][2]int{one, two}, fleet.OK, 608},
	} {
		if got := w.ask(listRequest(step.at, step.prompts...), step.outcome, usage); got != step.want {
			t.Errorf("%s: %d tokens cached, want %d", step.name, got, step.want)
		}
	}
	// A prompt of a list is found by a request of its own, and the reverse.
	_, c := kvPrompt(0, 320, 2)
	if got := w.ask(&fleet.Request{
		Model: "m", Pin: "a", Seed: 1, Content: c, PromptTokens: 320,
	}, fleet.OK, fleet.Usage{}); got != 304 {
		t.Errorf("alone: %d tokens cached, want 304", got)
	}
	_, c = kvPrompt(0, 320, 9)
	w.ask(&fleet.Request{Model: "m", Pin: "b", Seed: 1, Content: c, PromptTokens: 320}, fleet.OK, fleet.Usage{})
	if got := w.ask(listRequest("b", two, [2]int{9, 320}), fleet.OK, fleet.Usage{}); got != 304 {
		t.Errorf("of one that came alone: %d tokens cached, want 304", got)
	}
}

// Texts have their shares of what is estimated for all.
func TestListsOfTexts(t *testing.T) {
	w := newListWorld(t)
	request := func(prompts ...[2]int) *fleet.Request {
		r := listRequest("a", prompts...)
		r.PromptTokens = 0
		for i := range r.Content.List {
			r.Content.List[i].IDs = 0
			r.Content.Bytes += r.Content.List[i].Bytes
		}
		r.PromptBytes = r.Content.Bytes
		return r
	}
	w.ask(request([2]int{1, 160}, [2]int{2, 480}), fleet.OK, fleet.Usage{})
	for _, step := range []struct {
		prompts [][2]int
		want    int
	}{
		{[][2]int{{1, 160}, {3, 480}}, 304},                // of 320 tokens, a token for four bytes
		{[][2]int{{3, 160}, {2, 480}}, 944},                // of 960
		{[][2]int{{1, 160}, {2, 480}}, 304 + 944},          // of both
		{[][2]int{{1, 160}, {2, 480}, {4, 64}}, 304 + 944}, // and of a third that is not held
	} {
		if got := w.ask(request(step.prompts...), fleet.Abandoned, fleet.Usage{}); got != step.want {
			t.Errorf("%v: %d tokens cached, want %d", step.prompts, got, step.want)
		}
	}
}

// Of prompts whose token ids are known it is the engines' events that say what they hold, whoever had it computed.
func TestListsByIDs(t *testing.T) {
	w := newKVWorld(t)
	one, _ := kvPrompt(160, 480, 1)
	two, _ := kvPrompt(160, 160, 2)
	w.tell("a", blocksOf(one, 0, ""))
	w.tell("b", blocksOf(two, 0, ""))
	ask := func(pin string, lists ...[]uint32) int {
		t.Helper()
		r := &fleet.Request{Model: "m", Pin: pin, Seed: 1, Content: &fleet.Content{}}
		for _, ids := range lists {
			q := fleet.Listed{Bytes: len(ids) * 8, IDs: len(ids), Tokens: &fleet.Tokens{IDs: ids}}
			for i := range len(ids) / 16 {
				q.Blocks = append(q.Blocks, blocks.Scramble(kvHashOf(ids[:16*i+16])))
			}
			r.Content.List, r.PromptTokens = append(r.Content.List, q), r.PromptTokens+len(ids)
		}
		d, err := w.r.Decide(w.now, r)
		if err != nil {
			t.Fatal(err)
		}
		w.observe(Finished{Lease: d.Lease, Outcome: fleet.Abandoned})
		w.now = w.now.Add(time.Minute)
		return d.CachedTokens
	}
	for _, step := range []struct {
		name  string
		at    string
		lists [][]uint32
		want  int
	}{
		{"both at the engine of the first", "a", [][]uint32{one, two}, 624 + 160},
		{"both at the engine of the second", "b", [][]uint32{one, two}, 160 + 304},
		{"part of one", "a", [][]uint32{one[:320], two[:32]}, 304 + 16},
	} {
		if got := ask(step.at, step.lists...); got != step.want {
			t.Errorf("%s: %d tokens cached, want %d", step.name, got, step.want)
		}
	}
	w.tell("a", removedFrom(one, 20))
	if got := ask("a", one, two); got != 320+160 {
		t.Errorf("after an eviction: %d tokens cached, want 480", got)
	}
}
