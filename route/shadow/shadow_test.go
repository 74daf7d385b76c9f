package shadow_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/shadow"
)

// shadowRig is a router with shadows beside it, driven by hand.
type shadowRig struct {
	t       testing.TB
	r       *route.Router
	shadows *shadow.Set
	now     time.Time
	taken   shadow.Sighting
}

// to is a policy that always picks one endpoint.
type to int

func (to) Needs() pick.Needs { return pick.Needs{Name: "told"} }

func (to) Hooks() pick.Hooks { return pick.Hooks{} }

func (p to) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: min(int(p), len(v.Candidates)-1), Reason: "told"}
}

func fixed(p pick.Policy) func() pick.Policy { return func() pick.Policy { return p } }

func newShadowRig(t testing.TB, acting pick.Policy, shadows ...shadow.Policy) *shadowRig {
	s := &shadowRig{t: t, now: time.Unix(1_700_000_000, 0)}
	s.r = route.New(route.Config{Policy: fixed(acting)})
	s.shadows = shadow.New(shadow.Config{Policies: shadows})
	d := route.Declared{Source: "s"}
	for _, n := range []string{"a", "b"} {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: n, URL: "http://" + n, Weight: 1})
	}
	s.r.Observe(s.now, d)
	for _, n := range []string{"a", "b"} {
		s.r.Observe(s.now, route.Probed{Endpoint: n, Report: fleet.Report{Healthy: true}})
	}
	return s
}

// turn sends a turn of a conversation with a prompt of so many tokens, and shows it to the shadows.
func (s *shadowRig) turn(session string, tokens int, change ...func(*fleet.Request)) route.Decision {
	s.t.Helper()
	req := fleet.Request{
		ID: "r", Session: session, Model: "m", PromptTokens: tokens, MaxTokens: 1, Stream: true, Seed: 1,
	}
	for _, c := range change {
		c(&req)
	}
	d, err := s.r.Decide(s.now, &req)
	if err != nil {
		s.t.Fatal(err)
	}
	if !s.taken.Take(d.View, &req, shadow.Placed{
		Lease: d.Lease, Endpoint: d.Endpoint.Name, Pool: d.Pool, Session: d.Session, Reason: d.Reason,
	}) {
		s.t.Fatal("the decision cannot be taken")
	}
	s.shadows.Judge(&s.taken)
	return d.Decision
}

func (s *shadowRig) wait(d time.Duration) { s.now = s.now.Add(d) }

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(b)) }

// TestShadowCostsByHand: two turns of 1,000 and 3,000 tokens at 0.1 ms a token and 10 ms fixed, 10 s apart. The acting
// policy leaves both at a; one shadow would have sent both to b.
func TestShadowCostsByHand(t *testing.T) {
	s := newShadowRig(t, to(0), shadow.Policy{Name: "b", New: fixed(to(1))},
		shadow.Policy{Name: "a", New: fixed(to(0))})
	d := s.turn("c", 1000)
	s.r.Observe(s.now.Add(110*time.Millisecond), route.FirstByte{Lease: d.Lease})
	s.r.Observe(s.now.Add(110*time.Millisecond), route.Finished{Lease: d.Lease})
	s.wait(10 * time.Second)
	s.turn("c", 3000)
	r := s.shadows.Report()
	if r.Decisions != 2 || r.Late != 0 || len(r.Shadows) != 2 {
		t.Fatalf("%+v", r)
	}
	b, a := r.Shadows[0], r.Shadows[1]
	// In a's place: the first turn costs the same on both; the second finds 1,000 tokens at a only.
	if b.Here.Decisions != 2 || b.Here.Differs != 2 || b.Here.Priced != 2 || !near(b.Here.TTFTMs, 100) ||
		len(b.Why) != 1 || b.Why[0].Differs != 2 {
		t.Errorf("in its place b %+v, %v", b.Here, b.Why)
	}
	if a.Here.Differs != 0 || a.Here.CostMs != 0 || len(a.Why) != 0 {
		t.Errorf("in its place a %+v", a.Here)
	}
	// Each in a world of its own finds what it put there: 110 ms, then 2,000 tokens less the one of the answer.
	for _, w := range []shadow.World{r.Acting, a.Apart, b.Apart} {
		if w.Turns != 2 || w.PromptTokens != 4000 || w.CachedTokens != 1001 || !near(w.TTFTMs, 110+209.9) ||
			w.Later != 1 || w.Home != 1 {
			t.Errorf("a world that keeps the conversation together: %+v", w)
		}
	}
}

// TestShadowWorldsQueue: three prompts of 1,000 tokens at once wait for each other in the world of who puts them in one
// place.
func TestShadowWorldsQueue(t *testing.T) {
	s := newShadowRig(t, policyOf(t, "least_tokens"), shadow.Policy{Name: "a", New: fixed(to(0))})
	for i := range 3 {
		s.turn(fmt.Sprint("c", i), 1000)
	}
	r := s.shadows.Report()
	if w := r.Shadows[0].Apart; !near(w.TTFTMs, 110+210+310) {
		t.Errorf("in one place: %v ms in all, want 630", w.TTFTMs)
	}
	if !near(r.Acting.TTFTMs, 110+110+210) {
		t.Errorf("in two places: %v ms in all, want 430", r.Acting.TTFTMs)
	}
	s.wait(time.Minute)
	s.turn("c9", 1000)
	if w := s.shadows.Report().Shadows[0].Apart; !near(w.TTFTMs, 630+110) {
		t.Errorf("a minute later a prompt waits: %v ms", w.TTFTMs-630)
	}
}

// TestShadowWorldsLoseCaches: what an engine is known to have lost is lost in all worlds.
func TestShadowWorldsLoseCaches(t *testing.T) {
	s := newShadowRig(t, to(0), shadow.Policy{Name: "b", New: fixed(to(1))})
	s.turn("c", 1000)
	s.r.Observe(s.now, route.Probed{Endpoint: "b", Report: fleet.Report{Refused: true}})
	s.wait(time.Second)
	s.r.Observe(s.now, route.Probed{Endpoint: "b", Report: fleet.Report{Healthy: true}})
	s.wait(time.Minute)
	s.turn("c", 2000)
	r := s.shadows.Report()
	if got := r.Shadows[0].Apart.CachedTokens; got != 0 {
		t.Errorf("b was started anew and holds %d tokens", got)
	}
	if got := r.Acting.CachedTokens; got != 1001 {
		t.Errorf("a was not and holds %d tokens", got)
	}
}

// TestShadowsSeeNoMoreThanThereIs: conversations whose beginning was not seen are no part of the worlds, retries stay
// where they were placed, and requests that are no turns are compared and not priced.
func TestShadowsLeaveOut(t *testing.T) {
	s := newShadowRig(t, to(0), shadow.Policy{Name: "b", New: fixed(to(1))})
	if _, err := s.r.Decide(s.now, &fleet.Request{Session: "old", Model: "m", PromptTokens: 100}); err != nil {
		t.Fatal(err)
	}
	s.turn("old", 200)
	s.turn("new", 100)
	s.turn("new", 100, func(r *fleet.Request) { r.Tried = []string{"a"} })
	s.turn("", 100, func(r *fleet.Request) { r.Class = fleet.Embed })
	r := s.shadows.Report()
	if r.Late != 1 || r.Acting.Turns != 1 || r.Shadows[0].Apart.Turns != 1 {
		t.Errorf("late %d, turns %d and %d; want 1 each", r.Late, r.Acting.Turns, r.Shadows[0].Apart.Turns)
	}
	if h := r.Shadows[0].Here; h.Decisions != 3 || h.Differs != 3 || h.Priced != 2 {
		t.Errorf("%+v, want 3 decisions with a choice that differ, 2 of them turns", h)
	}
}

// TestShadowsAreBounded: pools, conversations and what is under way.
func TestShadowsAreBounded(t *testing.T) {
	s := newShadowRig(t, to(0), shadow.Policy{Name: "b", New: fixed(to(1))})
	for i := range 40_000 {
		s.turn(fmt.Sprint("c", i), 10, func(r *fleet.Request) { r.Model = fmt.Sprint("m", i%200) })
	}
	pools, ends, conversations := s.shadows.Sizes()
	if pools > 64 || ends > 1<<16 || conversations > 65_536 {
		t.Errorf("%d pools, %d ends, %d conversations", pools, ends, conversations)
	}
	s.wait(24 * time.Hour)
	s.turn("last", 10)
	if _, ends, _ := s.shadows.Sizes(); ends > 2 {
		t.Errorf("a day later %d things are under way", ends)
	}
}

// TestShadowQuantiles are true to 5 %.
func TestShadowQuantiles(t *testing.T) {
	for _, ms := range []float64{0.02, 1, 3.7, 110, 98_765} {
		if got := shadow.SpreadQuantile(ms); math.Abs(got/ms-1) > 0.07 {
			t.Errorf("%v ms comes out as %v", ms, got)
		}
	}
}

func policyOf(t testing.TB, name string) pick.Policy {
	t.Helper()
	make, err := policy.New(policy.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return make()
}

func BenchmarkShadow(b *testing.B) {
	for _, n := range []int{100, 4000} {
		content := &fleet.Content{Blocks: make([]uint64, n), Bytes: n * fleet.BlockBytes}
		for i := range content.Blocks {
			content.Blocks[i] = uint64(i+1) * 0x9e3779b97f4a7c15
		}
		var shadows []shadow.Policy
		for _, name := range []string{"session", "least_ttft", "round_robin", "smg.cache_aware"} {
			make, _ := policy.New(policy.Config{Name: name})
			shadows = append(shadows, shadow.Policy{Name: name, New: make})
		}
		s := newShadowRig(b, policyOf(b, "least_ttft"), shadows...)
		d := route.Declared{Source: "s"}
		for i := range 8 {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1,
			})
		}
		s.r.Observe(s.now, d)
		for i := range 8 {
			s.r.Observe(s.now, route.Probed{Endpoint: fmt.Sprint("e", i), Report: fleet.Report{Healthy: true}})
		}
		req := fleet.Request{Session: "c", Model: "m", PromptTokens: n * 32, Content: content, Seed: 1}
		dec, err := s.r.Decide(s.now, &req)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("take/%d_blocks", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.taken.Take(dec.View, &req, shadow.Placed{
					Lease: dec.Lease, Endpoint: dec.Endpoint.Name, Pool: dec.Pool, Session: dec.Session,
					Reason: dec.Reason,
				})
			}
		})
		b.Run(fmt.Sprintf("judge_4/%d_blocks", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.shadows.Judge(&s.taken)
			}
		})
	}
}

// TestShadowsGoOnWhereTheyWere: a shadow's counter moves on where one candidate is left, as the acting policy's does,
// and outlives the time in which its pool has no endpoint. A session of TensorRT-LLM's router is forgotten with its
// server.
func TestShadowsGoOnWhereTheyWere(t *testing.T) {
	rr := policyOf(t, "trtllm.round_robin")
	s := newShadowRig(t, rr, shadow.Policy{Name: "rr", New: func() pick.Policy {
		return policyOf(t, "trtllm.round_robin")
	}})
	declare := func(names ...string) {
		d := route.Declared{Source: "s"}
		for _, n := range names {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: n, URL: "http://" + n, Weight: 1})
		}
		e := s.r.Observe(s.now, d)
		for _, key := range e.Gone {
			s.taken.Leave(key)
			s.shadows.Judge(&s.taken)
		}
		for _, n := range names {
			s.r.Observe(s.now, route.Probed{Endpoint: n, Report: fleet.Report{Healthy: true}})
		}
	}
	var went []string
	play := func(n int) {
		for range n {
			went = append(went, s.turn("", 10).Endpoint.Name)
		}
	}
	play(1) // a
	declare("a")
	play(1) // the only one; the counter moves on
	declare()
	declare("a", "b")
	play(3)
	if got, want := fmt.Sprint(went), "[a a a b a]"; got != want {
		t.Errorf("the acting policy: %s, want %s", got, want)
	}
	if h := s.shadows.Report().Shadows[0].Here; h.Differs != 0 || h.Decisions != 4 {
		t.Errorf("the shadow of the same policy differs in %d of %d decisions", h.Differs, h.Decisions)
	}
}

// TestShadowsForgetWhoLeft: a conversation of TensorRT-LLM's router is placed anew once its server was removed, in a
// shadow as in the acting policy.
func TestShadowsForgetWhoLeft(t *testing.T) {
	for name, tell := range map[string]bool{"told": true, "not told": false} {
		s := newShadowRig(t, policyOf(t, "trtllm.conversation"),
			shadow.Policy{Name: "same", New: func() pick.Policy { return policyOf(t, "trtllm.conversation") }})
		first := s.turn("c", 1000)
		other := s.turn("d", 10) // the other one, and less at work
		d := route.Declared{Source: "s", Endpoints: []fleet.Endpoint{other.Endpoint}}
		gone := s.r.Observe(s.now, d).Gone
		if len(gone) != 1 {
			t.Fatalf("%d are gone", len(gone))
		}
		if tell {
			s.taken.Leave(gone[0])
			s.shadows.Judge(&s.taken)
		}
		d.Endpoints = append(d.Endpoints, first.Endpoint)
		s.r.Observe(s.now, d)
		s.r.Observe(s.now, route.Probed{Endpoint: first.Endpoint.Name, Report: fleet.Report{Healthy: true}})
		if at := s.turn("c", 1000); at.Endpoint.Name != other.Endpoint.Name {
			t.Fatalf("the acting policy went back to %s", at.Endpoint.Name)
		}
		if h := s.shadows.Report().Shadows[0].Here; (h.Differs == 0) != tell {
			t.Errorf("%s: it differs in %d decisions", name, h.Differs)
		}
	}
}
