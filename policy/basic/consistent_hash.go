// Package basic has the simple policies: round robin, random, by load, by hash, and by session.
//
// Each uses one criterion and has at most one option. All respect weights: loads are compared per weight, and ties are
// drawn in proportion to weight. None considers cached prefixes.
package basic

import (
	"fmt"
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/reasons"
)

// consistentHash is consistent hashing with bounded loads (V. Mirrokni, M. Thorup and M. Zadimoghaddam, arXiv
// 1608.01350): a conversation goes to the first endpoint of its order that has room. An endpoint has room while it
// holds fewer requests than LoadFactor times its fair share, including this request, rounded up. The order is the
// rendezvous order instead of a ring, so that the overflow of one endpoint spreads over all others.
//
// If LoadFactor is at least 1, the shares of all candidates add up to more than the requests, so one of them has room.
type consistentHash struct {
	pick.Plain
	factor float64
}

// NewConsistentHash makes consistent_hash. The configuration must have its defaults.
func NewConsistentHash(c ConsistentHashConfig) pick.Policy {
	return consistentHash{Plain: pick.Plain{Name: "consistent_hash"}, factor: c.LoadFactor}
}

// Pick implements pick.Policy.
func (p consistentHash) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	r := byhash.OrderFor(v)
	bound := p.boundFor(v)
	first, open := pick.None, pick.None
	var best, bestOpen byhash.Place
	for i := range v.Candidates {
		c := &v.Candidates[i]
		here := r.Of(c)
		if first == pick.None || here.Before(best) {
			first, best = i, here
		}
		if (open == pick.None || here.Before(bestOpen)) && bound.room(c) {
			open, bestOpen = i, here
		}
	}
	if open == pick.None || open == first {
		return pick.Choice{Index: first, Reason: reasons.ConsistentHash}
	}
	return pick.Choice{Index: open, Reason: reasons.ConsistentHashOverflow}
}

// A bound is the number of requests that an endpoint may hold per unit of weight, as a fraction so that whole shares
// are exact.
type bound struct{ requests, weight float64 }

func (p consistentHash) boundFor(v *pick.View) bound {
	var b bound
	held := 0
	for i := range v.Candidates {
		held += v.Candidates[i].Load.Requests
		b.weight += v.Candidates[i].Weight
	}
	b.requests = p.factor * float64(held+1)
	return b
}

// most is the largest number of requests a candidate may hold.
func (b bound) most(c *pick.Candidate) float64 { return math.Ceil(b.requests * c.Weight / b.weight) }

func (b bound) room(c *pick.Candidate) bool { return float64(c.Load.Requests+1) <= b.most(c) }

// ConsistentHashConfig are the options of consistent_hash.
type ConsistentHashConfig struct {
	// LoadFactor limits the outstanding requests of an endpoint to this many times its fair share, rounded up. 1
	// spreads requests evenly and moves conversations most; large values approach rendezvous. 0 means 1.25.
	LoadFactor float64 `yaml:"load_factor"`
}

// defaultLoadFactor is the default of LoadFactor.
const defaultLoadFactor = 1.25

// WithDefaults returns c with defaults for options that are not set.
func (c ConsistentHashConfig) WithDefaults() ConsistentHashConfig {
	if c.LoadFactor == 0 {
		c.LoadFactor = defaultLoadFactor
	}
	return c
}

// Validate reports the fault of a configuration that has its defaults.
func (c ConsistentHashConfig) Validate() error {
	if f := c.LoadFactor; !(f >= 1) || math.IsInf(f, 0) {
		return fmt.Errorf(
			"policy: consistent_hash.load_factor is %v, must be 1 or more (0 means %v)",
			f,
			defaultLoadFactor,
		)
	}
	return nil
}
