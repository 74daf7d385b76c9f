package rivals

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
)

// Turns of a session stay whatever the load; without one the whole prompt decides.
func TestVLLMConsistentHash(t *testing.T) {
	p := makeRival("vllmrouter.consistent_hash")
	at := func(r *fleet.Request, hash uint64) int {
		v := policytest.Asks(policytest.Busy(0, 9, 0, 9, 0, 9, 0, 9), 0)
		v.Hash = hash
		return policytest.Place(p, v, r).Index
	}
	seen, prompts := map[int]bool{}, map[int]bool{}
	for i := range 64 {
		r := policytest.Words(4, i+2, 4)
		prompts[at(r, 1)] = true
		r.Session = "s"
		seen[at(r, byhash.Mix(77))] = true
		if a, b := at(policytest.Words(4, i+2, 4), 5), at(policytest.Words(4, i+2, 4), 6); a != b {
			t.Errorf("the same prompt at %d and %d", a, b)
		}
	}
	if len(seen) != 1 || len(prompts) != 8 {
		t.Errorf("one session at %d endpoints, 64 prompts at %d of 8", len(seen), len(prompts))
	}
}

// stickyRun calls vllmrouter.sticky_least_loaded at given times.
type stickyRun struct {
	p  *vllmSticky
	cs []pick.Candidate
}

func (s *stickyRun) at(after time.Duration, session string, of []pick.Candidate) pick.Choice {
	v := policytest.Asks(of, 0)
	v.Now = v.Now.Add(after)
	v.Hash = 0
	for _, c := range session {
		v.Hash = byhash.Mix(v.Hash*byhash.Golden + uint64(c))
	}
	return policytest.Place(s.p, v, &fleet.Request{Session: session})
}

func TestVLLMStickyByHand(t *testing.T) {
	s := stickyRun{makeRival("vllmrouter.sticky_least_loaded").(*vllmSticky), policytest.Busy(0, 50, 100)}
	// Three sessions on three endpoints, balanced by sessions, not by requests.
	homes := map[string]int{}
	for _, id := range []string{"a", "b", "c"} {
		got := s.at(0, id, s.cs)
		homes[id] = got.Index
		if got.Reason != reasons.Load {
			t.Errorf("%s: %v", id, got)
		}
	}
	if homes["a"] == homes["b"] || homes["a"] == homes["c"] || homes["b"] == homes["c"] {
		t.Errorf("homes %v", homes)
	}
	for id, home := range homes {
		if got := s.at(time.Minute, id, s.cs); got != (pick.Choice{Index: home, Reason: pick.ReasonSession}) {
			t.Errorf("%s came to %v, home %d", id, got, home)
		}
	}
	// Without a session the request is not counted.
	s.at(time.Minute, "", s.cs)
	if n := len(s.p.sessions); n != 3 {
		t.Errorf("%d sessions", n)
	}
	// The home of a has left: a moves, and its count with it, so that the next one goes to the third.
	rest := slices.Delete(slices.Clone(s.cs), homes["a"], homes["a"]+1)
	if got := s.at(2*time.Minute, "a", rest); got.Reason != reasons.Load {
		t.Errorf("a without its home: %v", got)
	}
	if got := s.at(2*time.Minute, "d", s.cs).Index; got != homes["a"] {
		t.Errorf("d at %d, the empty one is %d", got, homes["a"])
	}
	// b and c have been idle for two hours.
	s.at(2*time.Hour+time.Minute+30*time.Second, "a", s.cs)
	if n := len(s.p.sessions); n != 2 {
		t.Errorf("%d sessions after two hours, want a and d", n)
	}
	checkSticky(t, s.p)
}

func TestVLLMStickyIsBounded(t *testing.T) {
	p := makeRival("vllmrouter.sticky_least_loaded").(*vllmSticky)
	cs := policytest.Same(4)
	v := policytest.Asks(cs, 0)
	start := v.Now
	for i := range uint64(stickyMost + 1000) {
		v.Hash, v.Now = byhash.Mix(i), start.Add(time.Duration(i)*time.Millisecond)
		policytest.Place(p, v, &fleet.Request{Session: "x"})
	}
	if len(p.sessions) != stickyMost || len(p.table) != stickyMost+1 {
		t.Errorf("%d sessions in a table of %d", len(p.sessions), len(p.table))
	}
	v.Hash = byhash.Mix(0) // the oldest was evicted, so it is new
	if got := policytest.Place(p, v, &fleet.Request{Session: "x"}); got.Reason != reasons.Load {
		t.Errorf("the oldest: %v", got)
	}
	checkSticky(t, p)
	v.Now = v.Now.Add(3 * time.Hour)
	policytest.Place(p, v, &fleet.Request{})
	if len(p.sessions) != 0 || len(p.table) != 1 {
		t.Errorf("after three hours: %d sessions in a table of %d", len(p.sessions), len(p.table))
	}
	checkSticky(t, p)
}

// checkSticky checks table, order and counts against each other.
func checkSticky(t *testing.T, p *vllmSticky) {
	t.Helper()
	n, counted := 0, 0
	type at struct {
		slot int
		key  uint64
	}
	sessions := map[at]int{}
	for id := p.table[0].next; id != 0; id = p.table[id].next {
		n++
		sessions[at{p.table[id].slot, p.table[id].endpoint}]++
		if e := p.table[id]; p.table[e.next].prev != id || p.sessions[e.session] != id {
			t.Fatalf("place %d: %+v", id, e)
		}
	}
	for where, want := range sessions {
		got := *p.counts.Of(&pick.Candidate{Endpoint: pick.Endpoint{Slot: where.slot, Key: where.key}})
		if got != want {
			t.Errorf("%+v: %d counted, %d sessions", where, got, want)
		}
		counted += got
	}
	if n != len(p.sessions) || n != len(p.table)-1 || counted != n {
		t.Errorf("%d in order, %d by hash, %d in the table, %d counted", n, len(p.sessions), len(p.table)-1, counted)
	}
}

// DualMap: two endpoints per prompt; the warmer one while it meets the objective, then the faster one.
func TestDualMapByHand(t *testing.T) {
	p := NewDualMap(DualMapConfig{SLOMs: 100})
	r := policytest.Words(0, 3, 8)
	choose := func(set func(cs []pick.Candidate)) pick.Choice {
		cs := policytest.Same(6)
		for i := range cs {
			cs[i].MsPerToken = 0.1
		}
		set(cs)
		return policytest.Place(p, policytest.Asks(cs, 1000), r)
	}
	first := choose(func([]pick.Candidate) {}).Index
	second := choose(func(cs []pick.Candidate) { cs[first].Load.PrefillTokens = 1 }).Index
	if first == second {
		t.Fatal("there is no second")
	}
	for i := range 6 { // the others are irrelevant
		got := choose(func(cs []pick.Candidate) { cs[i].CachedTokens = 900 }).Index
		if i == first || i == second {
			if got != i {
				t.Errorf("%d holds most of it: got %d", i, got)
			}
		} else if got != first {
			t.Errorf("%d is none of the two: got %d", i, got)
		}
	}
	// 500 cached: 50 ms, and 499 tokens in front are 49.9 ms more.
	warm := func(front int64) pick.Choice {
		return choose(func(cs []pick.Candidate) {
			cs[second].CachedTokens, cs[second].Load.PrefillTokens = 500, front
		})
	}
	if got := warm(499); got != (pick.Choice{Index: second, Reason: reasons.CacheMatch}) {
		t.Errorf("within the objective: %v", got)
	}
	if got := warm(501); got != (pick.Choice{Index: first, Reason: reasons.Load}) { // 100.1 ms against 100
		t.Errorf("beyond the objective: %v", got)
	}
}

// A prefix common to all prompts soon stops deciding.
func TestDualMapLooksBeyondWhatAllShare(t *testing.T) {
	p, counts := makeRival("dualmap"), make([]int, 8)
	for i := range 4000 {
		got := policytest.Place(p, policytest.Asks(policytest.Same(8), 100), policytest.Words(20, i+2, 20)).Index
		if i >= 1000 {
			counts[got]++
		}
	}
	if slices.Min(counts) < 3000/8/2 {
		t.Errorf("%v", counts)
	}
}
