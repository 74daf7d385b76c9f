package pick_test

import (
	"fmt"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// shortest is a policy: the endpoint where the prompt waits and is computed the shortest.
type shortest struct{ pick.Plain }

func (shortest) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	ms := func(c *pick.Candidate) float64 {
		return c.WaitMs + float64(v.PromptTokens-c.CachedTokens)*c.MsPerToken
	}
	best := 0
	for i := range v.Candidates {
		if ms(&v.Candidates[i]) < ms(&v.Candidates[best]) {
			best = i
		}
	}
	return pick.Choice{Index: best, Reason: "shortest"}
}

// A policy of your own: Config.Policy of package route takes a function that makes it.
func ExamplePolicy() {
	p := pick.Install(shortest{pick.Plain{Name: "shortest"}})
	v := pick.View{PromptTokens: 4000, Candidates: []pick.Candidate{
		{Endpoint: pick.Endpoint{Name: "busy"}, Cached: pick.Cached{CachedTokens: 3900}},
		{Endpoint: pick.Endpoint{Name: "idle"}},
	}}
	v.Candidates[0].WaitMs = 900
	for i := range v.Candidates {
		v.Candidates[i].MsPerToken = 0.1
	}
	chosen := p.Ask(&v, &fleet.Request{})
	fmt.Println(v.Candidates[chosen.Index].Name, chosen.Reason)
	// Output: idle shortest
}
