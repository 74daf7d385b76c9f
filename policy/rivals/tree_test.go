package rivals

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// step is one request and its expected endpoint.
type step struct {
	ask    *fleet.Request
	busy   []int
	want   int // -1: any
	reason pick.Reason
}

func follow(t *testing.T, name string, steps []step) {
	t.Helper()
	p := makeRival(name)
	for i, s := range steps {
		v := policytest.Asks(policytest.Busy(s.busy...), content.Bytes(s.ask)/content.BytesPerToken)
		policytest.Seed(v, uint64(i))
		got := policytest.Place(p, v, s.ask)
		if s.want >= 0 && got.Index != s.want || got.Reason != s.reason {
			t.Errorf("step %d: got %v, want %d for %s", i, got, s.want, s.reason)
		}
	}
}

func TestSMGCacheAwareByHand(t *testing.T) {
	follow(t, "smg.cache_aware", []step{
		// nothing in the tree: the least loaded
		{policytest.Words(10, 0, 0), []int{1, 0, 2, 3}, 1, reasons.Load},
		{policytest.Words(3, 2, 7), []int{1, 1, 0, 1}, 2, reasons.Load},       // 3 of 10 is not more than 0.3
		{policytest.Words(4, 3, 6), []int{0, 2, 1, 0}, 1, reasons.CacheMatch}, // 4 of 10 is, and only 1 has them
		// mean 1.25, margin 4: at most 5.25
		{policytest.Words(4, 4, 6), []int{0, 5, 0, 0}, 1, reasons.CacheMatch},
		// mean 1.75: at most 5.75; one of the idle two
		{policytest.Words(10, 5, 6), []int{1, 6, 0, 0}, -1, reasons.Load},
		// of the two that have four, wherever they are, 1 is no more loaded
		{policytest.Words(4, 6, 6), []int{9, 9, 9, 12}, 1, reasons.CacheMatch},
		{policytest.Words(4, 3, 6), []int{99, 150, 100, 101}, 1, reasons.CacheMatch}, // mean 112.5: at most 168.75
		{policytest.Words(4, 3, 6), []int{69, 150, 70, 71}, 0, reasons.Load},         // mean 90: at most 135
	})
	// The margin: mean 16 gives 2*4 = 8, so 24 is calm, as 1.5 times 16 is.
	if got := smgPressure(policytest.Busy(16, 16)); got != 24 {
		t.Errorf("at a mean of 16: %v", got)
	}
	// Mean 9: 2*3 = 6 above, 15, more than 13.5.
	if got := smgPressure(policytest.Busy(9, 9)); got != 15 {
		t.Errorf("at a mean of 9: %v", got)
	}
	if got := smgPressure(policytest.Busy(0, 0)); got != 4 {
		t.Errorf("idle: %v", got)
	}
}

// A common prefix gets a second home when the first is under pressure, and both serve it from then on.
func TestSMGCacheAwareReplicates(t *testing.T) {
	follow(t, "smg.cache_aware", []step{
		{policytest.Words(8, 0, 0), []int{0, 9}, 0, reasons.Load},
		{policytest.Words(8, 2, 2), []int{9, 0}, 1, reasons.Load},       // mean 4.5, margin 4.24: at most 8.74
		{policytest.Words(8, 3, 2), []int{3, 1}, 1, reasons.CacheMatch}, // both have it now: the less loaded
		{policytest.Words(8, 4, 2), []int{1, 3}, 0, reasons.CacheMatch},
	})
}

func TestSMGPrefixHashByHand(t *testing.T) {
	p := makeRival("smg.prefix_hash")
	// eight blocks decide, not the ninth
	home := policytest.Place(p, policytest.Asks(policytest.Busy(0, 0), 0), policytest.Words(8, 2, 1)).Index
	choose := func(r *fleet.Request, onHome, onOther int) pick.Choice {
		cs := policytest.Busy(onOther, onOther)
		cs[home].Load.Requests = onHome
		return policytest.Place(p, policytest.Asks(cs, 0), r)
	}
	tests := []struct {
		onHome, onOther int
		away            bool
	}{
		{10, 0, false},    // mean 5.5: at most max(6.875, 15.5)
		{20, 0, false},    // mean 10.5: at most 20.5
		{22, 0, true},     // mean 11.5: at most 21.5
		{124, 75, false},  // mean 100: at most 125
		{126, 73, true},   // mean 100
		{500, 499, false}, // mean 500: at most 625
	}
	for _, tt := range tests {
		want := pick.Choice{Index: home, Reason: reasons.Hash}
		if tt.away {
			want = pick.Choice{Index: 1 - home, Reason: reasons.Load}
		}
		if got := choose(policytest.Words(8, 3, 5), tt.onHome, tt.onOther); got != want {
			t.Errorf("%d and %d: got %v, want %v", tt.onHome, tt.onOther, got, want)
		}
	}
}

func TestAIBrixByHand(t *testing.T) {
	follow(t, "aibrix.prefix_cache", []step{
		{policytest.Words(10, 0, 0), []int{1, 0, 2}, 1, reasons.Load},
		{policytest.Words(10, 2, 10), []int{0, 0, 0}, 1, reasons.CacheMatch}, // 50 %
		// Mean 1, deviation 1.41: 2.41 is the limit, 3 is above it.
		{policytest.Words(10, 3, 10), []int{0, 3, 0}, -1, reasons.Load},
		// Mean 3, deviation 4.24: 9 is above 7.24 and out of balance by 9: only the least loaded are looked at.
		{policytest.Words(10, 0, 0), []int{0, 9, 0}, -1, reasons.CacheMatch},
		// 11 of 20 blocks, 55 %, are on 1 (its second prompt); half of it on the third's: the percentage counts first.
		{policytest.Words(10, 2, 10), []int{1, 1, 1}, 1, reasons.CacheMatch},
	})
	p := &aibrix{tree: sent.NewTree(10_000)}
	cs := policytest.Busy(5, 4)
	long := policytest.Words(1000, 0, 0)
	p.tree.Match(cs, nil)
	p.tree.Sent(&cs[0], long.Content.Blocks[:509])
	p.tree.Sent(&cs[1], long.Content.Blocks[:501])
	// 50.9 % and 50.1 % are both 50: the less loaded.
	if got := policytest.Place(p, policytest.Asks(cs, 0), long).Index; got != 1 {
		t.Errorf("whole percents: got %d", got)
	}
}

func TestRayByHand(t *testing.T) {
	follow(t, "ray.prefix_pow2", []step{
		// all trees are empty: the shortest queue
		{policytest.Words(20, 0, 0), []int{2, 1, 3}, 1, reasons.Load},
		// 2 of 20 is a tenth, and the queue is irrelevant
		{policytest.Words(2, 2, 18), []int{0, 90, 0}, 1, reasons.CacheMatch},
		// 1 of 19 is less: the smallest trees, then the shortest queue
		{policytest.Words(1, 3, 18), []int{9, 0, 5}, 2, reasons.Load},
		{policytest.Words(1, 4, 30), []int{9, 0, 0}, 0, reasons.Load},        // the only empty tree
		{policytest.Words(20, 5, 1), []int{0, 7, 0}, 1, reasons.CacheMatch},  // the deepest match
		{policytest.Words(1, 4, 30), []int{99, 0, 0}, 0, reasons.CacheMatch}, // all of it
		{&fleet.Request{}, []int{5, 5, 5}, -1, reasons.Load},                 // no known prompt
		// all three have the first block: the first
		{policytest.Words(1, 6, 2), []int{4, 4, 4}, 0, reasons.CacheMatch},
		{policytest.Words(0, 7, 3), []int{0, 0, 0}, 2, reasons.Load},          // 2 has the fewest blocks
		{policytest.Words(0, 8, 100), []int{0, 0, 0}, 2, reasons.Load},        // still
		{policytest.Words(0, 9, 100), []int{90, 90, 90}, 0, reasons.Load},     // 31+2, against 39 and 122
		{policytest.Words(0, 9, 100), []int{90, 0, 0}, 0, reasons.CacheMatch}, // where it was sent
	})
}

// A block of llm-d's is two of ours: 3 for all of a prompt, 1.5 for half of it.
func TestLLMDPrefixByHand(t *testing.T) {
	p, cs := makeRival("llmd.default"), policytest.Same(2)
	first := policytest.Place(p, policytest.Asks(cs, 0), policytest.Words(8, 0, 0)).Index
	choose := func(r *fleet.Request, usage float64) int {
		cs := policytest.Same(2)
		cs[first].KVUsage = usage // costs 2*usage
		return policytest.Place(p, policytest.Asks(cs, 0), r).Index
	}
	if got := choose(policytest.Words(8, 0, 0), 1); got != first { // 3 + 2*0 against 2*1
		t.Error("3 points for the whole prompt do not outweigh 2 for the cache")
	}
	if got := choose(policytest.Words(8, 2, 8), 0.8); got == first { // 1.5 + 2*0.2 = 1.9 against 2
		t.Error("half a prompt outweighs four fifths of a cache")
	}
	// That went to the other one. 7 of 16 of ours are 3 of its 8: 1.125 + 2*0.5 = 2.125 against 2 + 1.125.
	if got := choose(policytest.Words(7, 3, 9), 0.5); got == first {
		t.Error("both hold the beginning: the emptier cache decides")
	}
}

// Prompts recorded for an endpoint stay its own until they are evicted; a new endpoint in its slot has none.
func TestASlotsNewEndpointHoldsNothing(t *testing.T) {
	for _, name := range []string{"smg.cache_aware", "ray.prefix_pow2", "stack.prefixaware", "aibrix.prefix_cache"} {
		p, cs := makeRival(name), policytest.Busy(0, 1)
		first := policytest.Place(p, policytest.Asks(cs, 0), policytest.Words(10, 0, 0)).Index
		cs = policytest.Busy(0, 0)
		cs[first].Load.Requests = 2
		if got := policytest.Place(p, policytest.Asks(cs, 0), policytest.Words(10, 0, 0)); got != (pick.Choice{
			Index: first, Reason: reasons.CacheMatch,
		}) {
			t.Errorf("%s: the second time: %v, first %d", name, got, first)
		}
		cs[first].Key++
		if got := policytest.Place(p, policytest.Asks(cs, 0),
			policytest.Words(10, 0, 0)); got.Reason == reasons.CacheMatch {
			t.Errorf("%s: the new endpoint is thought to hold what the old one did: %v", name, got)
		}
	}
}
