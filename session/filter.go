package session

import "math/bits"

// filter says of most hashes that are not in an lru that they are not, for the price of two looks at small memory: a prompt is
// looked up by hundreds of hashes, of which the map has one. It is two bit sets of a bit for each hash, the newer and the
// older one; when the newer one has as many bits as the lru has room it becomes the older one. So what was used is in one of
// them at least until as many others have been used, which is when the lru forgets it.
//
// The two lie side by side, word by word: a look at both is one wait for memory.
type filter struct {
	words [][2]uint64 // none before the first hash
	newer int         // which of the two is
	room  int
	used  int // bits in the newer one
}

func newFilter(room int) filter { return filter{room: room} }

// bitsEach is how many bits there are for each hash: at most a seventh of those that are not there get through.
const bitsEach = 14

// place is where a hash's bit is.
func (f *filter) place(key uint64) (word int, bit uint64) {
	h := key * 0x9e3779b97f4a7c15
	shift := 64 - bits.Len(uint(len(f.words)*64-1))
	at := h >> shift
	return int(at / 64), 1 << (at % 64)
}

func (f *filter) add(key uint64) {
	if f.words == nil {
		f.words = make([][2]uint64, 1<<bits.Len(uint(max(f.room, 64)*bitsEach/64)))
	}
	w, b := f.place(key)
	if f.words[w][f.newer]&b != 0 {
		return
	}
	if f.used >= f.room {
		f.newer ^= 1
		for i := range f.words {
			f.words[i][f.newer] = 0
		}
		f.used = 0
	}
	f.words[w][f.newer] |= b
	f.used++
}

func (f *filter) has(key uint64) bool {
	if f.words == nil {
		return false
	}
	w, b := f.place(key)
	both := &f.words[w]
	return (both[0]|both[1])&b != 0
}
