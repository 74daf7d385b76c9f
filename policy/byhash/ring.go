package byhash

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/pick"
)

// Ring is consistent hashing (D. Karger and others, 1997): each endpoint has several places on a circle of hashes, and
// a key belongs to the first place at or after its hash. It is rebuilt when the candidates change. The hash functions
// are our own, so single conversations are placed differently from the originals, but spread equally.
type Ring struct {
	Places int // per endpoint
	keys   []uint64
	points []point
}

type point struct {
	hash  uint64
	index int // of the candidate
}

// Golden is 2^64 divided by the golden ratio, which separates consecutive numbers widely.
const Golden = 0x9e3779b97f4a7c15

// Fit rebuilds the ring for the candidates if they have changed.
func (r *Ring) Fit(cs []pick.Candidate) {
	if r.fits(cs) {
		return
	}
	r.keys, r.points = r.keys[:0], r.points[:0]
	for i := range cs {
		r.keys = append(r.keys, cs[i].Key)
		for n := range uint64(r.Places) {
			r.points = append(r.points, point{Mix(cs[i].Key + (n+1)*Golden), i})
		}
	}
	slices.SortFunc(r.points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(cs[a.index].Key, cs[b.index].Key))
	})
}

func (r *Ring) fits(cs []pick.Candidate) bool {
	if len(r.keys) != len(cs) {
		return false
	}
	for i := range cs {
		if r.keys[i] != cs[i].Key {
			return false
		}
	}
	return true
}

// At is the candidate that a key belongs to, or the next one on the ring if that is skip.
func (r *Ring) At(key uint64, skip int) int {
	hash := Mix(key)
	first, _ := slices.BinarySearchFunc(r.points, hash, func(p point, h uint64) int { return cmp.Compare(p.hash, h) })
	for i := range r.points {
		if p := r.points[(first+i)%len(r.points)]; p.index != skip {
			return p.index
		}
	}
	return skip
}
