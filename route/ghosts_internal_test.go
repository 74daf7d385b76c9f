package route

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/blocks"
)

// missing is a policy that sends each request to the next endpoint and looks at what is said to be missed.
type missing struct {
	next   int
	missed float64
}

func (m *missing) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	m.missed = v.Missed
	m.next++
	return pick.Choice{Index: m.next % len(v.Candidates), Reason: "test"}
}

// TestSharedTextsAreMissed: what new conversations begin with and what was pushed out of every cache is missed, as what a conversation's later
// turn does not find; what nobody asks for again is not.
func TestSharedTextsAreMissed(t *testing.T) {
	for _, tt := range []struct {
		name        string
		texts       uint64 // that conversations begin with, of 6,400 tokens each; caches hold three
		least, most float64
	}{
		{"texts that fit", 3, 0, 0.05},
		{"more than fit", 20, 0.8, 1},
		{"always another", 1 << 40, 0, 0.05},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, now := &missing{}, time.Unix(1_000_000, 0)
			r := New(Config{Policy: func() pick.Policy { return p }})
			r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}, {Name: "b", URL: "http://b", Weight: 1}}})
			for _, n := range []string{"a", "b"} {
				r.Observe(now, Probed{Endpoint: n, Report: fleet.Report{Healthy: true, CacheTokens: 24_000, Models: []fleet.Model{{ID: "m"}}}})
			}
			for i := range uint64(400) {
				c := &fleet.Content{}
				name := blocks.Scramble(i % tt.texts)
				for range 200 {
					name = blocks.Scramble(name)
					c.Blocks = append(c.Blocks, name)
				}
				c.Blocks = append(c.Blocks, blocks.Scramble(i+1<<50))
				c.Bytes = len(c.Blocks) * fleet.BlockBytes
				d, err := r.Decide(now, &fleet.Request{Model: "m", PromptBytes: c.Bytes, Content: c, Stream: true, MintedID: strconv.FormatUint(i, 10)})
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Second)
				r.Observe(now, FirstByte{Lease: d.Lease})
				r.Observe(now, Finished{Lease: d.Lease})
			}
			if got := p.missed; got < tt.least || got > tt.most {
				t.Errorf("the share of what is pushed out that is asked for again is thought to be %.2f, want %v to %v", got, tt.least, tt.most)
			}
		})
	}
}
