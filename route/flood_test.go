package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
)

// BenchmarkUnanswered places n requests at one endpoint, of which none is answered, and ends them all, as clients do
// that leave an engine that hangs. Its figures are for one request.
func BenchmarkUnanswered(b *testing.B) {
	for _, c := range []struct {
		name    string
		streams func(i int) bool
	}{
		{"streams", func(int) bool { return true }},
		{"wholes", func(int) bool { return false }},
		{"both", func(i int) bool { return i%2 == 0 }},
	} {
		for _, n := range []int{1000, 10_000, 30_000} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				var placing, ending time.Duration
				for b.Loop() {
					place, end := unanswered(n, c.streams)
					placing, ending = placing+place, ending+end
				}
				b.ReportMetric(float64(placing.Nanoseconds())/float64(n*b.N), "ns/placed")
				b.ReportMetric(float64(ending.Nanoseconds())/float64(n*b.N), "ns/ended")
			})
		}
	}
}

func unanswered(n int, streams func(i int) bool) (placing, ending time.Duration) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{
		Policy: func() pick.Policy { return leastttft.New(leastttft.Config{}.WithDefaults()) },
	})
	r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}}})
	r.Observe(now, route.Probed{Endpoint: "e", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	open := make([]fleet.Lease, n)
	began := time.Now()
	for i := range open {
		now = now.Add(time.Millisecond)
		text := fleet.Content{Bytes: talkBlocks * fleet.BlockBytes}
		for k := range uint64(talkBlocks) {
			if k > talkBlocks/2 {
				k += uint64(i+1) << 20
			}
			text.Blocks = append(text.Blocks, k*0x9e3779b97f4a7c15)
		}
		p, err := r.Decide(now, &fleet.Request{
			ID: "r", Model: "m", Stream: streams(i), Seed: uint64(i), PromptBytes: text.Bytes, Content: &text,
		})
		if err != nil {
			panic(err)
		}
		open[i] = p.Lease
	}
	placing = time.Since(began)
	began = time.Now()
	for _, l := range open {
		r.Observe(now, route.Finished{Lease: l, Outcome: fleet.Abandoned})
	}
	return placing, time.Since(began)
}
