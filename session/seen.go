package session

// Seen remembers which conversations were asked for of late by an id of their client's, so that the first turn of one can be told:
// TensorRT-LLM PR 14744 keeps a set of 100,000 ids for it. It is bounded; the id asked for longest ago is forgotten, and would be
// a first turn once more. It serves one caller at a time.
type Seen struct{ ids *lru[bool] } // true for an id that was asked for more than once

// DefaultSeen is how many ids the published set holds.
const DefaultSeen = 100_000

// NewSeen makes an empty memory of at most so many ids, one at least.
func NewSeen(most int) *Seen { return &Seen{ids: newLRU[bool](max(most, 1))} }

// Len is the number of ids remembered.
func (s *Seen) Len() int { return s.ids.len() }

// Is is what First would answer. It changes nothing.
func (s *Seen) Is(key Key, again bool) bool {
	i := s.ids.find(key.Uint64())
	if again {
		return i != none && !s.ids.at(i).value
	}
	return i == none
}

// First notes that a conversation was asked for and reports whether this is its first turn. again says that the request has been
// noted before and is tried once more: a retry of a first turn is one still.
func (s *Seen) First(key Key, again bool) bool {
	twice := s.ids.get(key.Uint64())
	switch {
	case again:
		return twice != nil && !*twice
	case twice == nil:
		s.ids.put(key.Uint64(), false)
		return true
	}
	*twice = true
	return false
}
