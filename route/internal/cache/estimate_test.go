package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestCommonPrefixIsPredicted: what was sent to an engine is predicted to be cached there, for the common prefix in the
// same scope only.
func TestCommonPrefixIsPredicted(t *testing.T) {
	e := newEngines(t, 2, Facts{})
	one, two, other := words(1, 160), words(2, 160), words(9, 160)
	e.serve(0, "", said(one, two), -1, 1)
	scoped, tenant, lead := said(one, two), said(one, two), said(one, two, other)
	scoped.Content.Scope, tenant.Tenant = 5, "t"
	lead.Content.Lead, lead.PromptBytes = 1280, lead.PromptBytes+1280
	for name, tt := range map[string]struct {
		slot int
		req  *fleet.Request
		want int
	}{
		"goes on":          {0, said(one, two, other), 320},
		"the same":         {0, said(one, two), 319}, // one token is always computed
		"half of it":       {0, said(one, other), 160},
		"nothing of it":    {0, said(other, two), 0},
		"elsewhere":        {1, said(one, two, other), 0},
		"another scope":    {0, scoped, 0},
		"another tenant":   {0, tenant, 0},
		"tools in front":   {0, lead, 480},
		"without a chain":  {0, &fleet.Request{PromptBytes: 5000}, 0},
		"an empty content": {0, &fleet.Request{PromptBytes: 5000, Content: &fleet.Content{}}, 0},
	} {
		e.want(name, tt.slot, "", tt.req, tt.want)
	}
	e.models[0] = "another"
	e.want("another model", 0, "", said(one, two), 0)
}

// TestCapacityBounds: what is predicted is bounded by the stated capacity, and shows where the cache ends.
func TestCapacityBounds(t *testing.T) {
	e := newEngines(t, 1, Facts{CacheTokens: 1600, BlockTokens: 16})
	for i := range 10 {
		e.serve(0, "", said(words(i, 160)), -1, 1)
	}
	for _, tt := range [][2]int{{9, 144}, {1, 144}, {0, 80}} { // 95 % of 1,600 tokens are nine and a half of them
		e.want(fmt.Sprint("prompt ", tt[0]), 0, "", said(words(tt[0], 160)), tt[1])
	}
	if got, filled := e.Capacity(0), e.Filled(0); got != 1520 || filled < 0.94 {
		t.Errorf("a capacity of %d tokens, filled to %.2f; want 1520 and 1", got, filled)
	}
	if got := e.Room(0); got != 1520 {
		t.Errorf("room for %d tokens, want 1520", got)
	}
}

// TestInUseStays: a cache keeps the prompts that answers are generated from and the one that is computed, however many
// others are computed meanwhile and leave. Once these have ended, they go as the others do, and so does one that waits.
func TestInUseStays(t *testing.T) {
	e := newEngines(t, 1, Facts{CacheTokens: 1600, BlockTokens: 16})
	var running []uint32
	for i := range 4 {
		n, _ := e.place(0, "", said(words(i, 160)))
		if i < 2 {
			e.Computed(e.now, n)
		}
		running = append(running, n)
	}
	others := func(from int) {
		for i := range 20 {
			e.serve(0, "", said(words(from+i, 160)), -1, 1)
		}
	}
	others(100)
	for i, want := range []int{144, 144, 144, 0} {
		e.want(fmt.Sprint("running ", i), 0, "", said(words(i, 160)), want)
	}
	for i, n := range running {
		e.end(n, fleet.OK, -1, 1)
		e.want(fmt.Sprint("just ended ", i), 0, "", said(words(i, 160)), 144)
	}
	others(200)
	for i := range running {
		e.want(fmt.Sprint("ended ", i), 0, "", said(words(i, 160)), 0)
	}
}

// TestRefusedForAnotherReason: prompts that a full engine refuses for what else they say (a parameter, a key), or that
// end before they are computed, take from the estimate what as many of them as wait at a time have room for, of what
// was used longest ago, however many come. What is computed next has their room, for which the engine evicts just that.
func TestRefusedForAnotherReason(t *testing.T) {
	for _, atOnce := range []int{1, 2} {
		for _, o := range []fleet.Outcome{fleet.ClientError, fleet.Busy, fleet.Abandoned} {
			e := newEngines(t, 2, Facts{CacheTokens: 1600, BlockTokens: 16})
			both := func(i int) {
				for slot := range 2 {
					e.serve(slot, "", said(words(i, 160)), -1, 1)
				}
			}
			for i := range 10 {
				both(i)
			}
			for i := range 20 {
				var waiting []uint32
				for k := range atOnce {
					n, _ := e.place(0, "", said(words(100+2*i+k, 160)))
					waiting = append(waiting, n)
				}
				for _, n := range waiting {
					e.end(n, o, -1, 0)
				}
			}
			predicted := func(i int) [2]int {
				var got [2]int
				for slot := range got {
					got[slot] = e.cached(slot, "", said(words(i, 160)))
				}
				return got
			}
			for i := 1 + atOnce; i < 10; i++ {
				if got := predicted(i); got != [2]int{144, 144} {
					t.Errorf("%v, %d at once: of prompt %d %v are predicted, want 144 twice", o, atOnce, i, got)
				}
			}
			for i := range atOnce {
				both(1000 + i)
			}
			for i := range 10 {
				if got := predicted(i); got[0] != got[1] {
					t.Errorf("%v, %d at once: of prompt %d then %v are predicted", o, atOnce, i, got)
				}
			}
		}
	}
}

// TestAnswersThatDoNotComeBack: parts that a client omits from its next prompt, such as reasoning, are not found there,
// which says nothing about the cache's capacity.
func TestAnswersThatDoNotComeBack(t *testing.T) {
	e := newEngines(t, 1, Facts{CacheTokens: 12_800, BlockTokens: 16})
	const rounds, fit = 200, 16 // of 640 tokens each on average; 19 of them fit
	// of several lengths, so that no larger blocks are learnt
	prompt := func(i int) []uint32 { return words(1000+i, 304+i%3*16) }
	for i := range rounds {
		first, second := prompt(i), words(5000+i, 320)
		e.serve(0, fmt.Sprint(i), said(first), 0, 300)
		e.serve(0, fmt.Sprint(i), said(first, second), len(first), 300)
		e.answers = AnswerReuse{} // as before it is learnt
	}
	recent := slices.Concat(prompt(rounds-fit), words(5000+rounds-fit, 320))
	e.want("a recent one", 0, "", said(recent, words(1, 320)), len(recent))
}

// TestAnswersFoundAgain: it is learnt how much of an answer the next turn finds cached.
func TestAnswersFoundAgain(t *testing.T) {
	const prompt, answer, next = 960, 640, 1600 // tokens
	for _, tt := range []struct {
		name        string
		found       func(turn int) int // of an answer
		repeats     bool               // the second turn repeats the first
		least, most int                // range of the answer's tokens expected to be cached in the end
	}{
		{"all", func(int) int { return answer }, false, answer - 1, answer - 1},
		{"none", func(int) int { return 0 }, false, 0, answer / 10},
		{"every second", func(i int) int { return i % 2 * answer }, false, answer * 3 / 10, answer * 7 / 10},
		{"more than there was", func(int) int { return 2 * answer }, false, answer - 1, answer - 1},
		{"tried again", func(int) int { return 0 }, true, answer - 1, answer - 1},
		{"pushed out", func(int) int { return -prompt }, false, answer - 1, answer - 1},
	} {
		e := newEngines(t, 1, Facts{})
		for i := range 60 {
			first, second := said(words(2*i, prompt)), said(words(2*i, prompt), words(2*i+1, next-prompt))
			if e.serve(0, fmt.Sprint(i), first, 0, answer); tt.repeats {
				second = first
			}
			e.serve(0, fmt.Sprint(i), second, min(prompt+tt.found(i), next-1), answer)
		}
		e.serve(0, "last", said(words(1000, prompt)), 0, answer)
		got := e.cached(0, "last", said(words(1000, prompt), words(1001, next-prompt))) - prompt
		if got < tt.least || got > tt.most {
			t.Errorf("%s: %d tokens of the answer are expected, want %d to %d", tt.name, got, tt.least, tt.most)
		}
	}
}

// TestEngineWithoutCache: of an engine that says that it reuses no prefixes nothing is predicted, until an answer
// reports cached tokens, or the engine is back with its cache.
func TestEngineWithoutCache(t *testing.T) {
	e := newEngines(t, 2, Facts{CacheTokens: 1_000_000, Off: true})
	turns := 0
	turn := func(slot, found int) int {
		turns++
		return e.serve(slot, "s", said(words(1, 160*turns)), found, 1)
	}
	turn(0, 0)
	if got, room := turn(0, 0), e.Room(0); got != 0 || room != 0 {
		t.Errorf("%d tokens are predicted of an engine that reuses none, with room for %d", got, room)
	}
	turn(0, 320)
	if got := turn(0, 480); got == 0 || e.Room(0) == 0 {
		t.Error("nothing is predicted although an answer has reported cached tokens")
	}
	turn(1, 0)
	e.Describe(1, Facts{CacheTokens: 1_000_000})
	if turn(1, 0) == 0 {
		t.Error("nothing is predicted although the engine has its cache again")
	}
}

// TestCapacityIsLearnt: a conversation found again although more was computed since than the stated capacity shows a
// larger cache, and one not found although less was computed shows a smaller one. Nothing else does.
func TestCapacityIsLearnt(t *testing.T) {
	const stated, piece = 3200, 160 // tokens: the cache, and a piece of a prompt
	long := func(n int) *fleet.Request { return said(words(1, n*piece)) }
	others := func(e *engines, from, n int) { // each of a prompt of ten pieces
		for i := from; i < from+n; i++ {
			e.serve(0, "", said(words(100+i, 10*piece)), 0, 1)
		}
	}
	holds := func(e *engines) float64 { return float64(e.Capacity(0)) / stated }
	for name, play := range map[string]func(e *engines){
		"found again": func(e *engines) {
			others(e, 1, 6) // 9,600 tokens
			if got := e.serve(0, "talk", long(11), 10*piece, 1); got > piece {
				e.Fatalf("%d tokens are taken to be left", got)
			}
			if h := holds(e); h < 1.5 || h > 3 {
				e.Fatalf("it is taken to hold %.2f times what it states", h)
			}
			others(e, 10, 5)
			if got := e.serve(0, "talk", long(12), 11*piece, 1); got != 11*piece && holds(e) > 2.5 {
				e.Errorf("%d tokens are taken to be left of %.2f", got, holds(e))
			}
			before := holds(e)
			others(e, 20, 2)
			if e.serve(0, "talk", long(13), 0, 1); holds(e) >= before {
				e.Errorf("it was not found, and the engine is taken to hold %.2f, before %.2f", holds(e), before)
			}
		},
		"some of it": func(e *engines) {
			others(e, 1, 6)
			if e.serve(0, "talk", long(11), 4*piece, 1); holds(e) > 1 {
				e.Errorf("it is taken to hold %.2f times what it states", holds(e))
			}
		},
		"another prompt": func(e *engines) {
			others(e, 1, 6)
			if e.serve(0, "", long(11), 10*piece, 1); holds(e) > 1 {
				e.Errorf("it is taken to hold %.2f times what it states", holds(e))
			}
		},
		"after a turn that was cancelled": func(e *engines) {
			others(e, 1, 12)
			e.serve(0, "talk", long(11), 0, 1)
			others(e, 20, 1) // just fits beside it
			n, _ := e.place(0, "talk", long(12))
			e.end(n, fleet.ClientGone, -1, 0)
			if got := e.serve(0, "talk", long(12), 11*piece, 1); got > 10*piece || holds(e) > 1 {
				e.Errorf("%d tokens are taken to be left of %.2f", got, holds(e))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngines(t, 1, Facts{CacheTokens: stated, BlockTokens: 16})
			e.serve(0, "talk", long(10), 0, 1)
			play(e)
		})
	}
}

// TestUnitsArePredicted: what an engine that finds prompts in units of many tokens is predicted to have is whole units
// after some turns, whatever block it states and however the estimate of tokens errs.
func TestUnitsArePredicted(t *testing.T) {
	for _, unit := range []int{1, 16, 528, 1056, 2144} {
		for _, stated := range []int{0, 16, unit} {
			for seed, scale := range []float64{0.97, 1, 1.04, 0.99, 1.02} {
				playUnits(t, rand.New(rand.NewPCG(uint64(seed), 1)), unit, stated, scale)
			}
		}
	}
}

func playUnits(t *testing.T, rng *rand.Rand, unit, stated int, scale float64) {
	e := newEngines(t, 1, Facts{CacheTokens: 10_000_000, BlockTokens: stated})
	e.scale = scale
	talks, held := make([][]uint32, 4), make([]int, 4) // of each the length of the last prompt
	for i := range 60 {
		talk := rng.IntN(len(talks))
		talks[talk] = slices.Concat(talks[talk], words(i, 320*(1+rng.IntN(3))))
		n, got := e.place(0, fmt.Sprint(talk), said(talks[talk]))
		e.Computed(e.now, n)
		found := min(int(float64(held[talk])*scale), e.open[n].tokens-1)
		held[talk] = len(talks[talk])
		if e.end(n, fleet.OK, found-found%unit, 1); i > 40 && unit > 500 && got%unit != 0 {
			t.Errorf("units of %d, blocks of %d, %v, turn %d: %d tokens are predicted", unit, stated, scale, i, got)
		}
	}
}

// TestEachOfSeveralPrompts: what an engine holds of the prompts of one request is added up, and each of them is held by
// itself afterwards, for requests of one prompt too; what failed is not.
func TestEachOfSeveralPrompts(t *testing.T) {
	list := func(prompts ...[]uint32) *fleet.Request {
		r := &fleet.Request{Content: &fleet.Content{}}
		for _, p := range prompts {
			c := said(p).Content
			r.Content.List = append(r.Content.List, fleet.Listed{Blocks: c.Blocks, Bytes: c.Bytes, IDs: len(p)})
			r.PromptTokens += len(p)
		}
		return r
	}
	e := newEngines(t, 2, Facts{CacheTokens: 100_000, BlockTokens: 16})
	one, two, three := words(1, 320), words(2, 320), words(3, 320)
	for _, step := range []struct {
		name    string
		slot    int
		req     *fleet.Request
		outcome fleet.Outcome
		want    int
	}{
		{"nothing is held", 0, list(one, two), fleet.OK, 0},
		{"both", 0, list(one, two), fleet.OK, 608}, // all but the block of the last token of each
		{"in another order", 0, list(two, one), fleet.OK, 608},
		{"one of two", 0, list(two, three), fleet.EngineError, 304},
		{"what failed is not held", 0, list(two, three), fleet.ClientGone, 304},
		{"the same prompt twice", 0, list(one, one), fleet.OK, 608},
		{"a longer one", 0, list(words(1, 640), words(4, 64)), fleet.OK, 320},
		{"nothing elsewhere", 1, list(one, two), fleet.Abandoned, 0},
		{"and still both here", 0, list(one, two), fleet.OK, 608},
		{"by itself", 0, said(two), fleet.OK, 304},
		{"one that comes alone", 1, said(three), fleet.OK, 0},
		{"is held as one of several", 1, list(two, three), fleet.OK, 304},
	} {
		n, got := e.place(step.slot, "", step.req)
		if step.outcome == fleet.OK {
			e.Computed(e.now, n)
		}
		// Some engines report the cached tokens of the first prompt alone: that says nothing of what is held.
		if e.end(n, step.outcome, 0, 1); got != step.want {
			t.Errorf("%s: %d tokens are predicted, want %d", step.name, got, step.want)
		}
	}
	texts := func(prompts ...[]uint32) *fleet.Request { // they have their shares of what is estimated for all
		r := list(prompts...)
		r.PromptTokens = 0
		for i := range r.Content.List {
			r.Content.List[i].IDs = 0
			r.Content.Bytes += r.Content.List[i].Bytes
		}
		r.PromptBytes = r.Content.Bytes
		return r
	}
	five, six := words(5, 160), words(6, 480)
	e.serve(0, "", texts(five, six), -1, 1)
	for want, r := range map[int]*fleet.Request{
		144: texts(five, words(7, 480)), 464: texts(words(7, 160), six), 144 + 464: texts(five, six, words(8, 64)),
	} {
		e.want("texts", 0, "", r, want)
	}
}
