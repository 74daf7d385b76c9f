// Package policytest makes fleets, views and requests for tests of policies.
//
// It depends on no policy, so that the tests of every policy can import it. Production code does not.
package policytest

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"pgregory.net/rapid"
)

// Candidate is an idle endpoint with a key that is spread like a hash.
func Candidate(slot int, weight float64) pick.Candidate {
	return pick.Candidate{
		Endpoint: pick.Endpoint{
			Name:   "e" + strconv.Itoa(slot),
			Key:    byhash.Mix(uint64(slot) + 1),
			Slot:   slot,
			Weight: weight,
		},
	}
}

// Idle is a fleet of idle endpoints with the given weights.
func Idle(weights ...float64) []pick.Candidate {
	cs := make([]pick.Candidate, len(weights))
	for i, w := range weights {
		cs[i] = Candidate(i, w)
	}
	return cs
}

// Same is n idle endpoints of weight 1.
func Same(n int) []pick.Candidate {
	cs := make([]pick.Candidate, n)
	for i := range cs {
		cs[i] = Candidate(i, 1)
	}
	return cs
}

// Rand is a random generator with a fixed seed.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// Seed gives a view random numbers with a fixed seed.
func Seed(v *pick.View, seed uint64) *pick.View {
	v.Source = rand.NewPCG(seed, 7)
	v.Rand = rand.New(v.Source)
	return v
}

// View is the view of a new conversation's request.
func View(cs []pick.Candidate, seed uint64) *pick.View {
	return Seed(
		&pick.View{Candidates: cs, Home: -1, Parent: -1, FirstTurn: true, Hash: byhash.Mix(seed ^ 0xfeed)},
		seed,
	)
}

// Place is a policy's choice, from which it learns.
func Place(p pick.Policy, v *pick.View, r *fleet.Request) pick.Choice {
	return PlaceBy(pick.Install(p), v, r)
}

// PlaceBy is that of a policy that is installed already.
func PlaceBy(p *pick.Installed, v *pick.View, r *fleet.Request) pick.Choice {
	a := p.Ask(v, r)
	p.Placed(&a, r)
	return a.Choice
}

// Reserve records a pick in the load, as the router does in a decision.
func Reserve(c *pick.Candidate, prefill, decode int64) {
	c.Load.Requests++
	c.Load.PrefillTokens += prefill
	c.Load.DecodeTokens += decode
	c.Load.ContextTokens += prefill + decode
}

// Play makes n picks with distinct seeds and counts them by candidate. With books, each pick is reserved before the
// next.
func Play(p pick.Policy, cs []pick.Candidate, n int, books bool) []int {
	counts := make([]int, len(cs))
	for i := range n {
		at := Place(p, View(cs, uint64(i)), &fleet.Request{}).Index
		counts[at]++
		if books {
			Reserve(&cs[at], 1000, 200)
		}
	}
	return counts
}

// ChiSquare is the chi-square distance of counts from shares in proportion to weight.
func ChiSquare(counts []int, cs []pick.Candidate) float64 {
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

// Fleets generates candidates with any loads. Slots, and so keys, are distinct and unordered.
func Fleets(equalWeights bool) *rapid.Generator[[]pick.Candidate] {
	return rapid.Custom(func(t *rapid.T) []pick.Candidate {
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, 200), 1, 12, rapid.ID[int]).Draw(t, "slots")
		cs := make([]pick.Candidate, len(slots))
		for i, slot := range slots {
			weight := 1.0
			if !equalWeights {
				weight = rapid.SampledFrom([]float64{1, 1, 1, 2, 3, 0.5, 0.1, 0.01, 10, 1000, 1e-9}).Draw(t, "weight")
			}
			cs[i] = Candidate(slot, weight)
			cs[i].Load = fleet.Load{
				Requests:      rapid.IntRange(0, 40).Draw(t, "requests"),
				PrefillTokens: rapid.Int64Range(0, 1_000_000).Draw(t, "prefill"),
				DecodeTokens:  rapid.Int64Range(0, 3).Draw(t, "decode"),
				EngineWaiting: rapid.IntRange(0, 3).Draw(t, "waiting"),
			}
		}
		return cs
	})
}

// Views generates a whole view of such a fleet.
func Views(equalWeights bool) *rapid.Generator[func() *pick.View] {
	return rapid.Custom(func(t *rapid.T) func() *pick.View {
		cs := Fleets(equalWeights).Draw(t, "fleet")
		seed := rapid.Uint64().Draw(t, "seed")
		hash := rapid.Uint64().Draw(t, "hash")
		home := rapid.IntRange(-1, len(cs)-1).Draw(t, "home")
		return func() *pick.View {
			return Seed(&pick.View{Candidates: cs, Home: home, Parent: -1, FirstTurn: home < 0, Hash: hash}, seed)
		}
	})
}

// Asks is the view of a request with a prompt of this many tokens.
func Asks(cs []pick.Candidate, prompt int) *pick.View {
	v := View(cs, 1)
	v.Now, v.PromptTokens = time.Unix(1_000_000, 0), prompt
	return v
}

// Prompt is a request whose prompt consists of whole blocks. Equal leading parts give equal leading blocks.
func Prompt(parts ...int) *fleet.Request {
	c := &fleet.Content{Bytes: len(parts) * fleet.BlockBytes}
	name := uint64(1)
	for _, part := range parts {
		name = byhash.Mix(name*byhash.Golden + uint64(part))
		c.Blocks = append(c.Blocks, name)
	}
	return &fleet.Request{Content: c}
}

// Words is a prompt of shared blocks of a common text, and others of another.
func Words(shared, text, other int) *fleet.Request {
	parts := make([]int, 0, shared+other)
	for range shared {
		parts = append(parts, 1)
	}
	for range other {
		parts = append(parts, text)
	}
	return Prompt(parts...)
}

// Busy is one endpoint per number of outstanding requests.
func Busy(requests ...int) []pick.Candidate {
	cs := Same(len(requests))
	for i, n := range requests {
		cs[i].Load.Requests = n
	}
	return cs
}
