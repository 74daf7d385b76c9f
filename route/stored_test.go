package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// TestStoredResponses: a turn that goes on from a stored response says its own part alone. The engine puts that
// response's prompt and text before it, which are expected in its cache, also where the conversation has gone on from
// it before. What engines count for such prompts says nothing of how many tokens a text has.
func TestStoredResponses(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy { return leastttft.New(leastttft.Config{}) }})
	now := time.Unix(1000, 0)
	r.Observe(now, route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
	}})
	for _, name := range []string{"a", "b"} {
		r.Observe(now, route.Probed{Endpoint: name, Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m"}}, BlockTokens: 16, Kind: fleet.KindVLLM,
		}})
	}
	const said, answered = 1000, 200 // tokens of a turn's own part and of its answer
	held := map[string]int{}         // tokens of each response, with its prompt
	names, home := uint64(0), ""
	turn := func(from, response string) {
		t.Helper()
		blocks := make([]uint64, 4*said/fleet.BlockBytes)
		for i := range blocks {
			names++
			blocks[i] = names * 0x9e3779b97f4a7c15
		}
		d, err := r.Decide(now, &fleet.Request{
			Model: "m", Follows: from, MintedID: "minted " + response, PromptBytes: 4 * said, Seed: names,
			Content: &fleet.Content{Blocks: blocks, Bytes: 4 * said},
		})
		if err != nil {
			t.Fatal(err)
		}
		whole := held[from] + said
		if off := d.PromptTokens - whole; off < -10 || off > 10 {
			t.Errorf("%s from %q: %d tokens, want %d", response, from, d.PromptTokens, whole)
		}
		if miss := held[from] - d.CachedTokens; miss < 0 || miss > 32 {
			t.Errorf("%s from %q: %d tokens cached, want %d", response, from, d.CachedTokens, held[from])
		}
		if from != "" && d.Endpoint.Name != home {
			t.Errorf("%s from %q is at %s, which does not hold it", response, from, d.Endpoint.Name)
		}
		home, now = d.Endpoint.Name, now.Add(time.Second)
		r.Observe(now, route.FirstByte{Lease: d.Lease})
		r.Observe(now, route.ResponseStarted{Lease: d.Lease, Response: response})
		r.Observe(now, route.Finished{Lease: d.Lease, Response: response, Usage: fleet.Usage{
			PromptTokens: whole, CachedTokens: held[from] / 16 * 16, CachedKnown: true, OutputTokens: answered,
		}})
		held[response] = whole + answered
		now = now.Add(time.Second)
	}
	turn("", "1")
	turn("1", "2")
	turn("2", "3")
	turn("3", "4")
	turn("1", "1b") // it is asked anew
	turn("1b", "1c")
	turn("4", "5")
	turn("", "other")
}
