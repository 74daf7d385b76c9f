package prefix

// Sizes of the records in bytes, checked by a test.
const (
	chunkBytes  = chunkLen*8 + 16
	nodeBytes   = 48
	memberBytes = 32
	slotBytes   = 40
)

// Holds reports whether a slot holds a block.
func (x *Index) Holds(slot int, hash uint64) bool {
	x.single()
	a := x.find(hash)
	if hash == 0 || a == 0 || slot < 0 || slot >= len(x.slots) {
		return false
	}
	n, i := x.locate(a)
	id := x.member(n, uint16(slot))
	return id != 0 && x.members.at(id).length > i
}

// Blocks is the number of distinct blocks in all slots.
func (x *Index) Blocks() (n int) {
	free := x.nodes.freed()
	for i := range x.nodes.next {
		if !free[i] {
			n += int(x.nodes.at(i).length)
		}
	}
	return n
}

// entries is the number of entries in the table.
func (t *table) entries() (n int) {
	for i := range t.parts {
		n += t.parts[i].count
	}
	return n
}

// freed are the records that wait for their next use.
func (p *pool[T, P]) freed() map[uint32]bool {
	free := map[uint32]bool{}
	for i := p.free; i != 0; i = *P(p.at(i)).link() {
		free[i] = true
	}
	return free
}

// given is the number of records handed out.
func (p *pool[T, P]) given() int { return int(p.next) - len(p.freed()) }

// Bytes is the memory used, in bytes. It does not decrease: freed memory is kept for reuse.
func (x *Index) Bytes() int64 {
	const repeatBytes = 40 // a map entry, its control byte and free room of the map
	return x.table.bytes() + x.chunks.bytes(chunkBytes) + x.nodes.bytes(nodeBytes) + x.members.bytes(memberBytes) +
		int64(cap(x.slots))*slotBytes + int64(cap(x.scratch))*4 + int64(len(x.repeats))*repeatBytes
}

// Holders is the number of slots that hold at least the first block.
func (m *Matches) Holders() int { return len(m.holders) }

func (t *table) bytes() int64 {
	n := int64(segments * 32)
	for i := range t.parts {
		n += int64(len(t.parts[i].entries)) * 8
	}
	return n
}

func (p *pool[T, P]) bytes(each int64) int64 {
	return int64(len(p.pages))*pageLen*each + int64(cap(p.pages))*8
}
