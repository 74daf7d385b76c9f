package trtllm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

// desk acts as the router around a policy: it keeps the accounts and reports leases.
type desk struct {
	t      testing.TB
	p      pick.Policy
	cs     []pick.Candidate
	leases []deskLease
	last   pick.Choice
}

type deskLease struct {
	at     int
	tokens int64
}

func newDesk(t testing.TB, c router, endpoints int) *desk {
	return &desk{t: t, p: makeTRT(t, c), cs: policytest.Same(endpoints)}
}

// ask places a request of this many tokens at an endpoint not in out, and returns its lease.
func (d *desk) ask(r *fleet.Request, tokens int, out ...int) int {
	d.t.Helper()
	v := policytest.Asks(nil, tokens)
	for i := range d.cs {
		if !slices.Contains(out, i) {
			v.Candidates = append(v.Candidates, d.cs[i])
		}
	}
	v.Hash = byhash.Text("-" + r.Session)
	if r.Session == "" {
		v.Hash = byhash.Mix(uint64(len(d.leases)) + 1) // a new id each time, as for a client that sends none
	}
	d.last = policytest.Place(d.p, v, r)
	c := &v.Candidates[d.last.Index]
	d.last.Index = slices.IndexFunc(d.cs, func(o pick.Candidate) bool { return o.Key == c.Key })
	policytest.Reserve(&d.cs[d.last.Index], int64(tokens), 50)
	d.leases = append(d.leases, deskLease{d.last.Index, int64(tokens)})
	if h := d.p.Hooks(); h.Reserved != nil {
		h.Reserved(fleet.Lease(len(d.leases)), c, v, r)
	}
	return len(d.leases) - 1
}

// end ends a request.
func (d *desk) end(lease int, answered bool) {
	l := d.leases[lease]
	policytest.Reserve(&d.cs[l.at], -l.tokens, -50)
	d.cs[l.at].Load.Requests -= 2
	if h := d.p.Hooks(); h.Released != nil {
		h.Released(fleet.Lease(lease+1), answered)
	}
}

// turn asks and ends at once.
func (d *desk) turn(r *fleet.Request, tokens int, out ...int) int {
	d.t.Helper()
	d.end(d.ask(r, tokens, out...), true)
	return d.last.Index
}

func (d *desk) want(at int, reason pick.Reason, what string) {
	d.t.Helper()
	if d.last != (pick.Choice{Index: at, Reason: reason}) {
		d.t.Errorf("%s: got %v, want %d for %s", what, d.last, at, reason)
	}
}

func TestTRTRoundRobinByHand(t *testing.T) {
	d := newDesk(t, router{Name: "trtllm.round_robin"}, 3)
	for i := range 6 {
		d.ask(&fleet.Request{}, 10)
		d.want(i%3, reasons.RoundRobin, "in order")
	}
	d.ask(&fleet.Request{}, 10, 0) // seven mod two: the first of those left is 1
	d.want(1, reasons.RoundRobin, "one is excluded")
	d.ask(&fleet.Request{}, 10)
	d.want(1, reasons.RoundRobin, "the counter goes on")
}

// Three distinct servers first; after one has finished, it is next. The same for every kind of request.
func TestTRTLoadBalancingByRequests(t *testing.T) {
	for _, class := range []fleet.Class{fleet.Turn, fleet.Embed} {
		d := newDesk(t, router{Name: "trtllm.load_balancing"}, 3)
		for i, want := range []int{0, 2, 1} { // at the second, 1 and 2 are equal and the counter is at 1
			d.ask(&fleet.Request{Class: class}, 10*(i+1))
			d.want(want, reasons.Load, "idle ones")
		}
		d.end(1, true)
		d.ask(&fleet.Request{Class: class}, 10)
		d.want(2, reasons.Load, "the one that finished")
		// All have one: the counter is at 4, and 4 mod 3 is 1.
		d.ask(&fleet.Request{Class: class}, 10)
		d.want(1, reasons.Load, "a tie goes by the counter")
	}
}

func TestTRTLoadBalancingByTokens(t *testing.T) {
	d := newDesk(t,
		router{Name: "trtllm.load_balancing", TRTLLM: Config{LoadBalancing: LoadBalancingConfig{UseTokens: true}}}, 3)
	for i, step := range []struct{ tokens, want int }{
		{100, 0}, {500, 2}, {10, 1}, // 100, 10, 500
		{400, 1},  // 100, 410, 500
		{2000, 0}, // 2100, 410, 500
		{100, 1},  // 2100, 510, 500
		{1, 2},
	} {
		d.ask(&fleet.Request{}, step.tokens)
		d.want(step.want, reasons.Load, fmt.Sprintf("request %d", i))
	}
	for i := range 7 {
		d.end(i, i%2 == 0)
	}
	for i := range d.cs {
		if d.cs[i].Load != (fleet.Load{}) {
			t.Errorf("after the end %d holds %+v", i, d.cs[i].Load)
		}
	}
}

func kvConfig(o KVCacheAwareConfig) router {
	return router{Name: "trtllm.kv_cache_aware", TRTLLM: Config{KVCacheAware: o}}
}

// The example of 40,000 tokens in blocks of 32, of which 30,000 are common to all and 2,000 more are on the first,
// which has 20 active. By shares 0.8 - 20/64 = 0.4875 against 0.75; by blocks 1000 - 0.25*20 = 995 against 937.
func TestTRTScoresByHand(t *testing.T) {
	type row struct{ cached, active, block int }
	off := false
	weight := func(w float64) *float64 { return &w }
	tests := []struct {
		name   string
		config KVCacheAwareConfig
		prompt int
		rows   []row
		want   int
	}{
		{"a long shared prefix, by shares", KVCacheAwareConfig{}, 40_000, []row{{32_000, 20, 0}, {30_000, 0, 0}}, 1},
		{"a long shared prefix, by blocks", KVCacheAwareConfig{Score: "blocks"}, 40_000, []row{
			{32_000, 20, 0}, {30_000, 0, 0},
		}, 0},
		// 62 blocks are worth 248 active requests: 1000 - 62 = 938; 1000 - 63 = 937 is a tie, and one more loses.
		{"blocks against requests", KVCacheAwareConfig{Score: "blocks"}, 40_000, []row{
			{32_000, 248, 0}, {30_000, 0, 0},
		}, 0},
		{"requests against blocks", KVCacheAwareConfig{Score: "blocks"}, 40_000, []row{
			{32_000, 253, 0}, {30_000, 0, 0},
		}, 1},
		{"no weight at all", KVCacheAwareConfig{Score: "blocks", LoadWeight: weight(0)}, 40_000, []row{
			{30_016, 9999, 0}, {30_000, 0, 0},
		}, 0},
		// 101 tokens are ceil(100/32) = 4 blocks, 128 padded: 32/128 = 0.25 against 16/64.
		{"padded, by one request more", KVCacheAwareConfig{}, 101, []row{{32, 17, 0}, {0, 0, 0}}, 1},
		{"padded, by one request less", KVCacheAwareConfig{}, 101, []row{{32, 15, 0}, {0, 0, 0}}, 0},
		{"batch of 8", KVCacheAwareConfig{MaxBatchSize: 8}, 101, []row{{64, 5, 0}, {0, 0, 0}}, 1}, // 0.5 against 0.625
		{"part of a block is none", KVCacheAwareConfig{}, 101, []row{{31, 1, 0}, {0, 0, 0}}, 1},
		// 4 - 0.75 against 3
		{"the last block counts whole", KVCacheAwareConfig{Score: "blocks"}, 101, []row{{100, 3, 0}, {97, 0, 0}}, 0},
		// 8 against 16
		{"the engine's block", KVCacheAwareConfig{Score: "blocks"}, 1000, []row{{512, 0, 64}, {256, 0, 16}}, 1},
		{"the stated block", KVCacheAwareConfig{Score: "blocks", TokensPerBlock: 32}, 1000, []row{
			{512, 0, 64}, {256, 0, 16},
		}, 0},
		// At 16 of 64 the first is at the cap; the second is not.
		{"at the cap", KVCacheAwareConfig{Score: "blocks", LoadCap: 0.25}, 1000, []row{{992, 16, 0}, {0, 15, 0}}, 1},
		{"below the cap", KVCacheAwareConfig{Score: "blocks", LoadCap: 0.26}, 1000, []row{{992, 16, 0}, {0, 15, 0}}, 0},
		{"all at the cap", KVCacheAwareConfig{Score: "blocks", LoadCap: 0.25}, 1000, []row{
			{992, 40, 0}, {0, 40, 0},
		}, 0},
		{"a prompt of one token", KVCacheAwareConfig{}, 1, []row{{0, 1, 0}, {0, 0, 0}}, 1},
		{"nothing known of the prompt", KVCacheAwareConfig{TrackRoutedBlocks: &off}, 0, []row{{0, 1, 0}, {0, 0, 0}}, 1},
	}
	for _, tt := range tests {
		cs := policytest.Same(len(tt.rows))
		for i, r := range tt.rows {
			cs[i].CachedTokens, cs[i].Load.Requests, cs[i].BlockTokens = r.cached, r.active, r.block
		}
		if got := policytest.Place(makeTRT(t, kvConfig(tt.config)), policytest.Asks(cs, tt.prompt),
			&fleet.Request{}); got != (pick.Choice{Index: tt.want, Reason: reasons.Score}) {
			t.Errorf("%s: got %v, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTRTBlocks(t *testing.T) {
	for _, tt := range []struct{ tokens, size, want int }{
		{0, 32, 0}, {1, 32, 0}, {2, 32, 1}, {33, 32, 1}, {34, 32, 2}, {320, 32, 10}, {2500, 128, 20}, {-5, 32, 0},
	} {
		if got := blocks(tt.tokens, tt.size); got != tt.want {
			t.Errorf("%d tokens in blocks of %d: %d, want %d", tt.tokens, tt.size, got, tt.want)
		}
	}
}

// Cold prompts spread; equal ones go where they were answered, and failed ones are not cached.
func TestTRTTracksWhatWasAnswered(t *testing.T) {
	text := policytest.Words(10, 1, 0)
	d := newDesk(t, kvConfig(KVCacheAwareConfig{}), 3)
	for i := range 3 {
		d.turn(policytest.Words(0, i+2, 10), 320)
		d.want(i, reasons.Score, "cold")
	}
	d.end(d.ask(text, 320), false)
	d.want(0, reasons.Score, "cold, the counter is at 3")
	d.turn(text, 320)
	d.want(1, reasons.Score, "it failed at 0, so that all are equal still")
	for range 3 {
		d.turn(text, 320)
		d.want(1, reasons.Score, "answered there")
	}
	d.cs[1].Epoch++
	d.turn(text, 320)
	d.want(2, reasons.Score, "1 lost its cache: by the counter, 8")
	d.cs[2].Key++
	d.turn(text, 320)
	d.want(0, reasons.Score, "another endpoint has the slot of 2: by the counter, 9")

	off := false
	d = newDesk(t, kvConfig(KVCacheAwareConfig{BackfillBlockHashesOnFinish: &off}), 3)
	for i := range 6 {
		d.turn(text, 320)
		d.want(i%3, reasons.Score, "not tracked: in turn")
	}
}

// At most the capacity of the engine's cache is tracked: 10 blocks of 128 bytes are 320 tokens of four bytes.
func TestTRTTracksNoMoreThanACacheHolds(t *testing.T) {
	d := newDesk(t, kvConfig(KVCacheAwareConfig{}), 2)
	d.cs[0].CacheTokens, d.cs[1].CacheTokens = 320, 320
	a, b := policytest.Words(0, 1, 10), policytest.Words(0, 2, 10)
	d.turn(a, 320)
	d.want(0, reasons.Score, "cold")
	d.turn(a, 320)
	d.want(0, reasons.Score, "tracked")
	d.cs[1].Load.Requests = 50 // away from 1
	d.turn(b, 320)
	d.want(0, reasons.Score, "pushes the first out")
	d.cs[1].Load.Requests = 0
	d.turn(a, 320)
	d.want(1, reasons.Score, "forgotten: by the counter, 3")
}

func TestTRTTenantsShareNoTrackedBlocks(t *testing.T) {
	d := newDesk(t, kvConfig(KVCacheAwareConfig{}), 2)
	mine, theirs := policytest.Words(10, 1, 0), policytest.Words(10, 1, 0)
	mine.Tenant, theirs.Tenant = "blue", "green"
	d.turn(mine, 320)
	d.turn(theirs, 320)
	d.want(1, reasons.Score, "another tenant's: by the counter")
	d.turn(mine, 320)
	d.want(0, reasons.Score, "my own")
}

// A placed conversation stays whatever the scores, and moves when its endpoint is at the cap or unavailable.
func TestTRTContentAffinity(t *testing.T) {
	off := false
	conf := func(affinity string) router {
		return kvConfig(KVCacheAwareConfig{
			Score: "blocks", ContentAffinity: affinity, LoadCap: 0.5, TrackRoutedBlocks: &off,
		})
	}
	chat := func(start uint64, session string) *fleet.Request {
		return &fleet.Request{Session: session, Content: &fleet.Content{Bytes: 5000, Start: start}}
	}
	d := newDesk(t, conf(""), 3)
	d.turn(chat(7, ""), 1000)
	d.want(0, reasons.Score, "new")
	d.cs[1].CachedTokens = 900
	d.turn(chat(7, ""), 1000)
	d.want(0, pick.ReasonSession, "it stays, against 28 blocks")
	d.turn(chat(8, ""), 1000)
	d.want(1, reasons.Score, "another beginning goes by score")
	d.turn(chat(7, "a"), 1000)
	d.want(1, reasons.Score, "an id is kept by itself")
	d.cs[0].Load.Requests = 32
	d.turn(chat(7, ""), 1000)
	d.want(1, reasons.Score, "its endpoint is at the cap")
	d.cs[0].Load.Requests, d.cs[1].CachedTokens = 0, 0
	d.turn(chat(7, ""), 1000)
	d.want(1, pick.ReasonSession, "it stays at the new one")
	d.turn(chat(7, ""), 1000, 1)
	if d.last.Reason != reasons.Score {
		t.Errorf("its endpoint is excluded: %v", d.last)
	}

	d = newDesk(t, conf("messages"), 3)
	d.turn(chat(7, "a"), 1000)
	d.turn(chat(7, "b"), 1000)
	d.want(0, pick.ReasonSession, "all who begin alike stay together")
	d = newDesk(t, conf("off"), 3)
	d.turn(chat(7, "a"), 1000)
	d.turn(chat(7, "a"), 1000)
	d.want(1, reasons.Score, "nobody is kept")
	if c := (Config{}).WithDefaults().KVCacheAware; c.affinity() != "off" || c.Score != "request_share" || !c.tracks() {
		t.Errorf("defaults: %+v", c)
	}
}

// Twenty equal concurrent requests spread over all, most to those with more of them cached.
func TestTRTSpreadsByHitRate(t *testing.T) {
	d := newDesk(t, kvConfig(KVCacheAwareConfig{MaxBatchSize: 16}), 3)
	for i, cached := range []int{320, 224, 128} {
		d.cs[i].CachedTokens = cached
	}
	counts := make([]int, 3)
	for range 20 {
		d.ask(&fleet.Request{}, 320)
		counts[d.last.Index]++
	}
	if !(counts[0] > counts[1] && counts[1] > counts[2] && counts[2] > 0) {
		t.Errorf("got %v", counts)
	}
}

// The counter advances with every decision and indexes the tied servers in order of declaration.
func TestTRTTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ties := ties{counter: rapid.Uint64Range(0, 50).Draw(t, "counter")}
		for range 10 {
			loads := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 8).Draw(t, "loads")
			cs, least := policytest.Busy(loads...), slices.Min(loads)
			var tied []int
			for i, n := range loads {
				if n == least {
					tied = append(tied, i)
				}
			}
			want := tied[ties.counter%uint64(len(tied))]
			before := ties.counter
			if got := ties.least(cs, func(i int) float64 { return fair.Outstanding(&cs[i]) }); got != want ||
				ties.counter != before {
				t.Fatalf("%v at %d: got %d, want %d", loads, before, got, want)
			}
			ties.advance()
		}
	})
}
