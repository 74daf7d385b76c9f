package prefix

// segments is the number of parts of the table. Each grows separately, so that no operation rebuilds all.
const segments = 256

// firstSegment is the initial size of a segment, in entries.
const firstSegment = 16

// warmLen is the number of entries to prefetch.
const warmLen = 32

// table maps a block's hash to its address: open addressing with linear probing, at most three quarters full, one word
// per entry. The word is 32 bits of the scattered hash and the address; the rest of the hash is stored at the address.
type table struct {
	parts  [segments]segment
	warmth uint64 // meaningless, see warm
}

type segment struct {
	entries []uint64 // length is a power of two, or 0
	count   int
}

// scatter spreads hashes that are not random (tests, foreign hashes): Fibonacci hashing. The top eight bits choose the
// segment, the next 32 are the tag, whose low bits are the start of probing.
func scatter(hash uint64) uint64 { return hash * 0x9e3779b97f4a7c15 }

func tagOf(scattered uint64) uint32 { return uint32(scattered >> 24) }

// find returns the address of a block, 0 if no slot holds it.
func (x *Index) find(hash uint64) uint32 {
	m := scatter(hash)
	s := &x.table.parts[m>>56]
	mask := uint32(len(s.entries) - 1)
	if len(s.entries) == 0 {
		return 0
	}
	tag := tagOf(m)
	for i := tag & mask; ; i = (i + 1) & mask {
		e := s.entries[i]
		if e == 0 {
			return 0
		}
		if uint32(e>>32) == tag && x.hashAt(uint32(e)) == hash {
			return uint32(e)
		}
	}
}

// warm reads the entries of some hashes, so that the memory accesses overlap instead of waiting for each other.
func (t *table) warm(hashes []uint64) {
	var w uint64
	for _, h := range hashes {
		m := scatter(h)
		if e := t.parts[m>>56].entries; len(e) > 0 {
			w ^= e[tagOf(m)&uint32(len(e)-1)]
		}
	}
	t.warmth = w // keeps the compiler from removing the reads
}

// add adds a block at an address; it returns false if the hash exists.
func (x *Index) add(hash uint64, address uint32) bool {
	m := scatter(hash)
	s := &x.table.parts[m>>56]
	if s.count >= len(s.entries)*3/4 {
		s.grow()
	}
	mask := uint32(len(s.entries) - 1)
	tag := tagOf(m)
	for i := tag & mask; ; i = (i + 1) & mask {
		e := s.entries[i]
		if e == 0 {
			s.entries[i] = uint64(tag)<<32 | uint64(address)
			s.count++
			return true
		}
		if uint32(e>>32) == tag && x.hashAt(uint32(e)) == hash {
			return false
		}
	}
}

// move changes the address of a block in the table.
func (t *table) move(hash uint64, from, to uint32) {
	s, i := t.place(hash, from)
	s.entries[i] = s.entries[i]>>32<<32 | uint64(to)
}

// remove removes a block of the table and closes the gap, so that no probe stops short.
func (t *table) remove(hash uint64, address uint32) {
	s, i := t.place(hash, address)
	mask := uint32(len(s.entries) - 1)
	for j := (i + 1) & mask; s.entries[j] != 0; j = (j + 1) & mask {
		home := uint32(s.entries[j]>>32) & mask
		if (j-home)&mask >= (j-i)&mask {
			s.entries[i] = s.entries[j]
			i = j
		}
	}
	s.entries[i] = 0
	s.count--
}

// place is the entry of an address. An address has one entry, so the hash need not be compared.
func (t *table) place(hash uint64, address uint32) (*segment, uint32) {
	m := scatter(hash)
	s := &t.parts[m>>56]
	mask := uint32(len(s.entries) - 1)
	i := tagOf(m) & mask
	for uint32(s.entries[i]) != address {
		i = (i + 1) & mask
	}
	return s, i
}

func (s *segment) grow() {
	old := s.entries
	s.entries = make([]uint64, max(firstSegment, 2*len(old)))
	mask := uint32(len(s.entries) - 1)
	for _, e := range old {
		if e == 0 {
			continue
		}
		i := uint32(e>>32) & mask
		for s.entries[i] != 0 {
			i = (i + 1) & mask
		}
		s.entries[i] = e
	}
}
