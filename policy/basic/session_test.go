package basic

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
)

// open counts unreleased requests.
type open struct {
	pick.Policy
	n int
}

func (o *open) Reserved(fleet.Lease, *pick.Candidate, *pick.View, *fleet.Request) { o.n++ }

func (o *open) Released(fleet.Lease, bool) { o.n-- }

func TestSessionTellsAFallbackThatKeepsCount(t *testing.T) {
	fallback := &open{Policy: NewLeastTokens()}
	k, ok := NewSession(fallback).(pick.Keeping)
	if !ok {
		t.Fatal("session is not Keeping although its fallback is")
	}
	cs := policytest.Same(2)
	v := policytest.View(cs, 1)
	v.Home = 1
	at := policytest.Place(k, v, &fleet.Request{})
	if at != (pick.Choice{Index: 1, Reason: pick.ReasonSession}) {
		t.Fatalf("got %v", at)
	}
	k.Reserved(7, &cs[1], v, &fleet.Request{})
	if fallback.n != 1 {
		t.Errorf("%d requests open at home, want 1", fallback.n)
	}
	if k.Released(7, true); fallback.n != 0 {
		t.Errorf("%d requests open after the end", fallback.n)
	}
	if _, ok := NewSession(NewLeastTokens()).(pick.Keeping); ok {
		t.Error("session is Keeping although least_tokens is not")
	}
}
