package stack

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
)

// No endpoint has any of the prompt: the endpoint with the fewest requests of the last minute, or the session's place
// on the ring.
func TestStackLoadAwareFallsBack(t *testing.T) {
	p, cs := NewLoadAware(), policytest.Same(3)
	at := func(after time.Duration, session string) pick.Choice {
		v := policytest.Asks(cs, 1000)
		v.Now = v.Now.Add(after)
		return policytest.Place(p, v, &fleet.Request{Session: session})
	}
	for i, want := range []int{0, 1, 2, 0} {
		if got := at(0, ""); got != (pick.Choice{Index: want, Reason: reasons.Load}) {
			t.Errorf("request %d: got %v, want %d", i, got, want)
		}
	}
	if got := at(61*time.Second, ""); got.Index != 0 { // all forgotten
		t.Errorf("a minute later: got %v", got)
	}
	first := at(0, "s")
	for range 5 {
		if got := at(0, "s"); got != first || got.Reason != reasons.Hash {
			t.Errorf("session: got %v, then %v", first, got)
		}
	}
}

func TestStackPrefixAwareByHand(t *testing.T) {
	p := NewPrefixAware()
	first := policytest.Place(p, policytest.Asks(policytest.Busy(0, 0, 0), 0), policytest.Words(10, 0, 0))
	if first.Reason != reasons.Random {
		t.Errorf("first: %v", first)
	}
	// One common block is enough, at any load.
	loads := []int{0, 0, 0}
	loads[first.Index] = 1000
	for text := 2; text < 12; text++ {
		if got := policytest.Place(p, policytest.Asks(policytest.Busy(loads...), 0),
			policytest.Words(1, text, 50)); got != (pick.Choice{Index: first.Index, Reason: reasons.CacheMatch}) {
			t.Fatalf("text %d: %v, first %v", text, got, first)
		}
	}
}
