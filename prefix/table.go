package prefix

// segments is how many parts the table has. Each grows by itself, so that no operation waits for all of them.
const segments = 256

// firstSegment is the size of a segment that holds something, in entries.
const firstSegment = 16

// warmLen is how many entries are read ahead.
const warmLen = 32

// table finds the address of a block by its hash: open addressing with linear probing, at most three quarters full, one
// word an entry. The word is 32 bits of the scattered hash and the address; the rest of the hash is where the address says.
type table struct {
	parts  [segments]segment
	count  int
	warmth uint64 // of no meaning, see warm
}

type segment struct {
	entries []uint64 // a power of two of them, or none
	count   int
}

// scatter spreads hashes that are not random (tests, other people's hashes): Fibonacci hashing. The top eight bits name
// the segment, the next 32 are the tag, whose low bits are where probing starts.
func scatter(hash uint64) uint64 { return hash * 0x9e3779b97f4a7c15 }

func tagOf(scattered uint64) uint32 { return uint32(scattered >> 24) }

// find returns the address of a block, 0 when nobody holds it.
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

// warm reads where the entries of some hashes are, so that the memory behind them comes all at once and not one wait after
// the other.
func (t *table) warm(hashes []uint64) {
	var w uint64
	for _, h := range hashes {
		m := scatter(h)
		if e := t.parts[m>>56].entries; len(e) > 0 {
			w ^= e[tagOf(m)&uint32(len(e)-1)]
		}
	}
	t.warmth = w // or the compiler would leave the reads out
}

// add puts a block at an address unless the hash is there already; it says whether it did.
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
			x.table.count++
			return true
		}
		if uint32(e>>32) == tag && x.hashAt(uint32(e)) == hash {
			return false
		}
	}
}

// move says that a block that is in the table has got another address.
func (t *table) move(hash uint64, from, to uint32) {
	s, i := t.place(hash, from)
	s.entries[i] = s.entries[i]>>32<<32 | uint64(to)
}

// remove takes out a block that is in the table, and closes the gap so that no probe stops short.
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
	t.count--
}

// place is where the entry of an address is. An address has one entry, so the hash behind it need not be read.
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

func (t *table) bytes() int64 {
	n := int64(segments * 32)
	for i := range t.parts {
		n += int64(len(t.parts[i].entries)) * 8
	}
	return n
}
