package explain

import (
	"sort"
	"unsafe"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// shelf keeps the newest records of one sort, within a number and a size.
type shelf struct {
	keep      int
	keepBytes int64

	slots []record // the record at position p is at p modulo keep; grows up to keep
	first uint64   // position of the oldest that is kept
	next  uint64   // position that the next one gets
	bytes int64    // of what is kept
}

// add enters a record, and lets go of the oldest where the bounds ask for it.
func (s *shelf) add(number uint64, fill func(*record)) {
	if len(s.slots) < s.keep && s.next == uint64(len(s.slots)) {
		s.slots = append(s.slots, record{})
	} else if s.next-s.first == uint64(s.keep) {
		s.bytes -= s.at(s.first).size()
		s.first++
	}
	slot := s.at(s.next)
	fill(slot)
	slot.number = number
	s.next++
	s.bytes += slot.size()
	for s.bytes > s.keepBytes && s.first < s.next {
		oldest := s.at(s.first)
		s.bytes -= oldest.size()
		*oldest = record{}
		s.first++
	}
}

func (s *shelf) at(position uint64) *record { return &s.slots[position%uint64(s.keep)] }

// search is the position of the oldest record with at least this number.
func (s *shelf) search(number uint64) uint64 {
	n := sort.Search(int(s.next-s.first), func(i int) bool { return s.at(s.first+uint64(i)).number >= number })
	return s.first + uint64(n)
}

// size is the memory of a record and of what it points to.
func (d *record) size() int64 {
	return int64(unsafe.Sizeof(*d)) + int64(cap(d.text)) +
		int64(cap(d.candidates))*int64(unsafe.Sizeof(pick.Candidate{})) +
		int64(cap(d.costs))*int64(unsafe.Sizeof(route.Costs{}))
}
