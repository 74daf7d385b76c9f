package policy

import (
	"math"

	"github.com/warmpath/warmpath/pick"
)

// order is the rendezvous order of one conversation.
type order struct {
	hash  uint64
	equal bool // all weights are equal
}

// orderFor is the order of the request that a view is of.
func orderFor(v *pick.View) order {
	r := order{hash: mix(v.Hash), equal: true}
	for i := range v.Candidates {
		r.equal = r.equal && v.Candidates[i].Weight == v.Candidates[0].Weight
	}
	return r
}

// place is a candidate's position in an order.
type place struct {
	score float64 // 0 where all weights are equal
	hash  uint64
	key   uint64
}

// of is a candidate's place. Weights enter as -weight/ln(u), u being the hash as a number between 0 and 1, which makes a
// candidate's chance to come first exactly its share of weight (J. Resch, "New Hashing Algorithms for Data Storage",
// 2015). Where all weights are equal that is the order of the hashes themselves, which are compared as integers: it is
// faster, and the same on every machine. The logarithm is pure Go on most architectures and assembly on amd64 and
// s390x, so that two replicas of different architecture may disagree about a pair of unequal weights whose scores
// differ in the last bits: about one conversation in 2^50.
func (r order) of(c *pick.Candidate) place {
	p := place{hash: mix(c.Key ^ r.hash), key: c.Key}
	if !r.equal {
		p.score = score(p.hash, c.Weight)
	}
	return p
}

// before reports whether p comes before o.
func (p place) before(o place) bool {
	if p.score != o.score {
		return p.score > o.score
	}
	if p.hash != o.hash {
		return p.hash > o.hash
	}
	return p.key > o.key
}

// score is -weight/ln(u) for the 52 upper bits of a hash, moved by half a step so that u is neither 0 nor 1. With 53 bits
// the half step would not fit a float64 and the largest hash would become 1.
func score(hash uint64, weight float64) float64 {
	u := (float64(hash>>12) + 0.5) * 0x1p-52
	return -weight / math.Log(u)
}

// mix spreads every bit over all others. It is the finaliser of SplitMix64 (variant 13 of D. Stafford, "Better Bit
// Mixing", 2011).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
