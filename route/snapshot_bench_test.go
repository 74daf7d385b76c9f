package route_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// BenchmarkSnapshot measures the time of one piece, which blocks all requests: median and 99th percentile, with 100,000
// conversations at 8 endpoints.
func BenchmarkSnapshot(b *testing.B) {
	p, err := policy.New(policy.Config{})
	if err != nil {
		b.Fatal(err)
	}
	r := route.New(route.Config{Policy: p, Sessions: session.Config{Max: 100_000}})
	now := time.Unix(1_700_000_000, 0)
	var all []fleet.Endpoint
	for i := range 8 {
		all = append(all, fleet.Endpoint{Name: fmt.Sprint("engine-", i), URL: fmt.Sprint("http://", i), Weight: 1})
	}
	r.Observe(now, route.Declared{Source: "static", Endpoints: all})
	for i := range 100_000 {
		now = now.Add(10 * time.Millisecond)
		blocks := make([]uint64, 64)
		for j := range blocks {
			blocks[j] = uint64(i)<<32 | uint64(j) + 1
		}
		plan, err := r.Decide(now, &fleet.Request{
			Seed: uint64(i) + 1, Class: fleet.Turn, Model: "m", MintedID: fmt.Sprint("minted-", i), PromptBytes: 8192,
			Stream: true, Content: &fleet.Content{Blocks: blocks, Bytes: 8192},
			Trail: &session.Trail{Whole: uint64(2*i + 1), Strict: uint64(2*i + 2)},
		})
		if err != nil {
			b.Fatal(err)
		}
		r.Observe(now, route.FirstByte{Lease: plan.Lease})
		r.Observe(now, route.Finished{Lease: plan.Lease, Usage: fleet.Usage{PromptTokens: 2000, OutputTokens: 10}})
	}
	var took []time.Duration
	for b.Loop() {
		r.Rewind()
		for more := true; more; {
			begin := time.Now()
			_, more = r.Snapshot(now)
			took = append(took, time.Since(begin))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
