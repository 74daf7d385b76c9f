package route_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestLittleIsKnown: a first answer that is late by seconds, as that of an engine that has just started may be, does
// not make an endpoint look twice as slow as others, and one that is three times as slow is told from its first
// answers.
func TestLittleIsKnown(t *testing.T) {
	for _, tt := range []struct {
		tokens, rounds int
		rate           float64       // of the last endpoint, in tokens/s; the others have 9,000
		late           time.Duration // delay of its first answer
		close          bool
	}{
		{24, 1, 9_000, 0, true},
		{24, 1, 9_000, 2 * time.Second, true},
		{24, 20, 9_000, 2 * time.Second, true},
		{24, 200, 9_000, 2 * time.Second, true},
		{2_000, 20, 9_000, 0, true},
		{2_000, 1, 3_000, 0, false},
		{2_000, 20, 3_000, 0, false},
		{400, 10, 3_000, 0, false},
		{100, 80, 3_000, 0, false},
	} {
		t.Run(fmt.Sprintf("%d tokens, %d times, %v a second, %v late", tt.tokens,
			tt.rounds, tt.rate, tt.late), func(t *testing.T) {
			a := &all{}
			r, now := route.New(route.Config{Policy: func() pick.Policy { return a }}), time.Unix(1_000_000, 0)
			names := []string{"a", "b", "c", "last"}
			var declared []fleet.Endpoint
			for _, name := range names {
				declared = append(declared, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
			}
			r.Observe(now, route.Declared{Source: "test", Endpoints: declared})
			for _, name := range names {
				r.Observe(now, route.Probed{
					Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
				})
			}
			first := true
			for i := range tt.rounds*len(names) + 1 {
				d, err := r.Decide(now, &fleet.Request{
					Model: "m", Session: strconv.Itoa(i), PromptTokens: tt.tokens, Stream: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				rate, jitter := 9_000.0, time.Duration(i*7919%5)*time.Millisecond
				if d.Endpoint.Name == "last" {
					rate = tt.rate
					if first {
						jitter += tt.late
					}
					first = false
				}
				now = now.Add(8*time.Millisecond + jitter + time.Duration(float64(tt.tokens)/rate*1e9))
				r.Observe(now, route.FirstByte{Lease: d.Lease})
				now = now.Add(time.Second)
				r.Observe(now, route.Finished{
					Lease: d.Lease, Usage: fleet.Usage{PromptTokens: tt.tokens, OutputTokens: 10, CachedKnown: true},
				})
			}
			quick, last := a.seen[0].MsPerToken, a.seen[3].MsPerToken
			if tt.close && (last > quick*1.9 || last < quick*0.9) || !tt.close && last < quick*1.9 {
				t.Errorf("%.3f ms a token, of the others %.3f; close: %v", last, quick, tt.close)
			}
		})
	}
}
