package prompt

import "encoding/binary"

const (
	cellWords = 32
	cellBytes = cellWords*8 + 4
	pageCells = 512
)

// cellPage is a page of cells for the data of nodes; each cell has the number of the next, 0 for none.
type cellPage struct {
	words [pageCells][cellWords]uint64
	next  [pageCells]uint32
}

func (m *Memory) cell(n uint32) *[cellWords]uint64 { return &m.cells[n/pageCells].words[n%pageCells] }

func (m *Memory) nextCell(n uint32) *uint32 { return &m.cells[n/pageCells].next[n%pageCells] }

// newCell allocates a cell, evicting the oldest nodes if needed, but not keep. 0 is none.
func (m *Memory) newCell(keep uint32) uint32 {
	if m.freeCell == 0 && m.cellCount < m.maxCells {
		m.cellCount++
		if int(m.cellCount/pageCells) == len(m.cells) {
			m.cells = append(m.cells, new(cellPage))
		}
		return m.cellCount
	}
	for m.freeCell == 0 {
		if !m.evict(keep) {
			return 0
		}
	}
	n := m.freeCell
	m.freeCell = *m.nextCell(n)
	*m.nextCell(n) = 0
	return n
}

func (m *Memory) freeCells(at *node) {
	for n := at.cell; n != 0; {
		next := *m.nextCell(n)
		*m.nextCell(n) = m.freeCell
		m.freeCell, n = n, next
	}
	at.cell = 0
}

// writer fills cells.
type writer struct {
	m     *Memory
	keep  uint32 // a node that must not be evicted
	first uint32
	cell  uint32
	used  int
}

// begin allocates cells for this many words, all or none.
func (w *writer) begin(words int) bool {
	for ; words > 0; words -= cellWords {
		n := w.m.newCell(w.keep)
		if n == 0 {
			w.m.freeCells(&node{cell: w.first})
			return false
		}
		*w.m.nextCell(n) = w.first
		w.first = n
	}
	w.cell = w.first
	return true
}

func (w *writer) write(words []uint64) {
	for len(words) > 0 {
		if w.used == cellWords {
			w.cell, w.used = *w.m.nextCell(w.cell), 0
		}
		n := copy(w.m.cell(w.cell)[w.used:], words)
		words = words[n:]
		w.used += n
	}
}

// text writes bytes, padded to whole words.
func (w *writer) text(b []byte) {
	for len(b) > 0 {
		var word [8]byte
		b = b[copy(word[:], b):]
		w.write([]uint64{binary.LittleEndian.Uint64(word[:])})
	}
}

// reader reads what a writer has written.
type reader struct {
	m    *Memory
	cell uint32
	used int
}

func (r *reader) read(dst []uint64) {
	for len(dst) > 0 {
		if r.used == cellWords {
			r.cell, r.used = *r.m.nextCell(r.cell), 0
		}
		n := copy(dst, r.m.cell(r.cell)[r.used:])
		dst = dst[n:]
		r.used += n
	}
}

func (r *reader) text(dst []byte) {
	for len(dst) > 0 {
		var word [1]uint64
		r.read(word[:])
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word[0])
		dst = dst[copy(dst, b[:]):]
	}
}
