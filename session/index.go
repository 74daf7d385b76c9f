package session

import "math/bits"

// index finds the numbers of entries by hashes of their keys. It holds numbers and no keys: who has the entries compares them, and
// is asked for their hashes when a part grows. An entry takes some 13 bytes of a full one.
//
// It is an open-addressing table of buckets, each one line of a processor's cache, after F14 (Bronson and Shi, Facebook 2019): an
// entry that finds its bucket full goes to the next one that is not, and each bucket counts those that went past it. So nearly
// every search is one wait for memory, whether it finds something or not; a removal is no more, and leaves no tombstone. The
// table is in parts of a bounded size that grow one by one: no insert costs more than laying out one part. Nothing shrinks.
type index struct {
	hashOf func(number int32) uint64
	parts  []part // by the upper bits of the hash
	used   int
}

type part struct {
	buckets []bucket // a power of two, or none
	factor  uint64   // what mixes the hashes; odd
	used    int
	since   int // inserts since the part was laid out
}

// bucket holds numbers, each with a tag: sixteen bits of its mixed hash, by which others are told apart without a look at the
// entry, and 0 for a free place. Four tags are in a word, the first one lowest; above the last two is how many entries went past.
type bucket struct {
	tags    [3]uint64
	numbers [bucketEntries]int32
}

const (
	bucketEntries = 10
	tagBits       = 16
	passed        = uint64(1) << (2 * tagBits) // one entry that went past, in the last word

	// partEntries are in each of the largest parts once the index is full: 1,024 buckets, half full, of which about one in forty was
	// too small. A part grows when it is five eighths full, which is 18 deviations more.
	partEntries = 5000
	firstFactor = 0x9e3779b97f4a7c15

	// longProbe is how many full buckets an entry never goes past by chance: in a part five eighths full the entries of 32 buckets
	// would be 120 more than they are on average, eight deviations. Who chooses keys so that they crowd can do so only for a
	// factor that he knows, and it becomes another each time that a part is laid out, by the hash of whatever comes in just
	// then: he would have to know what all others sent.
	longProbe = 32

	ones  = 0x0001000100010001
	highs = 0x8000800080008000
	lows  = 0x7fff7fff7fff7fff
)

// newIndex makes the index of at most so many entries.
func newIndex(most int, hashOf func(number int32) uint64) index {
	return index{hashOf: hashOf, parts: make([]part, (most+partEntries-1)/partEntries)}
}

func (x *index) part(hash uint64) *part {
	i, _ := bits.Mul64(hash, uint64(len(x.parts)))
	return &x.parts[i]
}

// place is the bucket of a hash, modulo their number, and its tag.
func (p *part) place(hash uint64) (at uint, tag uint64) {
	hi, lo := bits.Mul64(hash, p.factor)
	mixed := hi ^ lo
	return uint(mixed >> 32), max(mixed&(1<<tagBits-1), 1)
}

func (p *part) bucket(at uint) *bucket { return &p.buckets[at&uint(len(p.buckets)-1)] }

// having is the set of the entries with a tag: bit 16i for entry i, 16i+1 for entry 4+i, 16i+2 for entry 8+i.
func (b *bucket) having(tag uint64) uint64 {
	x, y, z := b.tags[0]^tag*ones, b.tags[1]^tag*ones, b.tags[2]^tag*ones
	x, y, z = x&^highs+lows|x, y&^highs+lows|y, z&^highs+lows|z // the high bits of those that are not 0
	return ^x&highs>>15 | ^y&highs>>14 | ^z&(highs>>32)>>13
}

// first is the lowest member of such a set: its number's place, and its tag's word and distance from the lowest bit.
func first(set uint64) (i, word, shift uint) {
	bit := uint(bits.TrailingZeros64(set))
	word, shift = bit%tagBits, bit/tagBits*tagBits
	return word*4 + bit/tagBits, word, shift
}

// find is the number of the entry that is the same as the one looked for, none when there is none. same is asked of those that may be.
func (x *index) find(hash uint64, same func(number int32) bool) int32 {
	p := x.part(hash)
	if len(p.buckets) == 0 {
		return none
	}
	at, tag := p.place(hash)
	if b := p.bucket(at); b.having(tag) == 0 && b.tags[2] < passed {
		return none // as for most of the hashes of a prompt
	}
	return p.findFrom(at, tag, same)
}

func (p *part) findFrom(at uint, tag uint64, same func(number int32) bool) int32 {
	for range p.buckets {
		b := p.bucket(at)
		for set := b.having(tag); set != 0; set &= set - 1 {
			i, _, _ := first(set)
			if n := b.numbers[i]; same(n) {
				return n
			}
		}
		if b.tags[2] < passed {
			break
		}
		at++
	}
	return none
}

// insert enters a number that is not in it. hashOf is asked for its hash too.
func (x *index) insert(hash uint64, number int32) {
	p := x.part(hash)
	if 8*p.used >= 5*bucketEntries*len(p.buckets) {
		x.layOut(p, max(2*len(p.buckets), 1), hash)
	}
	x.used++
	p.used++
	p.since++
	if p.enter(hash, number) > longProbe && p.since > p.used {
		x.layOut(p, len(p.buckets), hash)
	}
}

// enter puts a number into the first bucket with a free place, and reports how many it went past.
func (p *part) enter(hash uint64, number int32) (past int) {
	at, tag := p.place(hash)
	for {
		b := p.bucket(at)
		if free := b.having(0); free != 0 {
			i, word, shift := first(free)
			b.tags[word] |= tag << shift
			b.numbers[i] = number
			return past
		}
		b.tags[2] += passed
		at++
		past++
	}
}

// remove takes out a number that is in it.
func (x *index) remove(hash uint64, number int32) {
	p := x.part(hash)
	x.used--
	p.used--
	at, tag := p.place(hash)
	for range p.buckets {
		b := p.bucket(at)
		for set := b.having(tag); set != 0; set &= set - 1 {
			if i, word, shift := first(set); b.numbers[i] == number {
				b.tags[word] &^= (1<<tagBits - 1) << shift
				return
			}
		}
		b.tags[2] -= passed
		at++
	}
	panic("session: an entry is not in the index under its hash")
}

// layOut gives a part so many buckets and another factor.
func (x *index) layOut(p *part, buckets int, hash uint64) {
	old := p.buckets
	if old == nil {
		p.factor = firstFactor
	}
	p.buckets, p.factor, p.since = make([]bucket, buckets), p.factor*(hash|1), 0
	for i := range old {
		for j, number := range old[i].numbers {
			if old[i].tags[j/4]>>(j%4*tagBits)&(1<<tagBits-1) != 0 {
				p.enter(x.hashOf(number), number)
			}
		}
	}
}
