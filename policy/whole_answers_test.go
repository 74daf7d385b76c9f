package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
)

// wholeFleet plays clients that do not stream: each asks, waits for the whole answer and asks again, always anew. Engines compute prompts one
// after the other at so many tokens a millisecond and answer all at once, 2 ms a token. It returns where the requests went and
// the mean time of an answer in ms, both of the second half.
func wholeFleet(t testing.TB, name string, seed uint64, rates []float64, clients, prompt, output, requests int) (counts []int, mean float64) {
	t.Helper()
	factory, err := New(Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	r := route.New(route.Config{Policy: factory, PolicyName: name})
	var declared []route.Endpoint
	for i := range rates {
		declared = append(declared, route.Endpoint{Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1})
	}
	now := time.Unix(1_700_000_000, 0)
	r.Observe(now, route.Declared{Source: "test", Endpoints: declared})
	for _, e := range declared {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: route.Report{Healthy: true, Kind: route.KindVLLM, Models: []route.Model{{ID: "m"}}}})
	}
	now = now.Add(time.Minute) // no longer new
	type asked struct {
		end    time.Time
		took   time.Duration
		lease  route.Lease
		tokens int
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	free := make([]time.Time, len(rates)) // when an engine has computed what it has of prompts
	open := make([]asked, clients)
	counts = make([]int, len(rates))
	for n := range requests {
		next := 0
		for i := range open {
			if open[i].end.Before(open[next].end) {
				next = i
			}
		}
		if a := &open[next]; a.lease != 0 {
			now = a.end
			r.Observe(now, route.FirstByte{Lease: a.lease})
			r.Observe(now, route.Finished{Lease: a.lease, Outcome: route.OK, Usage: route.Usage{PromptTokens: a.tokens, OutputTokens: output, CachedKnown: true}})
			if n > requests/2 {
				mean += float64(a.took.Microseconds()) / 1000 / float64(requests-requests/2)
			}
		}
		tokens := 20 + int(float64(prompt)*rnd.ExpFloat64())
		d, err := r.Route(now, &route.Request{Model: "m", MintedID: fmt.Sprint("c", n), PromptBytes: 4 * tokens})
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for declared[at].Name != d.Endpoint.Name {
			at++
		}
		if free[at].Before(now) {
			free[at] = now
		}
		free[at] = free[at].Add(time.Duration(float64(tokens) / rates[at] * 1e6))
		end := free[at].Add(3*time.Millisecond + time.Duration(2*output)*time.Millisecond)
		open[next] = asked{end: end, took: end.Sub(now), lease: d.Lease, tokens: tokens}
		if n > requests/2 {
			counts[at]++
		}
	}
	return counts, mean
}

// TestWholeAnswersAreSpread: nobody streams, and many ask at once. What such answers tell of an endpoint's speed was believed only when it was
// good, so that who had been asked most was thought quickest and asked still more: of equal engines one got most, and a slow
// one was never noticed.
func TestWholeAnswersAreSpread(t *testing.T) {
	for _, rates := range [][]float64{{36, 36, 36, 36}, {2, 2, 2, 2}, {12, 12, 12, 4}, {30, 30, 30, 10}} {
		for _, c := range []struct{ clients, prompt, output int }{{8, 300, 10}, {8, 1200, 30}, {24, 300, 10}} {
			mean := map[string]float64{}
			for seed := range uint64(3) {
				for _, name := range []string{"least_tokens", "least_ttft"} {
					counts, ms := wholeFleet(t, name, seed+1, rates, c.clients, c.prompt, c.output, 2000)
					mean[name] += ms / 3
					if least, most := slices.Min(counts[:3]), slices.Max(counts[:3]); name == "least_ttft" && most > 2*least {
						t.Errorf("engines of %v, %+v: of those that are equal one got %d and one %d of %v", rates, c, most, least, counts)
					}
				}
			}
			if mean["least_ttft"] > 1.15*mean["least_tokens"] {
				t.Errorf("engines of %v, %+v: an answer takes %.1f ms, with least_tokens %.1f", rates, c, mean["least_ttft"], mean["least_tokens"])
			}
		}
	}
}
