package rivals

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
)

// The expected picks follow from the formula at the head of each policy's file; each case shows the calculation.
func TestScoresByHand(t *testing.T) {
	type row struct {
		cached  int
		load    fleet.Load
		perTok  float64
		kvUsage float64
	}
	tests := []struct {
		name, policy string
		prompt       int
		rows         []row
		want         int
	}{
		// 500+200 to compute, 2800 active: 3500. 1000 to compute, 2501 active: 3501.
		{"dynamo: cached beats idle by one token", "dynamo.kv", 1000, []row{
			{cached: 800, load: fleet.Load{PrefillTokens: 500, ContextTokens: 3000, DecodeTokens: 200}},
			{load: fleet.Load{ContextTokens: 2601, DecodeTokens: 100}},
		}, 0},
		// The second with 2499 active: 3499.
		{"dynamo: load beats cached by one token", "dynamo.kv", 1000, []row{
			{cached: 800, load: fleet.Load{PrefillTokens: 500, ContextTokens: 3000, DecodeTokens: 200}},
			{load: fleet.Load{ContextTokens: 2599, DecodeTokens: 100}},
		}, 1},
		// Expected answer tokens are not in the cost: 1000 against 1000+1.
		{"dynamo: output is not tracked", "dynamo.kv", 1000, []row{
			{load: fleet.Load{ContextTokens: 900, DecodeTokens: 900}},
			{load: fleet.Load{ContextTokens: 1}},
		}, 0},
		// (500+200)*4 = 2800 against (0+1000)*2 = 2000.
		{"lmetric: the batch multiplies", "lmetric", 1000, []row{
			{cached: 800, load: fleet.Load{PrefillTokens: 500, Requests: 3}},
			{load: fleet.Load{Requests: 1}},
		}, 1},
		// (500+200)*2 = 1400 against (0+1000)*2 = 2000.
		{"lmetric: what is cached multiplies", "lmetric", 1000, []row{
			{cached: 800, load: fleet.Load{PrefillTokens: 500, Requests: 1}},
			{load: fleet.Load{Requests: 1}},
		}, 0},
		// (1000+200)*0.1 = 120 ms against (0+1000)*0.125 = 125 ms.
		{"mooncake: the queue and the rest", "mooncake.algorithm1", 1000, []row{
			{cached: 800, load: fleet.Load{PrefillTokens: 1000}, perTok: 0.1}, {perTok: 0.125},
		}, 0},
		// (1000+300)*0.1 = 130 ms against 125 ms.
		{"mooncake: a hundred tokens more", "mooncake.algorithm1", 1000, []row{
			{cached: 700, load: fleet.Load{PrefillTokens: 1000}, perTok: 0.1}, {perTok: 0.125},
		}, 1},
		// mean 3: 0.5-(4-3)/3 = 0.167 against 0-(2-3)/3 = 0.333.
		{"stack.loadaware: a half against twice the load", "stack.loadaware", 1000, []row{
			{cached: 500, load: fleet.Load{Requests: 4}}, {load: fleet.Load{Requests: 2}},
		}, 1},
		// mean 3: 0.8-0.333 = 0.467 against 0.333.
		{"stack.loadaware: four fifths", "stack.loadaware", 1000, []row{
			{cached: 800, load: fleet.Load{Requests: 4}}, {load: fleet.Load{Requests: 2}},
		}, 0},
		// mean 0.5, taken as 1: 0.9-0.5 = 0.4 against 0+0.5 = 0.5.
		{"stack.loadaware: the mean is at least one", "stack.loadaware", 1000, []row{
			{cached: 900, load: fleet.Load{Requests: 1}}, {},
		}, 1},
		// 0.5-0 twice: the first by name.
		{"stack.loadaware: equals by name", "stack.loadaware", 1000, []row{{cached: 500}, {cached: 500}}, 0},
		// No prefix anywhere. 2*1+2*(1-0.9) = 2.2 against 2*0+2*(1-0) = 2.
		{"llmd: queue", "llmd.default", 1000, []row{
			{load: fleet.Load{EngineWaiting: 0}, kvUsage: 0.9}, {load: fleet.Load{EngineWaiting: 5}, kvUsage: 0},
		}, 0},
		// 2*1 + 2*0.5 = 3 for both of the first two by queue alone; the third is 2*(5-3)/5 + 2*0.9 = 2.6; the second
		// has 2*1+2*0.55 = 3.1.
		{"llmd: min-max of three", "llmd.default", 1000, []row{
			{load: fleet.Load{EngineWaiting: 0}, kvUsage: 0.5},
			{load: fleet.Load{EngineWaiting: 0}, kvUsage: 0.45},
			{load: fleet.Load{EngineWaiting: 3}, kvUsage: 0.1},
			{load: fleet.Load{EngineWaiting: 5}, kvUsage: 0},
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(10) {
				cs := policytest.Same(len(tt.rows))
				for i, r := range tt.rows {
					cs[i].CachedTokens, cs[i].Load, cs[i].MsPerToken, cs[i].KVUsage = r.cached, r.load,
						r.perTok, r.kvUsage
				}
				v := policytest.Asks(cs, tt.prompt)
				policytest.Seed(v, seed)
				if got := policytest.Place(makeRival(tt.policy), v, &fleet.Request{}); got.Index != tt.want ||
					got.Reason != reasons.Score {
					t.Fatalf("seed %d: got %v, want %d", seed, got, tt.want)
				}
			}
		})
	}
}

// Without reports from the engines, llm-d's figures come from the router's accounts.
func TestLLMDWithoutReports(t *testing.T) {
	cs := policytest.Same(2)
	for i := range cs {
		cs[i].KVUsage, cs[i].Places, cs[i].CacheTokens = -1, 4, 1000
	}
	cs[0].Load = fleet.Load{Requests: 6, ContextTokens: 100} // 2 wait, a tenth in use: 2*0 + 2*0.9 = 1.8
	cs[1].Load = fleet.Load{Requests: 4, ContextTokens: 900} // none wait, nine tenths: 2*1 + 2*0.1 = 2.2
	if got := policytest.Place(makeRival("llmd.default"), policytest.Asks(cs, 10), &fleet.Request{}).Index; got != 1 {
		t.Errorf("got %d", got)
	}
	cs[1].Load.ContextTokens = 1000 // 2*1 + 2*0 = 2, and then
	cs[0].Load.Requests = 4         // 2*1 + 2*0.9 = 3.8
	if got := policytest.Place(makeRival("llmd.default"), policytest.Asks(cs, 10), &fleet.Request{}).Index; got != 0 {
		t.Errorf("got %d", got)
	}
}

// Equal scores are drawn evenly.
func TestEqualScoresAreDrawn(t *testing.T) {
	for _, name := range []string{
		"dynamo.kv", "lmetric", "mooncake.algorithm1", "llmd.default", "preble.e2", "smg.cache_aware",
		"stack.prefixaware", "aibrix.prefix_cache",
	} {
		cs, counts := policytest.Same(4), make([]int, 4)
		for seed := range uint64(2000) {
			v := policytest.Asks(cs, 100)
			policytest.Seed(v, seed)
			counts[policytest.Place(makeRival(name), v, &fleet.Request{}).Index]++
		}
		if got := policytest.ChiSquare(counts, cs); got > 16.27 {
			t.Errorf("%s: chi-square %.1f: %v", name, got, counts)
		}
	}
}

// Preble: at 0.1 ms a token and 10 ms an answer token, a request of 1,000 uncached tokens and 20 answer tokens is 300
// ms of load.
func TestPrebleByHand(t *testing.T) {
	p := makeRival("preble.e2")
	cs := policytest.Same(2)
	for i := range cs {
		cs[i].MsPerToken, cs[i].MsPerAnswer = 0.1, 10
	}
	choose := func(after time.Duration, prompt int, cached ...int) pick.Choice {
		cs[0].CachedTokens, cs[1].CachedTokens = cached[0], cached[1]
		v := policytest.Asks(cs, prompt)
		v.Now, v.OutputTokens = v.Now.Add(after), 20
		return policytest.Place(p, v, &fleet.Request{})
	}
	expect := func(what string, got pick.Choice, want int, reason pick.Reason) {
		t.Helper()
		if got != (pick.Choice{Index: want, Reason: reason}) {
			t.Errorf("%s: got %v, want %d for %s", what, got, want, reason)
		}
	}
	first := choose(0, 1000, 0, 0).Index // no endpoint has load: drawn
	a, b := first, 1-first
	order := func(onA, onB int) []int {
		c := make([]int, 2)
		c[a], c[b] = onA, onB
		return c
	}
	// Half of 1,000 is cached: not more than remains, so it explores: 300+50 against 0+100.
	expect("explores", choose(0, 1000, order(500, 0)...), b, reasons.Load)
	// The load of b is now 100+200 = 300 too. 501 of 1,000 on a: exploits, and the loads are balanced.
	expect("exploits", choose(0, 1000, order(501, 0)...), a, reasons.CacheMatch)
	// a: 300+49.9+200 = 549.9, more than 1.5 * 300: the least loaded gets it.
	expect("shifts", choose(0, 1000, order(501, 0)...), b, reasons.CacheMatch)
	// b: 300+100+200 = 600 against 549.9: exploring goes to a unless it would evict: 549.9+100 against 600+100.
	expect("explores again", choose(0, 1000, order(0, 0)...), a, reasons.Load)
	// After three minutes all of that is forgotten: 0+10 on b against 0+100.
	expect("forgets", choose(180*time.Second, 1000, order(0, 400)...), b, reasons.Load)
}

// Evictions of a full cache cost by the probability of a new request: 0.6*100 = 60 ms more on the first.
func TestPrebleEviction(t *testing.T) {
	cs := policytest.Same(2)
	cs[0].MsPerToken, cs[1].MsPerToken = 0.1, 0.15
	cs[0].Full = true
	for missed, want := range map[float64]int{0.4: 0, 0.6: 1} {
		v := policytest.Asks(cs, 1000)
		v.Missed = missed // 100+40 or 100+60 against 150
		if got := policytest.Place(makeRival("preble.e2"), v, &fleet.Request{}).Index; got != want {
			t.Errorf("missed %v: got %d", missed, got)
		}
	}
}

// With counted blocks: 700 to compute and 900+100 active, 1700, against 1000 and 0+1000, 2000; a shared block counts
// once.
func TestDynamoCountsSharedBlocksOnce(t *testing.T) {
	cs := policytest.Same(2)
	cs[0].CachedTokens, cs[0].ActiveTokens, cs[0].AddsTokens = 800, 900, 100
	cs[0].Load = fleet.Load{PrefillTokens: 500, ContextTokens: 5000}
	cs[1].AddsTokens = 1000
	for counted, want := range map[bool]int{true: 0, false: 1} { // each separately: 700+5000+1000
		v := policytest.Asks(cs, 1000)
		v.Counted = counted
		if got := policytest.Place(makeRival("dynamo.kv"), v, &fleet.Request{}).Index; got != want {
			t.Errorf("counted %v: got %d", counted, got)
		}
	}
}
