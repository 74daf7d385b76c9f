package leastttft

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
)

// quick is n idle endpoints that compute 10,000 prompt tokens per second, with 10 ms for the first token.
func quick(n int) []pick.Candidate {
	cs := policytest.Same(n)
	for i := range cs {
		cs[i].MsPerToken, cs[i].FixedMs = 0.1, 10
	}
	return cs
}

// laterTurn is the view of a conversation's later turn.
func laterTurn(cs []pick.Candidate, home, prompt int) *pick.View {
	v := policytest.View(cs, 1)
	v.Home, v.FirstTurn, v.PromptTokens = home, false, prompt
	return v
}

// mix counts turns and what they compute, without forgetting any; before there is one, two later turns are assumed for
// a first one.
type mix struct{ firsts, laters, tokens float64 }

func (m *mix) add(first bool, tokens int) {
	if m.tokens += float64(tokens); first {
		m.firsts++
	} else {
		m.laters++
	}
}

func (m *mix) expect(v *pick.View) {
	v.LaterTurns = (m.laters + 2) / (m.firsts + 1)
	v.TurnTokens = m.tokens / max(m.firsts+m.laters, 1)
}

// pool is a policy with its pool's statistics of turns, as the router keeps them.
type pool struct {
	pick.Policy
	mix mix
}

func (p *pool) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	p.mix.expect(v)
	return p.Policy.Pick(v, r)
}

func (p *pool) Hooks() pick.Hooks {
	h := p.Policy.Hooks()
	placed := h.Placed
	h.Placed = func(v *pick.View, r *fleet.Request, c pick.Choice) {
		placed(v, r, c)
		if r.Class == fleet.Turn {
			p.mix.add(v.FirstTurn, v.PromptTokens-v.Candidates[c.Index].CachedTokens)
		}
	}
	return h
}

func ttft(interface{ Helper() }) pick.Policy { return &pool{Policy: New(Config{}.WithDefaults())} }

func TestHomeIsKept(t *testing.T) {
	for _, c := range []struct {
		name         string
		cached       int     // at home, of 2,000 tokens
		wait         float64 // at home, in ms
		elsewhere    float64 // at the others
		want         int
		wantedReason pick.Reason
	}{
		{"idle", 1900, 0, 0, 0, reasons.Home},
		{"waiting less than computing again", 1900, 150, 0, 0, reasons.Home},
		{"waiting about as long as computing again", 1900, 215, 0, 0, reasons.Home},
		{"waiting much longer", 1900, 600, 0, 1, reasons.Leaves},
		{"all wait as long", 1900, 600, 600, 0, reasons.Home},
		{"home holds nothing and is idle", 0, 0, 0, 0, reasons.Home},
		{"home holds nothing and others are a little quicker", 0, 19, 0, 0, reasons.Home},
		{"home holds nothing and others save less than a fifth", 0, 50, 0, 0, reasons.Home},
		{"home holds nothing and others save more than a fifth", 0, 60, 0, 1, reasons.Leaves},
		{"home holds nothing and others are much quicker", 0, 300, 0, 1, reasons.Leaves},
		{"leaving costs less, but not by a fifth", 1900, 240, 0, 0, reasons.Home},
		{"leaving costs less by more than a fifth", 1900, 250, 0, 1, reasons.Leaves},
	} {
		t.Run(c.name, func(t *testing.T) {
			cs := quick(2)
			cs[0].CachedTokens, cs[0].WaitMs, cs[1].WaitMs = c.cached, c.wait, c.elsewhere
			v := laterTurn(cs, 0, 2000)
			if got := policytest.Place(ttft(t), v, &fleet.Request{}); got.Index != c.want ||
				got.Reason != c.wantedReason {
				t.Errorf("picked %+v, want %d (%s); terms %+v", got, c.want, c.wantedReason, v.Candidates)
			}
		})
	}
}

// TestOverloadedHomeShedsOne: from an overloaded home those conversations leave for which it pays, and each decision
// sees the one before, so that they do not all go to the same place.
func TestOverloadedHomeShedsOne(t *testing.T) {
	p, cs := ttft(t), quick(4)
	cs[0].WaitMs = 700
	went := make([]int, 4)
	for i := range 12 {
		v := laterTurn(cs, 0, 2000)
		v.Hash = byhash.Mix(uint64(i))
		for j := range cs {
			cs[j].CachedTokens = 0
		}
		cs[0].CachedTokens = 1900
		at := policytest.Place(p, v, &fleet.Request{}).Index
		went[at]++
		cs[at].WaitMs += float64(2000-cs[at].CachedTokens) * cs[at].MsPerToken
		cs[0].WaitMs = max(0, cs[0].WaitMs-60) // it computes prompts in front
	}
	if went[0] < 8 {
		t.Errorf("went to %v: most should have stayed", went)
	}
	if went[1]+went[2]+went[3] == 0 {
		t.Errorf("went to %v: nobody has left", went)
	}
	for _, n := range went[1:] {
		if n > 2 {
			t.Errorf("went to %v: they left for the same endpoint", went)
		}
	}
}

// TestFairShare: whatever is predicted, an endpoint's outstanding requests stay within its share.
func TestFairShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "endpoints")
		cs := quick(n)
		factor := rapid.SampledFrom([]float64{1, 2, 4}).Draw(t, "fair share")
		p := &pool{Policy: New(Config{FairShare: factor}.WithDefaults())}
		for i := range 60 * n {
			for j := range cs {
				cs[j].CachedTokens, cs[j].WaitMs = 0, 0
			}
			cs[0].CachedTokens = 1990 // always predicted to be best
			v := policytest.View(cs, uint64(i))
			v.PromptTokens = 2000
			if rapid.Bool().Draw(t, "known") {
				v.Home, v.FirstTurn = 0, false
			}
			policytest.Reserve(&cs[policytest.Place(p, v, &fleet.Request{}).Index], 2000, 100)
			// eight more, and rounding
			if got, most := float64(cs[0].Load.Requests), factor*float64(i+1)/float64(n)+9; got > most {
				t.Fatalf("%v of %d requests, may have %v", got, i+1, most)
			}
		}
	})
}

// TestFirstTurnsSpread: new conversations with equal cost everywhere are shared by weight and speed.
func TestFirstTurnsSpread(t *testing.T) {
	for _, c := range []struct {
		name  string
		tune  func(cs []pick.Candidate)
		share []float64
	}{
		{"alike", func([]pick.Candidate) {}, []float64{0.25, 0.25, 0.25, 0.25}},
		{"one of double weight", func(cs []pick.Candidate) { cs[0].Weight = 2 }, []float64{0.4, 0.2, 0.2, 0.2}},
		{
			"one half as quick, of short prompts", func(cs []pick.Candidate) { cs[3].MsPerToken = 0.2 },
			[]float64{2. / 7, 2. / 7, 2. / 7, 1. / 7},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cs := quick(4)
			c.tune(cs)
			p, went := ttft(t), make([]float64, 4)
			for i := range 1000 {
				v := policytest.View(cs, uint64(i))
				v.PromptTokens = 20
				went[policytest.Place(p, v, &fleet.Request{}).Index]++
			}
			for i := range went {
				if math.Abs(went[i]/1000-c.share[i]) > 0.06 {
					t.Errorf("went to %v, shares should be %v", went, c.share)
				}
			}
		})
	}
}

// TestSharedTextsStayTogether: for conversations of one turn there is no spreading, and a shared prefix is not
// recomputed elsewhere because its endpoint got more of them.
func TestSharedTextsStayTogether(t *testing.T) {
	p, cs, elsewhere := ttft(t), quick(4), 0
	cs[0].CachedTokens = 1900
	for i := range 400 {
		v := policytest.View(cs, uint64(i))
		v.PromptTokens = 2000
		if at := policytest.Place(p, v, &fleet.Request{}).Index; at != 0 && i >= 200 {
			elsewhere++
		}
	}
	if elsewhere > 10 {
		t.Errorf("%d of 200 went where their text is not", elsewhere)
	}
}

// TestNewcomerIsRamped: a ramping endpoint gets few first turns at first, and more as it warms up.
func TestNewcomerIsRamped(t *testing.T) {
	share := func(ramp float64) float64 {
		cs := quick(3)
		cs[2].Weight = ramp
		p, got := ttft(t), 0.0
		for i := range 600 {
			v := policytest.View(cs, uint64(i))
			v.PromptTokens = 400
			at := policytest.Place(p, v, &fleet.Request{}).Index
			if at == 2 {
				got++
			}
			for range 3 { // later turns
				policytest.Place(p, laterTurn(cs, at, 400), &fleet.Request{})
			}
		}
		return got / 600
	}
	low, half, full := share(0.1), share(0.5), share(1)
	if !(low > 0 && low < 0.1 && low < half && half < full && full > 0.3) {
		t.Errorf("of the first turns it gets %.3f at a tenth, %.3f at half and %.3f at full weight", low, half, full)
	}
}

// TestHotPrefixIsReplicated: a common prefix is computed a second time once its only home is busy, and not before.
func TestHotPrefixIsReplicated(t *testing.T) {
	choose := func(waitMs float64) int {
		cs := quick(2)
		cs[0].CachedTokens, cs[0].WaitMs = 20_000, waitMs
		p := ttft(t)
		for i := range 50 { // conversations of five more turns of 400 tokens
			v := laterTurn(cs, 0, 20_400)
			if i%6 == 0 {
				v.Home, v.FirstTurn = -1, true
				v.Candidates = cs[:1]
			}
			policytest.Place(p, v, &fleet.Request{})
			v.Candidates = cs
		}
		v := policytest.View(cs, 1)
		v.PromptTokens = 20_400
		return policytest.Place(p, v, &fleet.Request{}).Index
	}
	if at := choose(100); at != 0 {
		t.Error("it is computed again though its home has little to do")
	}
	if at := choose(2500); at != 1 {
		t.Error("it is not computed again though its home is very busy")
	}
}

// TestTiesGoByRendezvous: two routers without common state send a conversation to the same one of tied endpoints.
func TestTiesGoByRendezvous(t *testing.T) {
	went := make([]int, 4)
	for i := range 400 {
		hash := byhash.Mix(uint64(i) + 99)
		at := [2]int{}
		for r := range at {
			v := laterTurn(quick(4), -1, 400)
			v.Hash = hash
			policytest.Seed(v, uint64(i*2+r))
			c := policytest.Place(ttft(t), v, &fleet.Request{})
			at[r] = c.Index
			if c.Reason != reasons.Spread {
				t.Fatalf("reason %s", c.Reason)
			}
		}
		if at[0] != at[1] {
			t.Fatalf("two routers picked %v", at)
		}
		went[at[0]]++
	}
	if x := policytest.ChiSquare(went, policytest.Same(4)); x > 16.3 { // 0.1 % with 3 degrees of freedom
		t.Errorf("went to %v, chi square %.1f", went, x)
	}
}

// TestTermsAreNumbers: for any view every term is finite and not negative, and a candidate is picked.
func TestTermsAreNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ttft(t)
		for range rapid.IntRange(1, 20).Draw(t, "turns") {
			v := policytest.Views(false).Draw(t, "view")()
			v.PromptTokens = rapid.SampledFrom([]int{0, 1, 400, 1_000_000}).Draw(t, "prompt")
			v.Missed = rapid.Float64Range(0, 1).Draw(t, "missed")
			for i := range v.Candidates {
				c := &v.Candidates[i]
				c.MsPerToken = rapid.SampledFrom([]float64{0, 1e-5, 0.1, 50}).Draw(t, "speed")
				c.FixedMs = rapid.SampledFrom([]float64{0, 10, 1e6}).Draw(t, "fixed")
				c.WaitMs = rapid.SampledFrom([]float64{0, 5, 1e7}).Draw(t, "wait")
				c.Utilisation = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "busy")
				c.TurnsPerMs = rapid.SampledFrom([]float64{0, 0.01, 100}).Draw(t, "rate")
				c.Full = rapid.Bool().Draw(t, "full")
				c.CachedTokens = rapid.IntRange(0, v.PromptTokens).Draw(t, "cached")
			}
			got := policytest.Place(p, v, &fleet.Request{})
			if got.Index < 0 || got.Index >= len(v.Candidates) {
				t.Fatalf("picked %d of %d", got.Index, len(v.Candidates))
			}
			for _, c := range v.Candidates {
				for _, x := range []float64{
					c.Terms.Wait, c.Terms.Prefill, c.Terms.Fixed, c.Terms.Externality, c.Terms.Spread,
				} {
					if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
						t.Fatalf("terms %+v of %+v", c.Terms, c)
					}
				}
			}
		}
	})
}

// TestParent: a sub-agent's conversation starts at its parent's endpoint, unless another one is clearly faster.
func TestParent(t *testing.T) {
	for _, c := range []struct {
		wait   float64 // at the parent's endpoint, in ms
		reason pick.Reason
	}{{0, reasons.Parent}, {15, reasons.Parent}, {100, reasons.LeastTTFT}} {
		cs := quick(2)
		cs[1].WaitMs = c.wait
		v := laterTurn(cs, -1, 2000)
		v.Parent, v.FirstTurn = 1, true
		got := policytest.Place(ttft(t), v, &fleet.Request{})
		if got.Reason != c.reason || (got.Index == 1) != (c.reason == reasons.Parent) {
			t.Errorf("waiting %v ms at the parent's: %+v", c.wait, got)
		}
	}
}

// TestWeightIsNoWait: the request's own predicted time does not depend on weights, and equal weights have no effect.
func TestWeightIsNoWait(t *testing.T) {
	for _, c := range []struct {
		weights [2]float64
		lighter bool // the second costs more
	}{{[2]float64{1, 1}, false}, {[2]float64{0.5, 0.5}, false}, {[2]float64{4, 1}, true}, {[2]float64{1, 0.1}, true}} {
		cs := quick(2)
		for i := range cs {
			cs[i].Weight, cs[i].WaitMs = c.weights[i], 50
		}
		policytest.Place(ttft(t), laterTurn(cs, -1, 2000), &fleet.Request{})
		a, b := cs[0].Terms, cs[1].Terms
		if a.TTFT() != b.TTFT() || (b.Cost() > a.Cost()) != c.lighter || !c.lighter && b.Cost() != a.Cost() {
			t.Errorf("weights %v: %+v and %+v", c.weights, a, b)
		}
	}
}

// TestCandidatesThatAlternate: endpoints that can take some of the first turns only keep their counts while others take
// place: with four for short prompts only and four for all, both kinds coming in turn, the short ones go to those that
// get no long ones.
func TestCandidatesThatAlternate(t *testing.T) {
	p, counts := ttft(t), make([]int, 8)
	for i := range 1600 {
		cs, from := quick(8), 0
		if i%2 == 1 {
			cs, from = cs[4:], 4
		}
		v := policytest.View(cs, uint64(i))
		v.PromptTokens, v.LaterTurns, v.TurnTokens = 1000, 5, 1000
		counts[from+policytest.Place(p, v, &fleet.Request{}).Index]++
	}
	for i, n := range counts {
		if n < 150 || n > 250 {
			t.Errorf("endpoint %d got %d of 1,600 first turns, want about 200: %v", i, n, counts)
		}
	}
}

// TestAbsentIsNotFlooded: an endpoint that was away for long starts at the others' mean, as a new one does.
func TestAbsentIsNotFlooded(t *testing.T) {
	p := ttft(t)
	place := func(cs []pick.Candidate, i int) int {
		v := policytest.View(cs, uint64(i))
		v.PromptTokens, v.LaterTurns, v.TurnTokens = 1000, 5, 1000
		return cs[policytest.Place(p, v, &fleet.Request{}).Index].Slot
	}
	for i := range 800 {
		place(quick(5)[:4], i)
	}
	got := 0
	for i := range 100 {
		if place(quick(5), 1000+i) == 4 {
			got++
		}
	}
	if got < 5 || got > 45 {
		t.Errorf("the newcomer got %d of 100 first turns, want about 20", got)
	}
}

// TestCountsOfThoseThatLeft: in a pool where not all endpoints have a row, a newcomer starts at the mean of those that
// are there, not of those that were.
func TestCountsOfThoseThatLeft(t *testing.T) {
	p := New(Config{}.WithDefaults())
	view := func(from, to, i int) *pick.View {
		all := quick(to)
		var cs []pick.Candidate
		for j := range 10 {
			cs = append(cs, all[from+(i*7+j*13)%(to-from)])
		}
		v := policytest.View(cs, uint64(i))
		v.PromptTokens, v.LaterTurns, v.TurnTokens = 1000, 5, 1000
		v.Beyond = pick.Beyond{Count: to - from - len(cs), Ready: float64(to-from-len(cs)) * 10, Heaviest: 1}
		return v
	}
	for i := range 20_000 {
		policytest.Place(p, view(0, 200, i), &fleet.Request{})
	}
	for i := range 100 {
		p.Hooks().Forgotten(policytest.Candidate(i, 1).Key)
	}
	v := view(100, 200, 1)
	policytest.Place(p, v, &fleet.Request{})
	newcomer := quick(201)[200]
	v = view(100, 200, 2)
	v.Candidates = append(v.Candidates, newcomer)
	p.Pick(v, &fleet.Request{})
	sum := 0.0
	for _, c := range v.Candidates[:len(v.Candidates)-1] {
		sum += c.Terms.Spread / float64(len(v.Candidates)-1)
	}
	if got := v.Candidates[len(v.Candidates)-1].Terms.Spread; got > sum+100 {
		t.Errorf("the newcomer's penalty is %.0f ms, the others' %.0f ms in the mean", got, sum)
	}
}
