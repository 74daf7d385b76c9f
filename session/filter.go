package session

import "math/bits"

// filter says of most hashes that are not in an lru that they are not, for the price of two looks at small memory: a prompt is
// looked up by hundreds of hashes, of which the map has one. It is two bit sets of a bit for each hash, the newer and the
// older one; when the newer one has as many bits as the lru has room it becomes the older one. So what was used is in one of
// them at least until as many others have been used, which is when the lru forgets it.
type filter struct {
	sets [2][]uint64 // the newer one first; nil before the first hash
	room int
	used int // bits in the newer one
}

func newFilter(room int) filter { return filter{room: room} }

// bitsEach is how many bits there are for each hash: at most a seventh of those that are not there get through.
const bitsEach = 14

// place is where a hash's bit is.
func (f *filter) place(key uint64) (word int, bit uint64) {
	h := key * 0x9e3779b97f4a7c15
	shift := 64 - bits.Len(uint(len(f.sets[0])*64-1))
	at := h >> shift
	return int(at / 64), 1 << (at % 64)
}

func (f *filter) add(key uint64) {
	if f.sets[0] == nil {
		n := 1 << bits.Len(uint(max(f.room, 64)*bitsEach/64))
		f.sets = [2][]uint64{make([]uint64, n), make([]uint64, n)}
	}
	w, b := f.place(key)
	if f.sets[0][w]&b != 0 {
		return
	}
	if f.used >= f.room {
		f.sets[0], f.sets[1] = f.sets[1], f.sets[0]
		clear(f.sets[0])
		f.used = 0
	}
	f.sets[0][w] |= b
	f.used++
}

func (f *filter) has(key uint64) bool {
	if f.sets[0] == nil {
		return false
	}
	w, b := f.place(key)
	return (f.sets[0][w]|f.sets[1][w])&b != 0
}
