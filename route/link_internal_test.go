package route

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// carrier is the real link to the one decoder: ms per token of a lone transfer. Concurrent ones share it.
type carrier struct{ perToken, fixed float64 }

// ends is when each of several transfers that begin together ends, in ms.
func (c carrier) ends(tokens []int) []float64 {
	ends := make([]float64, len(tokens))
	for i, x := range tokens {
		moved := 0
		for _, y := range tokens {
			moved += min(x, y) // each has an equal part until it ends
		}
		ends[i] = c.fixed + c.perToken*float64(moved)
	}
	return ends
}

// linked is a router before a prefiller and a decoder.
func linked(now time.Time) *Router {
	r := New(Config{
		Policy: func() pick.Policy { return firstOf{} }, Disaggregation: Disaggregation{When: fleet.WhenAlways},
	})
	r.Observe(now, Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "p", URL: "http://p", Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: "http://d", Weight: 1, Role: fleet.RoleDecode},
	}})
	for _, name := range []string{"p", "d"} {
		r.Observe(now, Probed{Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	return r
}

// TestTransfersShareALink: the duration of concurrent transfers is predicted, and that of lone ones.
func TestTransfersShareALink(t *testing.T) {
	for _, real := range []carrier{{0.1, 12}, {0.002, 15}, {0.5, 5}} {
		r, now, rng, asked := linked(time.Unix(1000, 0)), time.Unix(1000, 0), rand.New(rand.NewPCG(1, 2)), 0
		together := func(tokens []int) (foreseen []float64) {
			t.Helper()
			plans := make([]Plan, len(tokens))
			for i, x := range tokens {
				asked++
				plan, err := r.Decide(now, &fleet.Request{
					Model: "m", PromptTokens: x, Stream: true, Splits: true, MintedID: strconv.Itoa(asked),
				})
				if err != nil {
					t.Fatal(err)
				}
				plans[i], foreseen = plan.Plan, append(foreseen, plan.TTFTMs-plan.Prefill.TTFTMs)
			}
			now = now.Add(600 * time.Millisecond)
			for i := range plans {
				r.Observe(now, FirstByte{Lease: plans[i].Prefill.Lease})
				r.Observe(now, Transferring{Lease: plans[i].Lease})
				r.Observe(now, Finished{Lease: plans[i].Prefill.Lease})
			}
			ends, began := real.ends(tokens), now
			order := make([]int, len(tokens))
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, ends[a]-ends[b])) })
			for _, i := range order {
				now = began.Add(time.Duration(ends[i] * 1e6))
				r.Observe(now, FirstByte{Lease: plans[i].Lease})
				r.Observe(now, Finished{Lease: plans[i].Lease})
			}
			now = now.Add(time.Second)
			return foreseen
		}
		for range 60 {
			tokens := make([]int, 1+rng.IntN(6))
			for i := range tokens {
				tokens[i] = 200 + rng.IntN(4000)
			}
			together(tokens)
		}
		for _, tokens := range [][]int{{2000}, {1000, 3000, 3000, 3000}, {500, 500, 500, 4000}} {
			got, want := together(tokens)[len(tokens)-1], real.ends(tokens)[len(tokens)-1]
			if math.Abs(got-want) > 0.25*want {
				t.Errorf("%+v: the last of %v is thought to take %.0f ms, it takes %.0f", real, tokens, got, want)
			}
		}
		if err := r.Idle(); err != nil {
			t.Errorf("%+v: %v", real, err)
		}
	}
}
