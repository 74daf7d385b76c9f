package policy

import (
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// ReasonRendezvous says that the endpoint came first in the conversation's rendezvous order.
const ReasonRendezvous pick.Reason = "rendezvous"

// rendezvous places a conversation at the endpoint with the highest score, a hash of both together (D. Thaler and C.
// Ravishankar, 1998). Every replica computes the same place without a word between them, and an endpoint that comes or
// goes moves only the conversations it gains or loses. Load plays no part.
type rendezvous struct{}

func newRendezvous(Config) pick.Policy { return rendezvous{} }

// Pick implements route.Policy.
func (rendezvous) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	r := rankFor(v)
	top, best := 0, r.of(&v.Candidates[0])
	for i := 1; i < len(v.Candidates); i++ {
		if p := r.of(&v.Candidates[i]); p.before(best) {
			top, best = i, p
		}
	}
	return pick.Choice{Index: top, Reason: ReasonRendezvous}
}

// A rank is the rendezvous order of one conversation.
type rank struct {
	hash  uint64
	equal bool // all weights are equal
}

func rankFor(v *pick.View) rank {
	r := rank{hash: mix(v.Hash), equal: true}
	for i := range v.Candidates {
		r.equal = r.equal && v.Candidates[i].Weight == v.Candidates[0].Weight
	}
	return r
}

// A place is where a candidate stands in the order.
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
func (r rank) of(c *pick.Candidate) place {
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
