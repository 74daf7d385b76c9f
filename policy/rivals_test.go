package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

// TestRivalsOverHistories: over whole histories of requests rivals return a candidate, equal ones for equal histories,
// and change nothing.
func TestRivalsOverHistories(t *testing.T) {
	for _, name := range RivalNames() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p, q := makeFor(t, name), makeFor(t, name)
			now := time.Unix(1_000_000, 0)
			for i := range 20 {
				cs := policytest.Fleets(false).Draw(t, "fleet")
				for k := range cs {
					cs[k].CachedTokens, cs[k].MsPerToken = rapid.IntRange(0, 300).Draw(t, "cached"), 0.1
					cs[k].KVUsage = rapid.SampledFrom([]float64{-1, 0, 0.5, 1}).Draw(t, "usage")
				}
				now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "seconds")) * time.Second)
				r := policytest.Words(rapid.IntRange(0, 20).Draw(t, "shared"), rapid.IntRange(2, 5).Draw(t, "text"),
					rapid.IntRange(0, 20).Draw(t, "other"))
				r.Session = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "session")
				ask := func(p pick.Policy) (pick.Choice, []pick.Candidate) {
					v := policytest.Asks(slices.Clone(cs), 300)
					v.Now, v.Hash = now, byhash.Mix(uint64((r.Session + " ")[0]))
					policytest.Seed(v, uint64(i))
					return policytest.Place(p, v, r), v.Candidates
				}
				a, after := ask(p)
				b, _ := ask(q)
				if a != b || a.Index < 0 || a.Index >= len(cs) || !slices.Contains(reasons.All(), a.Reason) ||
					!slices.Equal(cs, after) {
					t.Fatalf("request %d: %v and %v of %d", i, a, b, len(cs))
				}
			}
		}))
	}
}

func TestRivalsAllocateNothing(t *testing.T) {
	for _, name := range RivalNames() {
		p, cs := pick.Install(make1(t, name)), policytest.Busy(1, 2, 3, 0)
		var asked []*fleet.Request
		for text := range 8 {
			r := policytest.Words(10, text+2, 30)
			r.Session = string(rune('a' + text))
			asked = append(asked, r)
		}
		v, i := policytest.Asks(cs, 1000), 0
		choose := func() {
			v.Hash = byhash.Mix(uint64(i % 8))
			v.Now = v.Now.Add(time.Second)
			policytest.PlaceBy(p, v, asked[i%8])
			i++
		}
		for range 300 {
			choose()
		}
		if got := testing.AllocsPerRun(100, choose); got != 0 {
			t.Errorf("%s: %v allocations a pick", name, got)
		}
	}
}
