package route_test

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestOnlyEndpointIsSpared: the only endpoint of a model is not ejected for a failure, also where its request began
// when there was another, which has left, and another engine has that one's slot. So it is where its pool was dropped
// meanwhile, since clients asked for thousands of models.
func TestOnlyEndpointIsSpared(t *testing.T) {
	for _, models := range []int{1, 4200} {
		t.Run(fmt.Sprint(models), func(t *testing.T) {
			x := newTestRouter(t, nil, "a", "b", "many")
			x.r.Observe(x.now, route.Configured{
				Config: route.Config{Policy: func() pick.Policy { return leastWork{} }},
			})
			list := make([]fleet.Model, models)
			for i := range list {
				list[i].ID = fmt.Sprint("x", i)
			}
			x.up("many", nil, list...)
			var open []route.Decision
			for range 10 {
				open = append(open,
					x.route(fleet.Request{Model: "m", Pin: "a", Class: fleet.Turn, PromptTokens: 10, Seed: 1}))
			}
			for i := range list {
				x.end(x.route(fleet.Request{Model: list[i].ID, Class: fleet.Turn, PromptTokens: 10, Seed: 1}), fleet.OK)
			}
			x.declare([]string{"a", "many"}, "")
			x.declare([]string{"a", "many", "other"}, "")
			x.up("other", nil, fleet.Model{ID: "o"})
			for _, d := range open {
				x.end(d, fleet.EngineError)
			}
			for _, s := range x.r.Status(x.now) {
				if s.Endpoint.Name == "a" && s.State != fleet.StateUp {
					t.Errorf("the only endpoint of its model is %s", s.State)
				}
			}
			if x.r.Stats().EjectionsSpared == 0 {
				t.Error("no ejection was due")
			}
		})
	}
}
