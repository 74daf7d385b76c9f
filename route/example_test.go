package route_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// A request goes to one endpoint and, if that cannot be reached, to another one. Each attempt has a lease, which ends
// once.
func ExampleRouter() {
	newPolicy, err := policy.New(policy.Config{}) // the default policy
	if err != nil {
		fmt.Println(err)
		return
	}
	r := route.New(route.Config{Policy: newPolicy})
	now := time.Unix(1_800_000_000, 0)
	r.Observe(now, route.Declared{Source: "mine", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://10.0.0.1:8000", Weight: 1},
		{Name: "b", URL: "http://10.0.0.2:8000", Weight: 1},
	}})
	for _, name := range []string{"a", "b"} { // what a probe of each has found
		r.Observe(now, route.Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m", ContextTokens: 32_768}},
		}})
	}

	req := fleet.Request{Model: "m", Session: "chat-1", PromptTokens: 2000, Stream: true, Seed: 1}
	for {
		plan, err := r.Decide(now, &req)
		var none *route.NoEndpointError
		switch {
		case errors.As(err, &none):
			fmt.Println("answer 503, Retry-After", none.RetryAfter)
			return
		case err != nil: // see Decide for the others
			fmt.Println(err)
			return
		}
		if len(req.Tried) == 0 { // here the port refuses the first connection
			r.Observe(now, route.Finished{Lease: plan.Lease, Outcome: fleet.ConnectFailed, Refused: true})
			req.Tried = append(req.Tried, plan.Endpoint.Name)
			continue
		}
		now = now.Add(300 * time.Millisecond)
		r.Observe(now, route.FirstByte{Lease: plan.Lease})
		now = now.Add(2 * time.Second)
		r.Observe(now, route.Finished{Lease: plan.Lease, Outcome: fleet.OK, Usage: fleet.Usage{
			PromptTokens: 2000, OutputTokens: 150,
		}})
		break
	}
	for _, s := range r.Status(now) {
		fmt.Println(s.Endpoint.Name, s.State, "requests:", s.Requests, "failures:", s.Failures)
	}
	// Output:
	// a up requests: 1 failures: 0
	// b up requests: 1 failures: 1
}
