package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"pgregory.net/rapid"
)

// TestPickChangesNothing: of two values of a policy with the same history one is also asked about other requests that
// are placed nowhere, and about each of its own twice. Both choose the same to the end.
func TestPickChangesNothing(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			plain, asked := pick.Install(makeFor(t, name)), pick.Install(makeFor(t, name))
			now, lease := time.Unix(1_000_000, 0), fleet.Lease(0)
			for i := range 16 {
				now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 61, 9000}).Draw(t, "seconds")) * time.Second)
				for range rapid.IntRange(0, 2).Draw(t, "dropped") {
					v, r := drawn(t, now)
					asked.Policy.Pick(v(), r)
				}
				v, r := drawn(t, now)
				twice := v()
				first := asked.Policy.Pick(twice, r)
				again := v()
				a := asked.Ask(again, r)
				if first != a.Choice || twice.CacheGate != again.CacheGate ||
					!slices.Equal(twice.Candidates, again.Candidates) {
					t.Fatalf("request %d: first %v, then %v", i, first, a.Choice)
				}
				view := v()
				b := plain.Ask(view, r)
				if a.Choice != b.Choice {
					t.Fatalf("request %d: %v, but %v without the others", i, a.Choice, b.Choice)
				}
				asked.Placed(&a, r)
				plain.Placed(&b, r)
				lease++
				answered := rapid.Bool().Draw(t, "answered")
				for _, p := range []*pick.Installed{plain, asked} {
					if h := p.Hooks; h.Reserved != nil {
						h.Reserved(lease, &view.Candidates[b.Index], view, r)
						if i%3 > 0 {
							h.Released(lease, answered)
						}
					}
				}
			}
		}))
	}
}

// drawn is a request at some fleet, and its view.
func drawn(t *rapid.T, now time.Time) (func() *pick.View, *fleet.Request) {
	cs := policytest.Fleets(false).Draw(t, "fleet")
	for i := range cs {
		c := &cs[i]
		c.Key += rapid.Uint64Range(0, 1).Draw(t, "successor")
		c.Epoch = rapid.Uint32Range(0, 1).Draw(t, "epoch")
		c.CachedTokens, c.CacheTokens = rapid.IntRange(0, 300).Draw(t, "cached"),
			rapid.SampledFrom([]int64{0, 200, 100_000}).Draw(t, "holds")
		c.MsPerToken, c.MsPerAnswer, c.FixedMs = 0.1, rapid.Float64Range(0, 30).Draw(t, "answers"), 10
		c.EngineRequests = rapid.IntRange(-1, 2).Draw(t, "queue")
	}
	r := policytest.Words(rapid.IntRange(0, 20).Draw(t, "shared"), rapid.IntRange(2, 5).Draw(t, "text"),
		rapid.IntRange(0, 20).Draw(t, "other"))
	r.Session = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "session")
	r.ID = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "id")
	home, seed := rapid.IntRange(-1, len(cs)-1).Draw(t, "home"), rapid.Uint64().Draw(t, "seed")
	return func() *pick.View {
		v := policytest.Asks(slices.Clone(cs), 300)
		v.Now, v.Home, v.FirstTurn, v.NewID, v.Hash = now, home, home < 0, home < 0,
			byhash.Mix(uint64((r.Session + " ")[0]))
		return policytest.Seed(v, seed)
	}, r
}
