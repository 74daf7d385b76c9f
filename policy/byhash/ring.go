package byhash

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/pick"
)

// Ring is consistent hashing (D. Karger and others, 1997): each endpoint has so many places on a circle of hashes, and a key
// belongs to the first place at or after its own hash. It is made anew when the candidates change. The hashes are our own,
// so that conversations fall elsewhere than with the originals, and spread as well.
type Ring struct {
	Places int // for each endpoint
	keys   []uint64
	points []point
}

type point struct {
	hash  uint64
	index int // of the candidate
}

// golden is 2^64 divided by the golden ratio, which sets consecutive numbers far apart.
const Golden = 0x9e3779b97f4a7c15

// Fit makes the ring that of the candidates.
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

// At is the candidate that a key belongs to, the next one on the ring when that is the one to skip.
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
