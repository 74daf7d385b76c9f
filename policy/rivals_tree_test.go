package policy

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// step is one request and where it must go.
type step struct {
	ask    *fleet.Request
	busy   []int
	want   int // -1: anywhere
	reason pick.Reason
}

func follow(t *testing.T, name string, steps []step) {
	t.Helper()
	p := makeRival(name)
	for i, s := range steps {
		v := asks(busy(s.busy...), bytesOf(s.ask)/bytesPerToken)
		v.Rand = rng(uint64(i))
		got := p.Pick(v, s.ask)
		if s.want >= 0 && got.Index != s.want || got.Reason != s.reason {
			t.Errorf("step %d: got %v, want %d for %s", i, got, s.want, s.reason)
		}
	}
}

func TestSMGCacheAwareByHand(t *testing.T) {
	follow(t, "smg.cache_aware", []step{
		{words(10, 0, 0), []int{1, 0, 2, 3}, 1, ReasonLoad},             // nothing in the tree: the least loaded
		{words(3, 2, 7), []int{1, 1, 0, 1}, 2, ReasonLoad},              // 3 of 10 is not more than 0.3
		{words(4, 3, 6), []int{0, 2, 1, 0}, 1, ReasonCacheMatch},        // 4 of 10 is, and only 1 has them
		{words(4, 4, 6), []int{0, 5, 0, 0}, 1, ReasonCacheMatch},        // mean 1.25, margin 4: at most 5.25
		{words(10, 5, 6), []int{1, 6, 0, 0}, -1, ReasonLoad},            // mean 1.75: at most 5.75; one of the idle two
		{words(4, 6, 6), []int{9, 9, 9, 12}, 1, ReasonCacheMatch},       // of the two that have four, whoever they are, 1 is no more loaded
		{words(4, 3, 6), []int{99, 150, 100, 101}, 1, ReasonCacheMatch}, // mean 112.5: at most 168.75
		{words(4, 3, 6), []int{69, 150, 70, 71}, 0, ReasonLoad},         // mean 90: at most 135
	})
	// The margin: mean 16 gives 2*4 = 8, so 24 is calm, as 1.5 times 16 is.
	if got := smgPressure(busy(16, 16)); got != 24 {
		t.Errorf("at a mean of 16: %v", got)
	}
	// Mean 9: 2*3 = 6 above, 15, more than 13.5.
	if got := smgPressure(busy(9, 9)); got != 15 {
		t.Errorf("at a mean of 9: %v", got)
	}
	if got := smgPressure(busy(0, 0)); got != 4 {
		t.Errorf("idle: %v", got)
	}
}

// A beginning that everybody shares gets a second home when the first is under pressure, and both serve it from then on.
func TestSMGCacheAwareReplicates(t *testing.T) {
	follow(t, "smg.cache_aware", []step{
		{words(8, 0, 0), []int{0, 9}, 0, ReasonLoad},
		{words(8, 2, 2), []int{9, 0}, 1, ReasonLoad},       // mean 4.5, margin 4.24: at most 8.74
		{words(8, 3, 2), []int{3, 1}, 1, ReasonCacheMatch}, // both have it now: the less loaded
		{words(8, 4, 2), []int{1, 3}, 0, ReasonCacheMatch},
	})
}

func TestSMGPrefixHashByHand(t *testing.T) {
	p := makeRival("smg.prefix_hash")
	home := p.Pick(asks(busy(0, 0), 0), words(8, 2, 1)).Index // eight blocks decide, not the ninth
	choose := func(r *fleet.Request, onHome, onOther int) pick.Choice {
		cs := busy(onOther, onOther)
		cs[home].Load.Requests = onHome
		return p.Pick(asks(cs, 0), r)
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
		want := pick.Choice{Index: home, Reason: ReasonHash}
		if tt.away {
			want = pick.Choice{Index: 1 - home, Reason: ReasonLoad}
		}
		if got := choose(words(8, 3, 5), tt.onHome, tt.onOther); got != want {
			t.Errorf("%d and %d: got %v, want %v", tt.onHome, tt.onOther, got, want)
		}
	}
}

func TestAIBrixByHand(t *testing.T) {
	follow(t, "aibrix.prefix_cache", []step{
		{words(10, 0, 0), []int{1, 0, 2}, 1, ReasonLoad},
		{words(10, 2, 10), []int{0, 0, 0}, 1, ReasonCacheMatch}, // 50 %
		// Mean 1, deviation 1.41: 2.41 is the limit, 3 is above it.
		{words(10, 3, 10), []int{0, 3, 0}, -1, ReasonLoad},
		// Mean 3, deviation 4.24: 9 is above 7.24 and out of balance by 9: only the least loaded are looked at.
		{words(10, 0, 0), []int{0, 9, 0}, -1, ReasonCacheMatch},
		// 11 of 20 blocks, 55 %, are on 1 (its second prompt); half of it on the third's: the percentage counts first.
		{words(10, 2, 10), []int{1, 1, 1}, 1, ReasonCacheMatch},
	})
	p := &aibrix{tree: newMemory(10_000)}
	cs := busy(5, 4)
	long := words(1000, 0, 0)
	p.tree.match(cs, nil)
	p.tree.sent(&cs[0], long.Content.Blocks[:509])
	p.tree.sent(&cs[1], long.Content.Blocks[:501])
	// 50.9 % and 50.1 % are both 50: the less loaded.
	if got := p.Pick(asks(cs, 0), long).Index; got != 1 {
		t.Errorf("whole percents: got %d", got)
	}
}

func TestRayByHand(t *testing.T) {
	follow(t, "ray.prefix_pow2", []step{
		{words(20, 0, 0), []int{2, 1, 3}, 1, ReasonLoad},         // all trees are empty: the shortest queue
		{words(2, 2, 18), []int{0, 90, 0}, 1, ReasonCacheMatch},  // 2 of 20 is a tenth, and the queue does not matter
		{words(1, 3, 18), []int{9, 0, 5}, 2, ReasonLoad},         // 1 of 19 is less: the smallest trees, then the shortest queue
		{words(1, 4, 30), []int{9, 0, 0}, 0, ReasonLoad},         // the only empty tree
		{words(20, 5, 1), []int{0, 7, 0}, 1, ReasonCacheMatch},   // the deepest match
		{words(1, 4, 30), []int{99, 0, 0}, 0, ReasonCacheMatch},  // all of it
		{&fleet.Request{}, []int{5, 5, 5}, -1, ReasonLoad},       // of no known prompt
		{words(1, 6, 2), []int{4, 4, 4}, 0, ReasonCacheMatch},    // all three have the first block: the first
		{words(0, 7, 3), []int{0, 0, 0}, 2, ReasonLoad},          // 2 has the fewest blocks
		{words(0, 8, 100), []int{0, 0, 0}, 2, ReasonLoad},        // still
		{words(0, 9, 100), []int{90, 90, 90}, 0, ReasonLoad},     // 31+2, against 39 and 122
		{words(0, 9, 100), []int{90, 0, 0}, 0, ReasonCacheMatch}, // where it was sent
	})
}

// A block of llm-d's is two of ours: 3 for all of a prompt, 1.5 for half of it.
func TestLLMDPrefixByHand(t *testing.T) {
	p, cs := makeRival("llmd.default"), same(2)
	first := p.Pick(asks(cs, 0), words(8, 0, 0)).Index
	choose := func(r *fleet.Request, usage float64) int {
		cs := same(2)
		cs[first].KVUsage = usage // costs 2*usage
		return p.Pick(asks(cs, 0), r).Index
	}
	if got := choose(words(8, 0, 0), 1); got != first { // 3 + 2*0 against 2*1
		t.Error("3 points for the whole prompt do not outweigh 2 for the cache")
	}
	if got := choose(words(8, 2, 8), 0.8); got == first { // 1.5 + 2*0.2 = 1.9 against 2
		t.Error("half a prompt outweighs four fifths of a cache")
	}
	// That went to the other one. 7 of 16 of ours are 3 of its 8: 1.125 + 2*0.5 = 2.125 against 2 + 1.125.
	if got := choose(words(7, 3, 9), 0.5); got == first {
		t.Error("both hold the beginning: the emptier cache decides")
	}
}

// Until they are forgotten, what endpoints were sent stays theirs; a new endpoint in an old one's slot has been sent nothing.
func TestASlotsNewEndpointHoldsNothing(t *testing.T) {
	for _, name := range []string{"smg.cache_aware", "ray.prefix_pow2", "stack.prefixaware", "aibrix.prefix_cache"} {
		p, cs := makeRival(name), busy(0, 1)
		first := p.Pick(asks(cs, 0), words(10, 0, 0)).Index
		cs = busy(0, 0)
		cs[first].Load.Requests = 2
		if got := p.Pick(asks(cs, 0), words(10, 0, 0)); got != (pick.Choice{Index: first, Reason: ReasonCacheMatch}) {
			t.Errorf("%s: the second time: %v, first %d", name, got, first)
		}
		cs[first].Key++
		if got := p.Pick(asks(cs, 0), words(10, 0, 0)); got.Reason == ReasonCacheMatch {
			t.Errorf("%s: the new endpoint is thought to hold what the old one did: %v", name, got)
		}
	}
}
