package session

import "math/bits"

// index maps hashes of keys to entry numbers. It stores no keys: the owner of the entries compares them, and supplies
// their hashes when a part grows. A full index takes about 13 bytes per entry.
//
// It is an open-addressing table of buckets of one cache line each, after F14 (Bronson and Shi, Facebook 2019): an
// entry whose bucket is full goes to the next bucket with room, and each bucket counts the entries that passed it. So
// nearly every search costs one memory access, hit or miss, and a removal leaves no tombstone. The table consists of
// parts that split when they are full (extendible hashing, Fagin et al., ACM TODS 1979), however many entries there
// will be: no insert costs more than rebuilding one part of mostBuckets. It never shrinks.
type index struct {
	hashOf func(number int32) uint64
	// by the upper bits of the hash, which are as many as the logarithm of the length; some have several places
	parts []*part
	shift uint // of a hash, to its place in parts
	used  int
}

type part struct {
	buckets []bucket // a power of two, or none
	factor  uint64   // odd multiplier that mixes the hashes
	used    int
	since   int // inserts since the part was rebuilt
	depth   uint
}

// bucket holds entry numbers, each with a tag of 16 bits of its mixed hash, 0 for a free place. Tags avoid most
// comparisons. Each word holds four tags, the first lowest; the upper half of the last word counts the entries that
// passed the bucket.
type bucket struct {
	tags    [3]uint64
	numbers [bucketEntries]int32
}

const (
	bucketEntries = 10
	tagBits       = 16
	passed        = uint64(1) << (2 * tagBits) // one passing entry, in the last word

	// mostBuckets is the size of a part at which it splits instead of growing, when it is five eighths full: 1,600
	// entries, which take about 100 µs to place anew. Parts are 43 % full on average.
	mostBuckets = 256
	firstFactor = 0x9e3779b97f4a7c15

	// mostPlaces bounds the places for each full part: hashes that are equal in their upper bits by intent do not
	// split.
	mostPlaces = 16

	// longProbe is a number of full buckets that no entry passes by chance: 32 buckets of a part five eighths full
	// would hold 120 entries more than average, eight standard deviations. An attacker who crowds keys must know the
	// factor, and every rebuild chooses another one from the hash of whatever entry comes next.
	longProbe = 32

	ones  = 0x0001000100010001
	highs = 0x8000800080008000
	lows  = 0x7fff7fff7fff7fff
)

const hashBits = 64

// newIndex returns an empty index.
func newIndex(hashOf func(number int32) uint64) index {
	return index{hashOf: hashOf, parts: []*part{{}}, shift: hashBits}
}

func (x *index) part(hash uint64) *part { return x.parts[hash>>x.shift] }

// place is a hash's bucket (modulo their number) and tag.
func (p *part) place(hash uint64) (at uint, tag uint64) {
	hi, lo := bits.Mul64(hash, p.factor)
	mixed := hi ^ lo
	return uint(mixed >> 32), max(mixed&(1<<tagBits-1), 1)
}

func (p *part) bucket(at uint) *bucket { return &p.buckets[at&uint(len(p.buckets)-1)] }

// having is the set of entries with a tag: bit 16i for entry i, 16i+1 for entry 4+i, 16i+2 for entry 8+i.
func (b *bucket) having(tag uint64) uint64 {
	x, y, z := b.tags[0]^tag*ones, b.tags[1]^tag*ones, b.tags[2]^tag*ones
	x, y, z = x&^highs+lows|x, y&^highs+lows|y, z&^highs+lows|z // the high bits of those that are not 0
	return ^x&highs>>15 | ^y&highs>>14 | ^z&(highs>>32)>>13
}

// first is the lowest member of such a set: its number's place, the word of its tag, and the tag's shift.
func first(set uint64) (i, word, shift uint) {
	bit := uint(bits.TrailingZeros64(set))
	word, shift = bit%tagBits, bit/tagBits*tagBits
	return word*4 + bit/tagBits, word, shift
}

// find returns the number of the entry for which same is true, or none. same is called for entries with an equal tag.
func (x *index) find(hash uint64, same func(number int32) bool) int32 {
	p := x.part(hash)
	if len(p.buckets) == 0 {
		return none
	}
	at, tag := p.place(hash)
	if b := p.bucket(at); b.having(tag) == 0 && b.tags[2] < passed {
		return none // the case for most hashes of a prompt
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

// insert adds a number that the index does not hold. A rebuild calls hashOf for it too.
func (x *index) insert(hash uint64, number int32) {
	p := x.part(hash)
	if 8*p.used >= 5*bucketEntries*len(p.buckets) {
		if len(p.buckets) >= mostBuckets && x.maySplit(p) {
			x.split(p, hash)
			p = x.part(hash)
		} else {
			x.layOut(p, max(2*len(p.buckets), 1), hash)
		}
	}
	x.used++
	p.used++
	p.since++
	if p.enter(hash, number) > longProbe && p.since > p.used {
		x.layOut(p, len(p.buckets), hash)
	}
}

// enter puts a number into the first bucket with room and returns how many it passed.
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

// remove removes a number that the index holds.
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

// maySplit reports whether a full part may split.
func (x *index) maySplit(p *part) bool {
	return p.depth < hashBits-x.shift || len(x.parts) <= mostPlaces*(1+x.used/(mostBuckets*bucketEntries))
}

// split moves those of a part's entries to a new part whose next bit of the hash is set.
func (x *index) split(p *part, hash uint64) {
	if p.depth == hashBits-x.shift {
		parts := make([]*part, 0, 2*len(x.parts))
		for _, q := range x.parts {
			parts = append(parts, q, q)
		}
		x.parts, x.shift = parts, x.shift-1
	}
	p.depth++
	q := &part{depth: p.depth}
	places := 1 << (hashBits - x.shift - p.depth)         // of each of the two
	first := int(hash>>(hashBits+1-p.depth)) * 2 * places // of both
	for i := range places {
		x.parts[first+places+i] = q
	}
	old := p.buckets
	p.factor, p.since, p.used = p.factor*(hash|1), 0, 0
	q.factor = p.factor
	p.buckets, q.buckets = make([]bucket, len(old)), make([]bucket, len(old))
	for i := range old {
		for j, number := range old[i].numbers {
			if old[i].tags[j/4]>>(j%4*tagBits)&(1<<tagBits-1) != 0 {
				h := x.hashOf(number)
				to := x.part(h)
				to.used++
				to.enter(h, number)
			}
		}
	}
}

// layOut rebuilds a part with this many buckets and another factor.
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
