// Package byhash places a key by hash alone: by rendezvous order or on a ring.
//
// Equal keys and endpoints give equal places on every replica and machine. An endpoint that joins or leaves moves only
// its own keys. Load is ignored.
package byhash

import (
	"math"

	"github.com/warmpath/warmpath/pick"
)

// Order is the rendezvous order for one conversation.
type Order struct {
	hash  uint64
	equal bool // all weights are equal
}

// OrderFor returns the order for a view's request.
func OrderFor(v *pick.View) Order {
	r := Order{hash: Mix(v.Hash), equal: true}
	for i := range v.Candidates {
		r.equal = r.equal && v.Candidates[i].Weight == v.Candidates[0].Weight
	}
	return r
}

// Place is a candidate's position in an order.
type Place struct {
	score float64 // 0 if all weights are equal
	hash  uint64
	key   uint64
}

// Of is a candidate's place. The score is -weight/ln(u), where u is the hash as a number between 0 and 1, so a
// candidate comes first with exactly its share of weight (J. Resch, "New Hashing Algorithms for Data Storage", 2015).
// For equal weights that is the order of the hashes themselves, which are compared as integers: faster, and identical
// on every machine. The logarithm is assembly on amd64 and s390x and pure Go elsewhere, so replicas of different
// architecture may disagree about unequal weights whose scores differ in the last bits: about one conversation in 2^50.
func (r Order) Of(c *pick.Candidate) Place {
	p := Place{hash: Mix(c.Key ^ r.hash), key: c.Key}
	if !r.equal {
		p.score = score(p.hash, c.Weight)
	}
	return p
}

// Before reports whether p comes before o.
func (p Place) Before(o Place) bool {
	if p.score != o.score {
		return p.score > o.score
	}
	if p.hash != o.hash {
		return p.hash > o.hash
	}
	return p.key > o.key
}

// score is -weight/ln(u) for the upper 52 bits of a hash plus half a step, so that u is neither 0 nor 1. With 53 bits
// the half step would not fit a float64, and the largest hash would become 1.
func score(hash uint64, weight float64) float64 {
	u := (float64(hash>>12) + 0.5) * 0x1p-52
	return -weight / math.Log(u)
}

// Mix spreads every bit over all others: the finaliser of SplitMix64 (variant 13 of D. Stafford, "Better Bit Mixing",
// 2011).
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Text is the FNV-1a hash of a text; 0 for an empty one.
func Text(s string) uint64 {
	if s == "" {
		return 0
	}
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}
