package warmpath_test

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// A program of your own routes requests with the decision core alone: it declares endpoints, asks where a request goes,
// and tells what became of it. The core reads no clock and opens no socket.
func Example() {
	newPolicy, err := policy.New(policy.Config{Name: "least_ttft"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := route.New(route.Config{Policy: newPolicy})
	now := time.Unix(1_800_000_000, 0)
	r.Observe(now, route.Declared{Source: "mine", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://10.0.0.1:8000", Weight: 1, Models: []string{"m"}},
		{Name: "b", URL: "http://10.0.0.2:8000", Weight: 1, Models: []string{"m"}},
	}})
	for turn := range 3 {
		now = now.Add(5 * time.Second)
		req := fleet.Request{
			Model: "m", Session: "chat-1", PromptTokens: 1000 * (turn + 1), Stream: true, Seed: uint64(turn),
		}
		plan, err := r.Decide(now, &req)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("turn %d goes to %s: %s\n", turn+1, plan.Endpoint.Name, plan.Reason)
		r.Observe(now, route.FirstByte{Lease: plan.Lease})
		r.Observe(now, route.Finished{
			Lease: plan.Lease, Outcome: fleet.OK, Usage: fleet.Usage{PromptTokens: req.PromptTokens, OutputTokens: 50},
		})
	}
	// Output:
	// turn 1 goes to b: spread
	// turn 2 goes to b: home
	// turn 3 goes to b: home
}
