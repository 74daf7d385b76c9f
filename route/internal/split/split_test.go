package split

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
)

// TestAsk: what can be told of a request without its candidates.
func TestAsk(t *testing.T) {
	turn := fleet.Request{Splits: true}
	for _, c := range []struct {
		name      string
		rule      Rule
		pool      Pool
		req       fleet.Request
		tokens    int
		why       fleet.SplitWhy
		undecided bool
	}{
		{"one pool", Rule{When: fleet.WhenAlways}, Pool{}, turn, 1, "", false},
		{
			"an embedding",
			Rule{When: fleet.WhenAlways},
			Pool{Splits: true},
			fleet.Request{Splits: true, Class: fleet.Embed},
			1, "", false,
		},
		{
			"pinned",
			Rule{When: fleet.WhenAlways},
			Pool{Splits: true},
			fleet.Request{Splits: true, Pin: "e"},
			1, fleet.WholePinned, false,
		},
		{
			"its prefill leg failed",
			Rule{When: fleet.WhenAlways},
			Pool{Splits: true},
			fleet.Request{Splits: true, Attempt: fleet.Attempt{Fails: true}},
			1, fleet.WholePrefillFails, false,
		},
		{
			"cannot be split",
			Rule{When: fleet.WhenAlways},
			Pool{Splits: true},
			fleet.Request{},
			1, fleet.WholeUnfit, false,
		},
		{
			"decoders take no whole requests",
			Rule{When: fleet.WhenNever},
			Pool{Splits: true, Must: true},
			turn, 1, fleet.SplitAlways, false,
		},
		{"never", Rule{When: fleet.WhenNever}, Pool{Splits: true}, turn, 1, fleet.WholeNever, false},
		{"always", Rule{When: fleet.WhenAlways}, Pool{Splits: true}, turn, 1, fleet.SplitAlways, false},
		{"short", Rule{When: fleet.WhenTokens, Threshold: 10}, Pool{Splits: true}, turn, 9, fleet.WholeShort, false},
		{"long", Rule{When: fleet.WhenTokens, Threshold: 10}, Pool{Splits: true}, turn, 10, fleet.SplitLong, false},
		{"long by another measure", Rule{When: fleet.WhenTokens, Threshold: 10, Tokens: func(*fleet.Request) int {
			return 11
		}}, Pool{Splits: true}, turn, 1, fleet.SplitLong, false},
		{"uncached", Rule{When: fleet.WhenUncached}, Pool{Splits: true}, turn, 1, "", true},
		{"by time", Rule{When: fleet.WhenTime}, Pool{Splits: true}, turn, 1, "", true},
		{"without roles", Rule{When: fleet.WhenFree}, Pool{Splits: true}, turn, 1, "", true},
	} {
		if why, undecided := c.rule.ByRequest(c.pool, &c.req, c.tokens); why != c.why || undecided != c.undecided {
			t.Errorf("%s: %q, undecided %v, want %q, %v", c.name, why, undecided, c.why, c.undecided)
		}
	}
}

// legs are the tables of one prefiller, one endpoint for all of it, and the same as a decoder. All compute 1,000 tokens
// in 100 ms, move them in 10 and need 20 besides, of a whole request none.
func legs() (prefill, whole, decode *pick.View) {
	row := pick.Candidate{Endpoint: pick.Endpoint{Weight: 1, Ramp: 1, Slot: 1}, Pace: pick.Pace{MsPerToken: 0.1}}
	prefill = &pick.View{
		Leg: fleet.LegPrefill, PromptTokens: 1000, Splits: true, Interference: 1, Candidates: []pick.Candidate{row},
	}
	whole = &pick.View{PromptTokens: 1000, Splits: true, Interference: 1, Candidates: []pick.Candidate{row}}
	row.Link = pick.Link{MsPerToken: 0.01, FixedMs: 20}
	decode = &pick.View{
		Leg: fleet.LegDecode, PromptTokens: 1000, Splits: true, Interference: 1, Candidates: []pick.Candidate{row},
	}
	prefill.Candidates[0].Slot = 0
	return prefill, whole, decode
}

// TestTime: what splits a request, and what keeps it whole, one at a time.
func TestTime(t *testing.T) {
	for _, c := range []struct {
		name             string
		change           func(prefill, whole, decode *pick.Candidate)
		why              fleet.SplitWhy
		wholeMs, splitMs float64
	}{
		{"all are idle", func(_, _, _ *pick.Candidate) {}, fleet.WholeSooner, 100, 130},
		{"one is answered there and would wait", func(_, w, _ *pick.Candidate) {
			w.Decoding = 1
		}, fleet.SplitSooner, 200, 130},
		{
			"two are answered at the prefiller too", func(p, w, _ *pick.Candidate) { w.Decoding, p.Decoding = 1, 2 },
			fleet.WholeSooner, 200, 330,
		},
		{"it has most of the prompt", func(_, w, _ *pick.Candidate) {
			w.CachedTokens, w.PresentTokens, w.Decoding = 900, 900, 10
		}, fleet.WholeSooner, 110, 130},
		{"most of that is still to come", func(_, w, _ *pick.Candidate) {
			w.CachedTokens, w.PresentTokens, w.Decoding = 900, 100, 10
		}, fleet.SplitSooner, 990, 130},
		{"most of that proves to be missing", func(_, w, _ *pick.Candidate) {
			w.CachedTokens, w.PresentTokens, w.ExpectedMiss, w.Decoding = 900, 900, 450, 10
		}, fleet.SplitSooner, 605, 130},
		{"others share the link", func(_, w, d *pick.Candidate) {
			w.Decoding, d.WaitMs, d.Link.WaitMs, d.Link.DelayMs = 1, 40, 40, 40
		}, fleet.WholeSooner, 200, 210},
		{"less than a twentieth is gained", func(_, w, _ *pick.Candidate) {
			w.WaitMs = 36
		}, fleet.WholeSooner, 136, 130},
		{"more than a twentieth is", func(_, w, _ *pick.Candidate) { w.WaitMs = 38 }, fleet.SplitSooner, 138, 130},
		// 0.01 turns a ms come there, over half of the time that is left: each waits for 100 ms, or half of that,
		// and that counts twice.
		{"turns come there", func(_, w, _ *pick.Candidate) {
			w.TurnsPerMs, w.Utilisation = 0.01, 0.5
		}, fleet.SplitSooner, 300, 130},
		{"it overtakes three at the router", func(_, w, _ *pick.Candidate) {
			w.Overtaken = 3
		}, fleet.SplitSooner, 700, 130},
	} {
		prefill, whole, decode := legs()
		c.change(&prefill.Candidates[0], &whole.Candidates[0], &decode.Candidates[0])
		why, w := Time(prefill, whole, decode)
		if why != c.why || math.Abs(w.WholeMs-c.wholeMs) > 1e-9 || math.Abs(w.SplitMs-c.splitMs) > 1e-9 {
			t.Errorf("%s: %s of %+v, want %s of %v and %v", c.name, why, w, c.why, c.wholeMs, c.splitMs)
		}
	}
}

// TestFirstTurnsAreNoReason: what the later turns of a conversation will bring has no part in whether this one is
// split.
func TestFirstTurnsAreNoReason(t *testing.T) {
	var of [2]fleet.Weighed
	for i := range of {
		prefill, whole, decode := legs()
		for _, v := range []*pick.View{prefill, whole, decode} {
			v.FirstTurn, v.LaterTurns, v.TurnTokens, v.Candidates[0].Utilisation = i == 1, 5, 1000, 0.5
		}
		_, of[i] = Time(prefill, whole, decode)
	}
	if of[0] != of[1] {
		t.Errorf("a later turn %+v, a first one %+v", of[0], of[1])
	}
}

// TestFreeCountsTheDelay: a pair is charged twice for what the first token comes later, and a prompt that takes more
// than a quarter of the memory is not put into two engines.
func TestFreeCountsTheDelay(t *testing.T) {
	for _, c := range []struct {
		name    string
		memory  int64
		waitMs  float64 // for all of it at one endpoint
		why     fleet.SplitWhy
		splitMs float64
	}{
		{"idle", 0, 0, fleet.WholeSooner, 130 + 30},
		{"the first token comes sooner", 0, 200, fleet.SplitSooner, 130},
		{"there is room for two", 4000, 200, fleet.SplitSooner, 130},
		{"there is not", 3999, 200, fleet.WholeSooner, 0},
	} {
		prefill, whole, decode := legs()
		whole.Candidates[0].WaitMs, decode.Candidates[0].CacheTokens = c.waitMs, c.memory
		var f Free
		f.Begin(prefill, whole)
		if f.Prefiller != [2]int{0, -1} || f.ReadyMs(0) != 100 {
			t.Fatalf("%+v", f)
		}
		f.AddPairs(0, decode)
		why, w, row := f.Choose(decode)
		if why != c.why || row != 0 || math.Abs(w.SplitMs-c.splitMs) > 1e-9 {
			t.Errorf("%s: %s of %+v, want %s of %v", c.name, why, w, c.why, c.splitMs)
		}
	}
}

// TestFreePairIsTheCheapest: of all pairs whose prompt one of the two endpoints computes where that costs least, the
// cheapest is found.
func TestFreePairIsTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, tokens := rapid.IntRange(1, 6).Draw(t, "endpoints"), rapid.IntRange(1, 20_000).Draw(t, "tokens")
		var views [3]pick.View // prefill, whole, decode
		for i, leg := range []fleet.Leg{fleet.LegPrefill, fleet.LegUnsplit, fleet.LegDecode} {
			v := &views[i]
			*v = pick.View{Leg: leg, PromptTokens: tokens, OutputTokens: 100, Splits: true, Interference: 1}
			for slot := range n {
				wait := pick.Wait{
					WaitMs:   float64(rapid.IntRange(0, 3000).Draw(t, "wait")),
					Decoding: rapid.IntRange(0, 20).Draw(t, "answers"),
				}
				v.Candidates = append(v.Candidates, pick.Candidate{
					Endpoint: pick.Endpoint{Slot: slot, Key: uint64(slot), Weight: 1, Ramp: 1}, Wait: wait,
					Pace: pick.Pace{MsPerToken: float64(rapid.IntRange(1, 20).Draw(t, "speed")) / 100, FixedMs: 10},
					Link: pick.Link{MsPerToken: 0.01, FixedMs: float64(rapid.IntRange(0, 500).Draw(t, "link"))},
				})
			}
		}
		prefill, whole, decode := &views[0], &views[1], &views[2]
		var f Free
		f.Begin(prefill, whole)
		for which, row := range f.Prefiller {
			if row >= 0 {
				f.AddPairs(which, decode)
			}
		}
		_, got, _ := f.Choose(decode)
		terms := func(v *pick.View, row int) (t pick.Terms) {
			s := cost.ForSplit(v)
			cost.Estimate(v, &v.Candidates[row], &s, &t)
			return t
		}
		prefillers := make([]int, n)
		for i := range prefillers {
			prefillers[i] = i
		}
		slices.SortStableFunc(prefillers, func(a, b int) int {
			x, y := terms(prefill, a), terms(prefill, b)
			return cmp.Compare(x.Cost(), y.Cost())
		})
		best := math.Inf(1)
		for _, i := range prefillers[:min(2, n)] {
			for j := range n {
				if i == j {
					continue
				}
				computes, answers, soonest := terms(prefill, i), terms(decode, j), terms(whole, f.whole)
				later := ReadyAt(prefill, &prefill.Candidates[i]) + answers.TTFT() - soonest.TTFT()
				best = min(best, computes.Cost()+answers.Cost()+max(0, later))
			}
		}
		if n == 1 && got != (fleet.Weighed{}) || n > 1 && (got.SplitMs < best-1e-6 || got.SplitMs > best+cost.NearMs) {
			t.Fatalf("%d endpoints: the pair costs %v, the best of all %v", n, got.SplitMs, best)
		}
	})
}

// TestAnswersStayAwayFromPrompts: where endpoints need no roles, an answer costs more where prompts take time, and
// where more are answered.
func TestAnswersStayAwayFromPrompts(t *testing.T) {
	row := pick.Candidate{
		Endpoint: pick.Endpoint{Weight: 1, Ramp: 1}, DecodePace: pick.DecodePace{AnswerMs: 10, PerOtherMs: 0.2},
	}
	busy, crowded := row, row
	busy.Utilisation, crowded.Load.Requests = 0.5, 4
	v := &pick.View{
		Leg: fleet.LegDecode, OutputTokens: 100, AnswerWaitCost: 2, Candidates: []pick.Candidate{row, busy, crowded},
	}
	scope := cost.ForSplit(v)
	for i, want := range []float64{0, 2 * 1000, 100 * 0.2 * 4} {
		var terms pick.Terms
		cost.Estimate(v, &v.Candidates[i], &scope, &terms)
		if got := terms.Externality; math.Abs(got-want) > 1e-9 {
			t.Errorf("row %d: %v ms, want %v", i, got, want)
		}
	}
}

// TestAnswersWaitWeight: without roles an answer goes to an endpoint that has its first token 2 s later rather than
// wait a second for prompts meanwhile, and not to one that has it 3 s later.
func TestAnswersWaitWeight(t *testing.T) {
	for later, moves := range map[float64]bool{2000: true, 3000: false} {
		busy := pick.Candidate{
			Endpoint: pick.Endpoint{Weight: 1, Ramp: 1}, DecodePace: pick.DecodePace{AnswerMs: 10},
			Demand: pick.Demand{Utilisation: 0.5},
		}
		idle := pick.Candidate{
			Endpoint: pick.Endpoint{Weight: 1, Ramp: 1}, DecodePace: pick.DecodePace{AnswerMs: 10},
			Wait: pick.Wait{WaitMs: later},
		}
		v := &pick.View{
			Leg: fleet.LegDecode, OutputTokens: 100, AnswerWaitCost: AnswerWaitCost,
			Candidates: []pick.Candidate{busy, idle},
		}
		scope := cost.ForSplit(v)
		var at, there pick.Terms
		cost.Estimate(v, &v.Candidates[0], &scope, &at)
		cost.Estimate(v, &v.Candidates[1], &scope, &there)
		if got := there.Cost() < at.Cost(); got != moves {
			t.Errorf("%v ms later: moves %t, want %t", later, got, moves)
		}
	}
}
