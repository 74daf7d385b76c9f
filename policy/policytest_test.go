package policy

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// candidate is an idle endpoint. Its key is spread like the hash of a name.
func candidate(slot int, weight float64) pick.Candidate {
	return pick.Candidate{Name: "e" + strconv.Itoa(slot), Key: mix(uint64(slot) + 1), Slot: slot, Weight: weight}
}

// idle is a fleet of idle endpoints with the given weights.
func idle(weights ...float64) []pick.Candidate {
	cs := make([]pick.Candidate, len(weights))
	for i, w := range weights {
		cs[i] = candidate(i, w)
	}
	return cs
}

// same is n idle endpoints of weight 1.
func same(n int) []pick.Candidate {
	cs := make([]pick.Candidate, n)
	for i := range cs {
		cs[i] = candidate(i, 1)
	}
	return cs
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// view is what a request of a new conversation sees.
func view(cs []pick.Candidate, seed uint64) *pick.View {
	return &pick.View{Rand: rng(seed), Candidates: cs, Home: -1, Parent: -1, FirstTurn: true, Hash: mix(seed ^ 0xfeed)}
}

// reserve enters a pick in the books, as the router does within the decision.
func reserve(c *pick.Candidate, prefill, decode int64) {
	c.Load.Requests++
	c.Load.PrefillTokens += prefill
	c.Load.DecodeTokens += decode
	c.Load.ContextTokens += prefill + decode
}

// play makes n picks, each by a request of its own seed, and counts where they went. With books, each pick is entered
// before the next.
func play(p pick.Policy, cs []pick.Candidate, n int, books bool) []int {
	counts := make([]int, len(cs))
	for i := range n {
		at := p.Pick(view(cs, uint64(i)), &fleet.Request{}).Index
		counts[at]++
		if books {
			reserve(&cs[at], 1000, 200)
		}
	}
	return counts
}

// chiSquare is the distance of counts from shares in proportion to weight.
func chiSquare(counts []int, cs []pick.Candidate) float64 {
	n, total := 0, 0.0
	for i := range cs {
		n += counts[i]
		total += cs[i].Weight
	}
	sum := 0.0
	for i := range cs {
		want := float64(n) * cs[i].Weight / total
		d := float64(counts[i]) - want
		sum += d * d / want
	}
	return sum
}

// fleets generates candidates in any state of load. Slots, and so keys, are distinct and in no order.
func fleets(equalWeights bool) *rapid.Generator[[]pick.Candidate] {
	return rapid.Custom(func(t *rapid.T) []pick.Candidate {
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, 200), 1, 12, rapid.ID[int]).Draw(t, "slots")
		cs := make([]pick.Candidate, len(slots))
		for i, slot := range slots {
			weight := 1.0
			if !equalWeights {
				weight = rapid.SampledFrom([]float64{1, 1, 1, 2, 3, 0.5, 0.1, 0.01, 10, 1000, 1e-9}).Draw(t, "weight")
			}
			cs[i] = candidate(slot, weight)
			cs[i].Load = fleet.Load{
				Requests:      rapid.IntRange(0, 40).Draw(t, "requests"),
				PrefillTokens: rapid.Int64Range(0, 1_000_000).Draw(t, "prefill"),
				DecodeTokens:  rapid.Int64Range(0, 3).Draw(t, "decode"),
				Waiting:       rapid.IntRange(0, 3).Draw(t, "waiting"),
			}
		}
		return cs
	})
}

// views generates a whole view over such a fleet.
func views(equalWeights bool) *rapid.Generator[func() *pick.View] {
	return rapid.Custom(func(t *rapid.T) func() *pick.View {
		cs := fleets(equalWeights).Draw(t, "fleet")
		seed := rapid.Uint64().Draw(t, "seed")
		hash := rapid.Uint64().Draw(t, "hash")
		home := rapid.IntRange(-1, len(cs)-1).Draw(t, "home")
		return func() *pick.View {
			return &pick.View{Rand: rng(seed), Candidates: cs, Home: home, Parent: -1, FirstTurn: home < 0, Hash: hash}
		}
	})
}

// asks is what a request with a prompt of so many tokens sees.
func asks(cs []pick.Candidate, prompt int) *pick.View {
	v := view(cs, 1)
	v.Now, v.PromptTokens = time.Unix(1_000_000, 0), prompt
	return v
}

// prompt is a request whose prompt consists of whole blocks. Prompts that begin with the same parts have the same beginning.
func prompt(parts ...int) *fleet.Request {
	c := &fleet.Content{Bytes: len(parts) * fleet.BlockBytes}
	name := uint64(1)
	for _, part := range parts {
		name = mix(name*golden + uint64(part))
		c.Blocks = append(c.Blocks, name)
	}
	return &fleet.Request{Content: c}
}

// words is a prompt of shared blocks from one text, and others from another.
func words(shared, text, other int) *fleet.Request {
	parts := make([]int, 0, shared+other)
	for range shared {
		parts = append(parts, 1)
	}
	for range other {
		parts = append(parts, text)
	}
	return prompt(parts...)
}

// busy is as many endpoints as figures, each with so many requests outstanding.
func busy(requests ...int) []pick.Candidate {
	cs := same(len(requests))
	for i, n := range requests {
		cs[i].Load.Requests = n
	}
	return cs
}
