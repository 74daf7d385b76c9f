package rank

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

// rankRouter is a rank router with some options set.
func rankRouter(t testing.TB, name string, set func(c *Config)) router {
	t.Helper()
	c := DefaultConfig()
	if set != nil {
		set(&c)
	}
	return makeAdapter(t, name, c).router
}

// with makes ranks with these numbers of active requests.
func with(requests ...int) []dpRank {
	out := make([]dpRank, len(requests))
	for i, n := range requests {
		out[i] = dpRank{Key: uint64(i) + 1, Requests: n}
	}
	return out
}

func capped(most int, ranks []dpRank) []dpRank {
	for i := range ranks {
		ranks[i].Most = most
	}
	return ranks
}

// asking are n requests of this many tokens, with ids from 1.
func asking(n, tokens int, cached ...int) []request {
	out := make([]request, n)
	for i := range out {
		out[i] = request{ID: uint64(i) + 1, Tokens: tokens, Cached: cached}
	}
	return out
}

// shares is the number of requests per rank.
func shares(to []int, ranks int) []int {
	out := make([]int, ranks)
	for _, at := range to {
		if at != unplaced {
			out[at]++
		}
	}
	return out
}

func placed(t *testing.T, r router, ranks []dpRank, batch []request) []int {
	t.Helper()
	to, _ := r.Place(ranks, batch)
	r.keep()
	return slices.Clone(to)
}

func TestRankDefault(t *testing.T) {
	tests := []struct {
		name     string
		ranks    []dpRank
		batch    []request
		want     []int
		expected int
	}{
		// fair share ceil(4/2) = 2. In order of length 900, 500, 400, 100: 900 to the first of two idle ones, 500 to
		// the other, 400 there too (500 < 900), which then has two; 100 to the first.
		{
			"longest first", with(0, 0),
			[]request{{Tokens: 100}, {Tokens: 500}, {Tokens: 900}, {Tokens: 400}},
			[]int{0, 1, 0, 1},
			2,
		},
		// ceil((3+0+1)/2) = 2, but the first has 3 already.
		{"expected is no less than the most active", with(3, 0), asking(1, 10), []int{1}, 3},
		// Tokens decide before requests: 10 tokens in two requests against 11 in one. ceil((2+1+1)/2) = 2 leaves the
		// second only.
		{
			"below the fair share only", []dpRank{{Requests: 2, Tokens: 10}, {Requests: 1, Tokens: 11}}, asking(1,
				5), []int{1}, 2,
		},
		// ceil((2+1+3)/2) = 3: the first by tokens (10 < 11), then 15 against 11, then the first has three.
		{
			"tokens, then requests", []dpRank{{Requests: 2, Tokens: 10}, {Requests: 1, Tokens: 11}}, asking(3,
				5), []int{0, 1, 1}, 3,
		},
		{"equal tokens go by requests", []dpRank{
			{Requests: 2, Tokens: 7}, {Requests: 1, Tokens: 7}, {Requests: 3, Tokens: 9},
		}, asking(1, 5), []int{1}, 3},
		{"equal in both go to the first", with(1, 1, 1), asking(1, 5), []int{0}, 2},
		{"fills to capacity and no further", capped(2, with(1, 0)), asking(5, 1), []int{
			1, 0, 1, unplaced, unplaced,
		}, 2},
		{
			"a rank that is asked for", with(0, 0),
			[]request{{Tokens: 5, Target: 2}, {Tokens: 9, Target: 2}},
			[]int{1, 1},
			2,
		},
		// The strict one comes second and is served first; the relaxed one takes a rank with room.
		{
			"strict before relaxed", capped(1, with(0, 0)),
			[]request{{Tokens: 9, Target: 2}, {Tokens: 5, Target: 2, Strict: true}},
			[]int{0, 1},
			1,
		},
		{"asked for and full", capped(1, with(0, 1)), []request{{Tokens: 9, Target: 2}}, []int{0}, 1},
		// The one of 100 tokens is counted, ceil((1+3)/2) = 2, and its tokens are not: of equal tokens 9 goes where
		// fewer requests are, 5 to the first (0 tokens against 9), which has two then, and 4 to the second. With its
		// tokens 5 would go to the second too.
		{
			"tokens of one that asks for a rank do not count", with(0, 0),
			[]request{{Tokens: 100, Target: 1}, {Tokens: 9}, {Tokens: 5}, {Tokens: 4}},
			[]int{0, 1, 0, 1},
			2,
		},
		{"nothing to do", with(0, 4), nil, nil, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to, expected := rankRouter(t, "rank.default", nil).Place(tt.ranks, tt.batch)
			if !slices.Equal(to, tt.want) || expected != tt.expected {
				t.Errorf("went to %v with %d expected, want %v with %d", to, expected, tt.want, tt.expected)
			}
		})
	}
}

func TestFairShareCapRoundsUp(t *testing.T) {
	for _, tt := range []struct {
		multiplier float64
		active     []int
		fresh      int
		most       int
		want       int
	}{
		{1.5, []int{0, 0}, 1, 0, 2}, // 1.5 times 1
		{1, []int{0, 0}, 1, 0, 1},
		{2, []int{0, 0, 0}, 7, 0, 6},    // twice ceil(7/3)
		{1.25, []int{2, 1, 1}, 1, 0, 3}, // 1.25 times ceil(5/3)
		{1, []int{9, 0}, 1, 0, 9},       // the most active
		{2, []int{5, 5}, 4, 9, 9},       // twice 7 is over the bound
		{2, []int{12, 0}, 1, 9, 9},      // and so is what one has
		{1e300, []int{1, 1}, 1, 0, 1<<31 - 1},
	} {
		if got := expectedOf(capped(tt.most, with(tt.active...)), tt.fresh, tt.multiplier); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func TestRankKVByHand(t *testing.T) {
	busy := func() []dpRank { return []dpRank{{Key: 1, Requests: 1, Tokens: 100}, {Key: 2}} }
	asks := []request{{ID: 1, Tokens: 100, Cached: []int{60, 0}}}
	tests := []struct {
		name  string
		set   func(c *Config)
		ranks []dpRank
		batch []request
		want  []int
		why   pick.Reason
	}{
		// 40 + 0.1 × 100/100 × 100 = 50 against 100.
		{"gate open at 0.6 > 0.5", func(c *Config) {
			c.Threshold, c.Weight = 0.5, 0.1
		}, busy(), asks, []int{0}, reasons.Score},
		// 100 + 10 = 110 against 100.
		{"gate closed at 0.6 < 0.7", func(c *Config) {
			c.Threshold, c.Weight = 0.7, 0.1
		}, busy(), asks, []int{1}, reasons.Load},
		{"strictly greater: closed at 0.6", func(c *Config) {
			c.Threshold, c.Weight = 0.6, 0.1
		}, busy(), asks, []int{1}, reasons.Load},
		// One token of 100 with a threshold of 0: 99 + 0 against 100.
		{"0 lets any match count", func(c *Config) {
			c.Threshold = 0
		}, with(0, 0), asking(1, 100, 0, 1), []int{1}, reasons.Score},
		// By default one in ten does not, and the other way round by a token more: 100 against 89.
		{
			"a tenth is too little", nil, []dpRank{{Tokens: 0}, {Tokens: 1}}, asking(1,
				100, 0, 10), []int{0}, reasons.Load,
		},
		{"a token more is not", func(c *Config) {
			c.Weight = 0
		}, []dpRank{{Tokens: 0}, {Tokens: 1}}, asking(1, 100, 0, 11), []int{1}, reasons.Score},
		// Default weight 1: 40 + 100/100 × 100 = 140 against 100.
		{"load outweighs", nil, busy(), asks, []int{1}, reasons.Score},
		// Half of the prompt and 400 of 1,000 active tokens: 500 + 400 = 900 against 1000 + 600 = 1600.
		{
			"affinity wins at half", nil, []dpRank{{Tokens: 400}, {Tokens: 600}}, asking(1,
				1000, 500, 0), []int{0}, reasons.Score,
		},
		// Equal scores, 100 + 0 each with weight 0: fewer active tokens.
		{"ties go to fewer active tokens", func(c *Config) {
			c.Weight = 0
		}, []dpRank{{Tokens: 3}, {Tokens: 2}, {Tokens: 4}}, asking(1, 100), []int{1}, reasons.Load},
		{"no tokens at all", nil, []dpRank{{Tokens: 1}, {}}, asking(1, 0), []int{1}, reasons.Load},
		// Expected is max(ceil(9/2), 8), which the first has.
		{"the cap is the most active", func(c *Config) {
			c.Multiplier = 1
		}, with(8, 0), asking(1, 100, 100, 0), []int{1}, reasons.Load},
		{
			"relaxed target yields to strict", nil, capped(1, with(0, 0)),
			[]request{{ID: 1, Tokens: 9, Target: 1}, {ID: 2, Tokens: 9, Target: 1, Strict: true}},
			[]int{1, 0},
			reasons.Load,
		},
		{"no room is no place", nil, capped(1, with(1, 1)), asking(2, 9), []int{unplaced, unplaced}, reasons.Load},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rankRouter(t, "rank.kv_cache_aware", tt.set)
			if got := placed(t, r, tt.ranks, tt.batch); !slices.Equal(got, tt.want) || r.reason() != tt.why {
				t.Errorf("went to %v (%s), want %v (%s)", got, r.reason(), tt.want, tt.why)
			}
		})
	}
}

// TestRankKVCap: eight requests are cached entirely at one rank of four; a multiplier of 4 gives it all (4 ×
// ceil(8/4)), and one of 1 gives it two and spreads the others.
func TestRankKVCap(t *testing.T) {
	for multiplier, want := range map[float64][]int{4: {8, 0, 0, 0}, 1: {2, 2, 2, 2}, 2: {4}} {
		r := rankRouter(t, "rank.kv_cache_aware", func(c *Config) { c.Multiplier = multiplier })
		got := shares(placed(t, r, with(0, 0, 0, 0), asking(8, 100, 100, 0, 0, 0)), 4)
		if !slices.Equal(got[:len(want)], want) {
			t.Errorf("multiplier %v: %v, want %v", multiplier, got, want)
		}
	}
}

// TestRankKVChargesWhatIsComputed: with the gate closed the match is ignored for the choice, and yet the winner is
// charged without the cached tokens.
func TestRankKVChargesWhatIsComputed(t *testing.T) {
	ranks := []dpRank{{Key: 1, Tokens: 10}, {Key: 2, Tokens: 500}}
	placed(t, rankRouter(t, "rank.kv_cache_aware", func(c *Config) { c.Threshold = 0.9 }), ranks,
		asking(1, 100, 30, 80))
	if ranks[0].Tokens != 80 || ranks[0].Requests != 1 || ranks[1].Tokens != 500 {
		t.Errorf("charged %+v, want 100-30 more at the first", ranks)
	}
}

// TestRankKVOrder: requests with equal leading tokens are adjacent, the longer first, whatever their order in the
// batch.
func TestRankKVOrder(t *testing.T) {
	lead := func(id uint64) []uint64 { return append(make([]uint64, 63), id, id) }
	batch := []request{
		{ID: 1, Tokens: 100, Lead: lead(2)},
		{ID: 2, Tokens: 50, Lead: lead(1)},
		{ID: 3, Tokens: 300, Lead: lead(2)},
		{ID: 4, Tokens: 60, Lead: lead(1)},
	}
	order := []int{0, 1, 2, 3}
	slices.SortStableFunc(order, func(a, b int) int { return byLead(&batch[a], &batch[b]) })
	if !slices.Equal(order, []int{3, 1, 2, 0}) {
		t.Errorf("order %v", order)
	}
	batch[0].Lead, batch[2].Lead = append(make([]uint64, 64), 9), append(make([]uint64, 64), 1)
	if got := byLead(&batch[0], &batch[2]); got != 1 {
		t.Errorf("only 64 count, then the longer comes first: %d", got)
	}
}

// TestRankKVTies: ties are drawn by the request's id alone: equally on every replica, and without bias.
func TestRankKVTies(t *testing.T) {
	a, b := rankRouter(t, "rank.kv_cache_aware", nil), rankRouter(t, "rank.kv_cache_aware", nil)
	counts := make([]int, 8)
	for id := range uint64(8000) {
		batch := []request{{ID: id, Tokens: 100}}
		x, y := placed(t, a, with(make([]int, 8)...), batch), placed(t, b, with(make([]int, 8)...), batch)
		if x[0] != y[0] {
			t.Fatalf("request %d goes to %d here and to %d there", id, x[0], y[0])
		}
		counts[x[0]]++
	}
	if slices.Min(counts) < 900 || slices.Max(counts) > 1100 {
		t.Errorf("8000 ties went %v", counts)
	}
}

func TestRankWarmUp(t *testing.T) {
	warm := func(c *Config) { c.Warmup = true }
	t.Run("each rank once, in order", func(t *testing.T) {
		r := rankRouter(t, "rank.kv_cache_aware", warm)
		ranks := with(0, 0, 0, 0)
		for want := range 4 {
			if got := placed(t, r, ranks, asking(1, 100, 100, 0, 0, 0)); got[0] != want ||
				r.reason() != reasons.RoundRobin {
				t.Fatalf("request %d went to %d (%s)", want, got[0], r.reason())
			}
		}
		// Warm-up stays over when a new rank joins.
		if got := placed(t, r, append(with(1, 1, 1, 1), dpRank{Key: 99}),
			asking(1, 100, 100, 0, 0, 0, 0)); got[0] != 0 {
			t.Errorf("after warm-up it went to %d", got[0])
		}
	})
	t.Run("strict and asked-for placements count", func(t *testing.T) {
		r := rankRouter(t, "rank.kv_cache_aware", warm)
		batch := []request{
			{ID: 1, Tokens: 9}, {ID: 2, Tokens: 9, Target: 1, Strict: true}, {ID: 3, Tokens: 9, Target: 3},
		}
		if got := placed(t, r, with(0, 0, 0), batch); !slices.Equal(got, []int{1, 0, 2}) {
			t.Errorf("went to %v", got)
		}
	})
	t.Run("in order of arrival, before the others", func(t *testing.T) {
		r := rankRouter(t, "rank.kv_cache_aware", warm)
		// By leading tokens the order would be 3, 2, 1. The third, for which no rank is cold, is placed by cache.
		batch := []request{
			{ID: 1, Tokens: 9, Lead: []uint64{7}},
			{ID: 2, Tokens: 9, Lead: []uint64{5}},
			{ID: 3, Tokens: 9, Lead: []uint64{3}, Cached: []int{0, 9}},
		}
		if got := placed(t, r, with(0, 0), batch); !slices.Equal(got, []int{0, 1, 1}) {
			t.Errorf("went to %v", got)
		}
	})
	t.Run("only what landed counts", func(t *testing.T) {
		r := rankRouter(t, "rank.kv_cache_aware", warm)
		if got := placed(t, r, capped(1, with(1, 1)), asking(1, 9)); got[0] != unplaced {
			t.Fatalf("went to %v", got)
		}
		if got := placed(t, r, with(0, 0), asking(1, 9, 0, 9)); got[0] != 0 {
			t.Errorf("the first rank is cold still, and it went to %d", got[0])
		}
	})
	t.Run("off", func(t *testing.T) {
		if got := placed(t, rankRouter(t, "rank.kv_cache_aware", nil), with(0, 0), asking(1, 9, 0, 9)); got[0] != 1 {
			t.Errorf("went to %d", got[0])
		}
	})
}

func TestRankFirstTurn(t *testing.T) {
	r := rankRouter(t, "rank.first_turn", nil)
	ranks := with(0, 0, 0, 0)
	// All prompts begin with what rank 0 has cached. First turns use round robin; later ones and those without an id
	// the score.
	first := func(id uint64) []request {
		return []request{{ID: id, Tokens: 100, Cached: []int{90, 0, 0, 0}, FirstTurn: true}}
	}
	for i, want := range []int{0, 1, 2, 3, 0} {
		if got := placed(t, r, ranks, first(uint64(i))); got[0] != want || r.reason() != reasons.RoundRobin {
			t.Fatalf("first turn %d went to %d (%s)", i, got[0], r.reason())
		}
	}
	if got := placed(t, r, with(0, 0, 0, 0), asking(1, 100, 90, 0, 95, 0)); got[0] != 2 || r.reason() != reasons.Score {
		t.Errorf("a later turn went to %d (%s)", got[0], r.reason())
	}
	// The turn is rank 1's, which has more than its share: 2 × ceil(6/4) = 4. It passes to rank 2.
	if got := placed(t, r, with(0, 5, 0, 0), first(9)); got[0] != 2 {
		t.Errorf("went to %d", got[0])
	}
	if got := placed(t, r, with(0, 0, 0, 0), first(10)); got[0] != 3 {
		t.Errorf("the turn did not move past the one that was left out: %d", got[0])
	}
	if got := placed(t, rankRouter(t, "rank.kv_cache_aware", nil), with(0, 0), []request{
		{Tokens: 100, Cached: []int{0, 90}, FirstTurn: true},
	}); got[0] != 1 {
		t.Errorf("rank.kv_cache_aware minds first turns: %d", got[0])
	}
}

func TestRankOptions(t *testing.T) {
	tests := []struct {
		set  func(c *Config)
		want string
	}{
		{
			func(c *Config) { c.Threshold = -0.01 },
			"policy: rank.kv_cache_routing_match_rate_threshold is -0.01, must be between 0 and 1",
		},
		{func(c *Config) { c.Threshold = 1.01 }, "threshold is 1.01"},
		{func(c *Config) { c.Threshold = math.NaN() }, "threshold is NaN"},
		{
			func(c *Config) { c.Multiplier = 0.99 },
			"rank.kv_cache_routing_fair_share_multiplier is 0.99, must be 1 or more",
		},
		{func(c *Config) { c.Multiplier = math.Inf(1) }, "multiplier is +Inf"},
		{
			func(c *Config) { c.Weight = -1 },
			"rank.kv_cache_routing_load_balance_weight is -1, must be a number from 0 up",
		},
		{func(c *Config) { c.Weight = math.Inf(1) }, "weight is +Inf"},
		{func(c *Config) { c.Weight = math.NaN() }, "weight is NaN"},
		{func(c *Config) { c.MaxSessions = 0 }, "rank.kv_cache_routing_max_sessions is 0"},
		{
			func(c *Config) { c.Placement = "least" },
			`new_conv_placement is "least", must be round_robin or least_queued`,
		},
		{func(c *Config) { c.MaxActive = -1 }, "rank.max_num_active_requests is -1"},
		{func(c *Config) { c.Threshold, c.Weight, c.Multiplier = 0, 0, 1 }, ""},
		{func(c *Config) { c.Threshold = 1 }, ""},
	}
	for _, tt := range tests {
		c := DefaultConfig()
		tt.set(&c)
		err := c.Validate()
		if got := ""; tt.want == "" && err != nil ||
			tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("got %q %v, want %q", got, err, tt.want)
		}
	}
	want := Config{
		Weight: 1, Threshold: 0.1, Multiplier: 2, InTransfer: true, MaxSessions: 65_536, Placement: "round_robin",
	}
	if got := (Config{}).WithDefaults(); got != want {
		t.Errorf("defaults are %+v", got)
	}
}

// TestRankRoutersKeepTheirBounds: no rank exceeds the cap or its limit, all requests are placed while there is room,
// charges add up, and two routers with equal inputs give equal results.
func TestRankRoutersKeepTheirBounds(t *testing.T) {
	for _, name := range rankNames() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { keepsBounds(t, rt, name) })
		})
	}
}

func keepsBounds(tb testing.TB, t *rapid.T, name string) {
	c := DefaultConfig()
	c.Multiplier = rapid.Float64Range(1, 3).Draw(t, "multiplier")
	c.Threshold = rapid.Float64Range(0, 1).Draw(t, "threshold")
	c.Warmup = rapid.Bool().Draw(t, "warmup")
	a, b := makeAdapter(tb, name, c).router, makeAdapter(tb, name, c).router
	for range 3 {
		n := rapid.IntRange(1, 6).Draw(t, "ranks")
		most := rapid.SampledFrom([]int{0, 3, 8}).Draw(t, "most")
		before := make([]dpRank, n)
		for i := range before {
			before[i] = dpRank{
				Key: uint64(i) + 1, Requests: rapid.IntRange(0, 8).Draw(t, "requests"),
				Tokens: rapid.Int64Range(0, 1000).Draw(t, "tokens"), Most: most,
			}
		}
		batch := make([]request, rapid.IntRange(0, 12).Draw(t, "batch"))
		for i := range batch {
			batch[i] = request{
				ID: rapid.Uint64().Draw(t, "id"), Tokens: rapid.IntRange(0, 500).Draw(t, "prompt"),
				Conversation: rapid.Uint64Range(0, 4).Draw(t, "conversation"), FirstTurn: rapid.Bool().Draw(t, "first"),
				Cached: rapid.SliceOfN(rapid.IntRange(0, 500), n, n).Draw(t, "cached"),
				Target: rapid.IntRange(0, n).Draw(t, "target"), Strict: rapid.Bool().Draw(t, "strict"),
			}
		}
		after, again := slices.Clone(before), slices.Clone(before)
		to, expected := a.Place(after, batch)
		if other, _ := b.Place(again, batch); !slices.Equal(to, other) || !slices.Equal(after, again) {
			t.Fatalf("two routers differ: %v and %v", to, other)
		}
		room, got := 0, shares(to, n)
		for i := range after {
			if after[i].Requests != before[i].Requests+got[i] {
				t.Fatalf("rank %d got %d and has %d after %d", i, got[i], after[i].Requests, before[i].Requests)
			}
			if got[i] > 0 && (most > 0 && after[i].Requests > most || after[i].Requests > expected) {
				t.Fatalf("rank %d has %d of %d, %d expected", i, after[i].Requests, most, expected)
			}
			if after[i].room() {
				room++
			}
		}
		if slices.Contains(to, unplaced) && room > 0 {
			t.Fatalf("left %v though there is room: %+v", to, after)
		}
	}
}
