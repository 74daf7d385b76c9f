package rank

import (
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
)

// rankPolicyOf is a rank policy with some options set.
func rankPolicyOf(t testing.TB, name string, set func(c *Config)) pick.Policy {
	t.Helper()
	c := DefaultConfig()
	if set != nil {
		set(&c)
	}
	return makeAdapter(t, name, c)
}

func rankNames() []string {
	return []string{"rank.conversation", "rank.default", "rank.first_turn", "rank.kv_cache_aware"}
}

func makeAdapter(t testing.TB, name string, c Config) *adapter {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	make := map[string]func(Config) pick.Policy{
		"rank.conversation": NewConversation, "rank.default": NewDefault,
		"rank.first_turn": NewFirstTurn, "rank.kv_cache_aware": NewKVCacheAware,
	}
	return make[name](c).(*adapter)
}

// TestInTransferCounts: requests whose KV is in transfer count in requests and in tokens, unless switched off.
func TestInTransferCounts(t *testing.T) {
	view := func(transfer fleet.Load) *pick.View {
		v := policytest.View(policytest.Same(2), 1)
		v.PromptTokens, v.Leg = 1000, fleet.LegPrefill
		v.Candidates[0].Load, v.Candidates[1].Load = transfer, fleet.Load{PrefillTokens: 100, Requests: 1}
		return v
	}
	off := func(c *Config) { c.InTransfer = false }
	tokens := fleet.Load{TransferTokens: 5000}
	for _, name := range []string{"rank.kv_cache_aware", "rank.first_turn"} {
		// 1000 + 5000/5100 × 1000 against 1000 + 100/5100 × 1000.
		if got := policytest.Place(rankPolicyOf(t, name, nil), view(tokens), &fleet.Request{ID: "r"}); got.Index != 1 {
			t.Errorf("%s: tokens in transfer do not count", name)
		}
		if got := policytest.Place(rankPolicyOf(t, name, off), view(tokens), &fleet.Request{ID: "r"}); got.Index != 0 {
			t.Errorf("%s: tokens in transfer count though switched off", name)
		}
	}
	// The share is ceil((1+4+1)/2) = 3, and the first, where all is cached, has 4 in transfer: it is at the bound of 3
	// × 1 = max(3, 4).
	requests := func() *pick.View {
		v := view(fleet.Load{TransferRequests: 4})
		v.Candidates[0].CachedTokens = 1000
		return v
	}
	tight := func(c *Config) { c.Multiplier = 1 }
	if got := policytest.Place(rankPolicyOf(t, "rank.kv_cache_aware", tight), requests(), &fleet.Request{
		ID: "r",
	}); got.Index != 1 {
		t.Error("requests in transfer do not count")
	}
	if got := policytest.Place(rankPolicyOf(t, "rank.kv_cache_aware", func(c *Config) { tight(c); off(c) }), requests(),
		&fleet.Request{ID: "r"}); got.Index != 0 {
		t.Error("requests in transfer count though switched off")
	}
	// A decoder's four are already among its requests, of which it has none here.
	decode := requests()
	decode.Leg = fleet.LegDecode
	if got := policytest.Place(rankPolicyOf(t, "rank.kv_cache_aware", tight), decode, &fleet.Request{
		ID: "r",
	}); got.Index != 0 {
		t.Error("requests of a decoder count twice")
	}
}

// TestRankPoliciesSee checks how a request and its candidates are converted for a rank router.
func TestRankPoliciesSee(t *testing.T) {
	v := policytest.View(policytest.Same(3), 1)
	v.PromptTokens, v.NewID = 700, true
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.CachedTokens, c.Places = 100*i, 8
		c.Load = fleet.Load{Requests: i, PrefillTokens: int64(10 * i), DecodeTokens: 5, ContextTokens: int64(50*i) + 5}
	}
	kv := rankPolicyOf(t, "rank.first_turn", func(c *Config) { c.MaxActive = 3 }).(*adapter)
	kv.see(v)
	if got := kv.ranks[2]; got != (dpRank{Key: v.Candidates[2].Key, Requests: 2, Tokens: 20, Most: 3}) {
		t.Errorf("a rank is %+v", got)
	}
	if got := kv.ask(v, &fleet.Request{ID: "r", Session: "s"}); got.Conversation != v.Hash || !got.FirstTurn ||
		got.Tokens != 700 || got.Cached[2] != 200 || got.Home != 0 {
		t.Errorf("a request is %+v", got)
	}
	plain := rankPolicyOf(t, "rank.default", nil).(*adapter)
	plain.see(v)
	if got := plain.ranks[2]; got != (dpRank{Key: v.Candidates[2].Key, Requests: 2, Tokens: 100, Most: 8}) {
		t.Errorf("to rank.default a rank is %+v", got)
	}
}

// TestRankConversationWithoutIDs: a conversation recognised by content goes home from its second turn on.
func TestRankConversationWithoutIDs(t *testing.T) {
	p := rankPolicyOf(t, "rank.conversation", nil)
	v := policytest.View(policytest.Same(4), 1)
	first := policytest.Place(p, v, &fleet.Request{})
	if _, known := p.(*adapter).router.(*byConversation).bindings.Peek(v.Hash); known ||
		first.Reason != reasons.RoundRobin {
		t.Errorf("a new one without an id: remembered %v, %s", known, first.Reason)
	}
	v.FirstTurn, v.Home = false, 2
	for range 3 {
		if got := policytest.Place(p, v, &fleet.Request{}); got != (pick.Choice{Index: 2, Reason: pick.ReasonSession}) {
			t.Errorf("got %+v", got)
		}
		v.Home = 1 // it may have been sent there meanwhile; its rank remains
	}
}

// TestRankConversationUsesTheRoutersTable: a conversation with an id and no binding goes where the router knows it to
// be, as after a restart, when another router placed it, or when it was placed while there was one candidate. A binding
// comes first.
func TestRankConversationUsesTheRoutersTable(t *testing.T) {
	p := rankPolicyOf(t, "rank.conversation", nil)
	v := policytest.View(policytest.Same(4), 1)
	named := &fleet.Request{Session: "s"}
	v.FirstTurn, v.Home = false, 3
	for range 2 {
		if got := policytest.Place(p, v, named); got != (pick.Choice{Index: 3, Reason: pick.ReasonSession}) {
			t.Errorf("got %+v, want its home", got)
		}
	}
	v.Home = 1
	if got := policytest.Place(p, v, named); got.Index != 3 {
		t.Errorf("got %+v, want the rank that it is bound to", got)
	}
	v.Hash, v.Home = v.Hash+1, -1
	if got := policytest.Place(p, v, &fleet.Request{Session: "other"}); got.Reason != reasons.RoundRobin {
		t.Errorf("got %+v, want round robin for a conversation that is nowhere", got)
	}
}

// TestRankPoliciesAlwaysAnswer: if every endpoint is at its limit, one is picked all the same, by the same rule.
func TestRankPoliciesAlwaysAnswer(t *testing.T) {
	for _, name := range rankNames() {
		v := policytest.View(policytest.Same(3), 1)
		v.PromptTokens = 1000
		for i := range v.Candidates {
			v.Candidates[i].Places, v.Candidates[i].Load = 2, fleet.Load{
				Requests: 2 + i, PrefillTokens: int64(i), ContextTokens: int64(i),
			}
		}
		v.Candidates[1].CachedTokens = 900
		got := policytest.Place(rankPolicyOf(t, name, nil), v, &fleet.Request{ID: "r"})
		want := map[string]int{
			"rank.default": 0, "rank.conversation": 0, "rank.kv_cache_aware": 1, "rank.first_turn": 1,
		}[name]
		if got.Index != want {
			t.Errorf("%s picks %d, want %d", name, got.Index, want)
		}
	}
}

// TestRankPoliciesAgree: two replicas pick alike for equal requests, whatever their random seeds.
func TestRankPoliciesAgree(t *testing.T) {
	for _, name := range rankNames() {
		a, b := rankPolicyOf(t, name, nil), rankPolicyOf(t, name, nil)
		for i := range 200 {
			r := &fleet.Request{ID: strconv.Itoa(i), Session: strconv.Itoa(i % 20)}
			x, y := policytest.View(policytest.Same(8), uint64(i)), policytest.View(policytest.Same(8), uint64(i)+1000)
			x.Hash, y.Hash = byhash.Mix(uint64(i%20)), byhash.Mix(uint64(i%20))
			x.NewID, y.NewID = i < 20, i < 20
			if at, other := policytest.Place(a, x, r), policytest.Place(b, y, r); at != other {
				t.Fatalf("%s: request %d goes to %v and to %v", name, i, at, other)
			}
		}
	}
}
