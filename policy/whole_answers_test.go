package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// wholeFleet describes engines and their traffic.
type wholeFleet struct {
	rates                   []float64 // prefill speed of each engine, in tokens per ms
	parallel                bool      // all prompts concurrently, as fake engines do; else one after another
	clients, prompt, output int
	streamed                float64 // share of streamed answers
}

// play has clients send new prompts, each waiting for its whole answer before the next. Engines take 2 ms per answer
// token. It returns the requests per endpoint and the mean time of an answer in ms, both of the second half.
func (w *wholeFleet) play(t testing.TB, name string, seed uint64, requests int) (counts []int, mean float64) {
	t.Helper()
	factory, err := New(Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	r := route.New(route.Config{Policy: factory})
	var declared []fleet.Endpoint
	for i := range w.rates {
		declared = append(declared, fleet.Endpoint{Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1})
	}
	now := time.Unix(1_700_000_000, 0)
	r.Observe(now, route.Declared{Source: "test", Endpoints: declared})
	for _, e := range declared {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}},
		}})
	}
	now = now.Add(time.Minute) // past the ramp
	type asked struct {
		next, end time.Time // time of the next event: its first byte or its end
		took      time.Duration
		lease     fleet.Lease
		tokens    int
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	free := make([]time.Time, len(w.rates)) // when an engine has computed its prompts
	open := make([]asked, w.clients)
	counts = make([]int, len(w.rates))
	for n := 0; n < requests; {
		a := &open[0]
		for i := range open {
			if open[i].next.Before(a.next) {
				a = &open[i]
			}
		}
		if a.lease != 0 {
			now = a.next
			r.Observe(now, route.FirstByte{Lease: a.lease})
			if now.Before(a.end) {
				a.next = a.end
				continue
			}
			r.Observe(now, route.Finished{Lease: a.lease, Outcome: fleet.OK, Usage: fleet.Usage{
				PromptTokens: a.tokens, OutputTokens: w.output, CachedKnown: true,
			}})
			if n > requests/2 {
				mean += float64(a.took.Microseconds()) / 1000 / float64(requests-requests/2)
			}
		}
		stream, tokens := rnd.Float64() < w.streamed, 20+int(float64(w.prompt)*rnd.ExpFloat64())
		d, err := r.Decide(now, &fleet.Request{
			Model: "m", MintedID: fmt.Sprint("c", n), PromptBytes: 4 * tokens, Stream: stream,
		})
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for declared[at].Name != d.Endpoint.Name {
			at++
		}
		if free[at].Before(now) || w.parallel {
			free[at] = now
		}
		free[at] = free[at].Add(time.Duration(float64(tokens) / w.rates[at] * 1e6))
		first := free[at].Add(3 * time.Millisecond)
		end := first.Add(time.Duration(2*w.output) * time.Millisecond)
		*a = asked{next: end, end: end, took: end.Sub(now), lease: d.Lease, tokens: tokens}
		if stream {
			a.next = first
		}
		if n > requests/2 {
			counts[at]++
		}
		n++
	}
	return counts, mean
}

// TestWholeAnswersAreSpread: many concurrent clients and no streams. Earlier, samples of speed from such answers
// counted only if they were good, so that the busiest endpoint looked fastest and got even more: one of equal engines
// got most requests, and a slow one was never noticed. Equal engines may get up to two and a half times as many
// requests as others: what is learnt of each alone differs a little, and the mean time shows what that costs.
func TestWholeAnswersAreSpread(t *testing.T) {
	logs, fleets := 0.0, 0.0
	for _, rates := range [][]float64{{36, 36, 36, 36}, {2, 2, 2, 2}, {12, 12, 12, 4}, {30, 30, 30, 10}} {
		for _, c := range []struct{ clients, prompt, output int }{{8, 300, 10}, {8, 1200, 30}, {24, 300, 10}} {
			for _, parallel := range []bool{false, true} {
				for _, streamed := range []float64{0, 0.2} {
					w := wholeFleet{rates, parallel, c.clients, c.prompt, c.output, streamed}
					mean := map[string]float64{}
					for seed := range uint64(3) {
						for _, name := range []string{"least_tokens", "least_ttft"} {
							counts, ms := w.play(t, name, seed+1, 2000)
							mean[name] += ms / 3
							if least, most := slices.Min(counts[:3]), slices.Max(counts[:3]); name == "least_ttft" &&
								!parallel && 2*most > 5*least {
								t.Errorf("%+v: of those that are equal one got %d and one %d of %v",
									w, most, least, counts)
							}
						}
					}
					times := mean["least_ttft"] / mean["least_tokens"]
					if times > 1.3 {
						t.Errorf("%+v: an answer takes %.1f ms, with least_tokens %.1f",
							w, mean["least_ttft"], mean["least_tokens"])
					}
					logs, fleets = logs+math.Log(times), fleets+1
				}
			}
		}
	}
	if times := math.Exp(logs / fleets); times > 1.02 {
		t.Errorf("over all fleets an answer takes %.3f times as long as with least_tokens", times)
	}
}
