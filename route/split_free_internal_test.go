package route

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
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
