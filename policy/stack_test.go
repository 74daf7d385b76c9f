package policy

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Nobody holds anything: the endpoint with the fewest requests of the last minute, or the session's place on the ring.
func TestStackLoadAwareFallsBack(t *testing.T) {
	p, cs := newStackLoadAware(), same(3)
	at := func(after time.Duration, session string) pick.Choice {
		v := asks(cs, 1000)
		v.Now = v.Now.Add(after)
		return p.Pick(v, &fleet.Request{Session: session})
	}
	for i, want := range []int{0, 1, 2, 0} {
		if got := at(0, ""); got != (pick.Choice{Index: want, Reason: ReasonLoad}) {
			t.Errorf("request %d: got %v, want %d", i, got, want)
		}
	}
	if got := at(61*time.Second, ""); got.Index != 0 { // all forgotten
		t.Errorf("a minute later: got %v", got)
	}
	first := at(0, "s")
	for range 5 {
		if got := at(0, "s"); got != first || got.Reason != ReasonHash {
			t.Errorf("session: got %v, then %v", first, got)
		}
	}
}

func TestStackPrefixAwareByHand(t *testing.T) {
	p := newStackPrefixAware()
	first := p.Pick(asks(busy(0, 0, 0), 0), words(10, 0, 0))
	if first.Reason != ReasonRandom {
		t.Errorf("first: %v", first)
	}
	// One common block is enough, whatever the load.
	loads := []int{0, 0, 0}
	loads[first.Index] = 1000
	for text := 2; text < 12; text++ {
		if got := p.Pick(asks(busy(loads...), 0), words(1, text, 50)); got != (pick.Choice{Index: first.Index, Reason: ReasonCacheMatch}) {
			t.Fatalf("text %d: %v, first %v", text, got, first)
		}
	}
}
