package route_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestResponsesOfOthersStay: a tenant that stores more responses than are remembered makes its own forgotten, also at
// the other routers.
func TestResponsesOfOthersStay(t *testing.T) {
	s := newReplicas(t, 2, route.Config{Policy: func() pick.Policy { return &mixes{} }, Responses: 100})
	stores := func(i int, tenant, response string) {
		d := s.decide(i, &fleet.Request{Model: "m", Tenant: tenant, PromptTokens: 10, Seed: 1})
		s.observe(i, route.ResponseStarted{Lease: d.Lease, Response: response + "_item"})
		s.observe(i, route.Finished{Lease: d.Lease, Response: response})
		for len(s.mail) > 0 {
			s.deliver(0)
		}
	}
	knows := func(i int, tenant, id string) bool {
		_, err := s.all[i].Decide(s.now, &fleet.Request{
			Model: "m", Tenant: tenant, PromptTokens: 10, Seed: 1, Follows: id, Owned: []string{id},
		})
		var unknown *route.UnknownIDError
		return !errors.As(err, &unknown)
	}
	for i := range 5 {
		stores(0, "quiet", fmt.Sprint("resp_", i))
	}
	for i := range 1000 {
		stores(i%2, "loud", fmt.Sprint("loud_", i))
	}
	for i := range s.all {
		for n := range 5 {
			for _, id := range []string{fmt.Sprint("resp_", n), fmt.Sprint("resp_", n, "_item")} {
				if !knows(i, "quiet", id) {
					t.Errorf("router %d has forgotten %s", i, id)
				}
			}
		}
		if knows(i, "loud", "loud_900") || !knows(i, "loud", "loud_999") {
			t.Errorf("router %d: of its own the tenant's oldest are to go", i)
		}
	}
}
