package route

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
	"pgregory.net/rapid"
)

// firstOf picks the first candidate.
type firstOf struct{}

func (firstOf) Needs() pick.Needs { return pick.Needs{Name: "first"} }

func (firstOf) Hooks() pick.Hooks { return pick.Hooks{} }

func (firstOf) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{Reason: "first"} }

// freeRouter has this many endpoints without a role.
func freeRouter(endpoints int) *Router {
	r := New(Config{
		Policy: func() pick.Policy { return firstOf{} }, Explain: true,
		Disaggregation: Disaggregation{When: fleet.WhenFree},
	})
	var d Declared
	d.Source = "s"
	for i := range endpoints {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{
			Name: "e" + strconv.Itoa(i), URL: "http://e", Weight: 1, Models: []string{"m"},
		})
	}
	r.Observe(time.Unix(1000, 0), d)
	return r
}

// TestFreePairIsTheCheapest: the search over two possible prefillers finds the cheapest of all pairs of endpoints, at
// any load.
func TestFreePairIsTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "endpoints")
		r, now := freeRouter(n), time.Unix(1000, 0)
		for i := range rapid.IntRange(0, 30).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			req := fleet.Request{
				Model: "m", PromptTokens: rapid.IntRange(1, 20_000).Draw(t, "tokens"), Stream: true,
				Splits: rapid.Bool().Draw(t, "splits"), MintedID: strconv.Itoa(i),
			}
			if rapid.Bool().Draw(t, "pinned") {
				req.Pin = "e" + strconv.Itoa(rapid.IntRange(0, n-1).Draw(t, "at"))
			}
			plan, err := r.Decide(now, &req)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Split() && rapid.Bool().Draw(t, "computed") {
				r.Observe(now, FirstByte{Lease: plan.Prefill.Lease})
			} else if !plan.Split() && rapid.Bool().Draw(t, "answers") {
				r.Observe(now, FirstByte{Lease: plan.Lease})
			}
		}
		req := fleet.Request{
			Model: "m", PromptTokens: rapid.IntRange(1, 20_000).Draw(t, "tokens"), Stream: true,
			Splits: true, MintedID: "last",
		}
		q, err := r.readers.identify(now, &req, r.scratch)
		if err != nil {
			t.Fatal(err)
		}
		fill := func(s search) *pick.View {
			s.prices = r.readers.prices(q.pool.Rule(), s.leg)
			f, err := r.readers.fill(&q, &noticed{}, &s)
			if err != nil {
				t.Fatal(err)
			}
			return f.view
		}
		prefill := fill(search{leg: fleet.LegPrefill, who: q.who})
		whole := fill(search{leg: fleet.LegUnsplit, who: q.who})
		_, w, _ := r.readers.weighFree(&q, prefill, whole)
		termsOf := func(v *pick.View, c *pick.Candidate) *pick.Terms {
			s := cost.ForSplit(v)
			var t pick.Terms
			cost.Estimate(v, c, &s, &t)
			return &t
		}
		soonest := termsOf(whole, &whole.Candidates[0])
		for i := range whole.Candidates {
			if t := termsOf(whole, &whole.Candidates[i]); t.Cost() == w.WholeMs {
				soonest = t
			}
		}
		best := math.Inf(1)
		for i := range prefill.Candidates {
			c := &prefill.Candidates[i]
			ready := c.WaitMs + c.FixedMs + float64(whole.PromptTokens-c.CachedTokens)*c.MsPerToken
			decode := r.readers.fillDecode(&q, whole, ready)
			for j := range decode.Candidates {
				if of := &decode.Candidates[j]; of.Slot != c.Slot {
					t := termsOf(decode, of)
					best = min(best, termsOf(prefill, c).Cost()+t.Cost()+max(0, ready+t.TTFT()-soonest.TTFT()))
				}
			}
		}
		switch {
		case n == 1:
			if w != (fleet.Weighed{}) {
				t.Fatalf("one endpoint, and %+v", w)
			}
		case w.SplitMs < best-1e-6 || w.SplitMs > best+1+waitOf(r, now, whole):
			t.Fatalf("the pair costs %v, the best of all %v", w.SplitMs, best)
		}
	})
}

// waitOf is the tolerance: a later prompt lets the work at the decoder proceed meanwhile.
func waitOf(r *Router, now time.Time, whole *pick.View) float64 {
	most := 0.0
	for i := range whole.Candidates {
		most = max(most, r.backlog.Reader().LegWaitMs(now, &whole.Candidates[i], r.speed.Reader()))
	}
	return most
}

// TestFreeKeepsAnswersFromPrompts: a long prompt is not computed beside running answers while another endpoint is idle,
// unless nothing else can compute it in time; and without load nothing is split.
func TestFreeKeepsAnswersFromPrompts(t *testing.T) {
	r, now := freeRouter(3), time.Unix(1000, 0)
	decide := func(req fleet.Request) Plan {
		t.Helper()
		req.Model, req.Stream, req.Splits = "m", true, req.Pin == ""
		plan, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Plan
	}
	idle := decide(fleet.Request{PromptTokens: 8000, MintedID: "idle"})
	if idle.Split() || idle.Why != fleet.WholeSooner || idle.Reason != pick.ReasonWeighed ||
		idle.Weighed.SplitMs <= idle.Weighed.WholeMs {
		t.Fatalf("%+v", idle)
	}
	r.Observe(now, Finished{Lease: idle.Lease, Outcome: fleet.ClientGone})
	now = now.Add(time.Minute)
	for i := range 20 { // ten are answered at e0, ten at e1
		d := decide(fleet.Request{PromptTokens: 10, MintedID: strconv.Itoa(i), Pin: "e" + strconv.Itoa(i%2)})
		r.Observe(now, FirstByte{Lease: d.Lease})
	}
	now = now.Add(time.Minute)
	long := decide(fleet.Request{PromptTokens: 8000, MintedID: "long"})
	if computes := long.Endpoint.Name; long.Split() && long.Prefill.Endpoint.Name != "e2" ||
		!long.Split() && computes != "e2" {
		t.Errorf("the long prompt goes to %+v", long)
	}
	// The next one is not answered at e2, which has a prompt to compute, or else after it.
	next := decide(fleet.Request{PromptTokens: 9000, MintedID: "next"})
	if !next.Split() && next.Endpoint.Name != "e2" {
		t.Errorf("ten wait for the next one: %+v", next)
	}
}

// TestFreeLeavesRoom: a prompt that takes more than a share of an engine's memory is not stored at two.
func TestFreeLeavesRoom(t *testing.T) {
	for _, c := range []struct {
		memory int64 // reported tokens; 0 unknown
		tokens int
		pairs  bool
	}{{40_000, 10_000, true}, {40_000, 10_001, false}, {0, 200_000, true}} {
		r, now := freeRouter(3), time.Unix(1000, 0)
		for i := range 3 {
			r.Observe(now, Probed{Endpoint: "e" + strconv.Itoa(i), Report: fleet.Report{
				Healthy: true, Models: []fleet.Model{{ID: "m"}}, CacheTokens: c.memory,
			}})
		}
		plan, err := r.Decide(now, &fleet.Request{
			Model: "m", PromptTokens: c.tokens, Stream: true, Splits: true, MintedID: "s",
		})
		if err != nil || (plan.Weighed.SplitMs > 0) != c.pairs {
			t.Errorf("%+v: two legs are thought to cost %v ms, %v", c, plan.Weighed.SplitMs, err)
		}
	}
}
