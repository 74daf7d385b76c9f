package basic

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
)

// heard is least_tokens, and counts what it is told.
type heard struct {
	pick.Policy
	placed, open int
}

func (h *heard) Hooks() pick.Hooks {
	return pick.Hooks{
		Placed:   func(*pick.View, *fleet.Request, pick.Choice) { h.placed++ },
		Reserved: func(fleet.Lease, *pick.Candidate, *pick.View, *fleet.Request) { h.open++ },
		Released: func(fleet.Lease, bool) { h.open-- },
	}
}

// TestSessionTellsItsFallback: the other policy hears of every request, and only of its own choices that they were
// placed.
func TestSessionTellsItsFallback(t *testing.T) {
	fallback := &heard{Policy: NewLeastTokens()}
	p := pick.Install(NewSession(fallback))
	cs := policytest.Same(2)
	for _, at := range []struct {
		name   string
		home   int
		reason pick.Reason
		placed int
	}{{"at home", 1, pick.ReasonSession, 0}, {"new", pick.None, "least_tokens", 1}} {
		v, r := policytest.View(cs, 1), &fleet.Request{}
		v.Home = at.home
		a := p.Ask(v, r)
		if a.Reason != at.reason {
			t.Fatalf("%s: got %v", at.name, a.Choice)
		}
		if p.Placed(&a, r); fallback.placed != at.placed {
			t.Errorf("%s: told of %d choices, want %d", at.name, fallback.placed, at.placed)
		}
		if p.Hooks.Reserved(7, &cs[a.Index], v, r); fallback.open != 1 {
			t.Errorf("%s: %d requests open, want 1", at.name, fallback.open)
		}
		if p.Hooks.Released(7, true); fallback.open != 0 {
			t.Errorf("%s: %d requests open after the end", at.name, fallback.open)
		}
	}
}
