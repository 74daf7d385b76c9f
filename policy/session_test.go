package policy

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

func TestSessionStaysHome(t *testing.T) {
	for _, fallback := range fallbacks() {
		t.Run(fallback, rapid.MakeCheck(func(t *rapid.T) {
			f, err := New(Config{Name: "session", Session: SessionConfig{Fallback: fallback}})
			if err != nil {
				t.Fatal(err)
			}
			v := policytest.Views(false).Draw(t, "view")
			got := policytest.Place(f(), v(), &fleet.Request{})
			if home := v().Home; home >= 0 {
				if got != (pick.Choice{Index: home, Reason: pick.ReasonSession}) {
					t.Fatalf("home %d, got %v", home, got)
				}
				return
			}
			if want := policytest.Place(makeFor(t, fallback), v(), &fleet.Request{}); got != want {
				t.Fatalf("got %v, %s alone picks %v", got, fallback, want)
			}
		}))
	}
}

func TestSessionFallsBackToLeastTokens(t *testing.T) {
	cs := policytest.Same(3)
	policytest.Reserve(&cs[0], 10, 0)
	policytest.Reserve(&cs[2], 10, 0)
	for seed := range uint64(20) {
		if got, want := policytest.Place(make1(t, "session"), policytest.View(cs, seed), &fleet.Request{}),
			(pick.Choice{Index: 1, Reason: reasons.LeastTokens}); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestSessionPassesOptionsOn(t *testing.T) {
	cs := policytest.Same(4)
	p := makeOf(t, Config{
		Name: "session", Session: SessionConfig{Fallback: "consistent_hash"},
		ConsistentHash: basic.ConsistentHashConfig{LoadFactor: 1000},
	})
	for range 40 {
		c := policytest.Place(p, policytest.View(cs, 1), &fleet.Request{})
		cs[c.Index].Load.Requests++
		if c.Reason != reasons.ConsistentHash {
			t.Fatalf("overflowed below a factor of 1000: %v", cs)
		}
	}
}

func TestSessionCountsBlocksForItsFallback(t *testing.T) {
	if make1(t, "session").Needs().Active {
		t.Error("session over least_tokens asks for blocks")
	}
	if !makeOf(t, Config{Name: "session", Session: SessionConfig{Fallback: "dynamo.kv"}}).Needs().Active {
		t.Error("session over dynamo.kv does not ask for blocks")
	}
}
