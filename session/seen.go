package session

// Seen is a bounded set of conversation ids that clients have sent recently. It tells first turns, as the set of
// 100,000 ids in TensorRT-LLM PR 14744 does. The id requested longest ago is forgotten and would count as a first turn
// again. It is not safe for concurrent use.
type Seen struct {
	ids *lru[bool] // true for an id that was requested more than once
}

// DefaultSeen is the default size of Seen, that of the set in TensorRT-LLM.
const DefaultSeen = 100_000

// NewSeen returns an empty set of at most this many ids, at least one.
func NewSeen(most int) *Seen { return &Seen{ids: newLRU[bool](max(most, 1))} }

// SetMost replaces the bound. A larger set keeps its size.
func (s *Seen) SetMost(most int) { s.ids.setMost(max(most, 1)) }

// Is returns what First would, and changes nothing.
func (s *Seen) Is(key Key, again bool) bool {
	i := s.ids.find(key.Uint64())
	if again {
		return i != none && !s.ids.at(i).value
	}
	return i == none
}

// First notes a request for a conversation and reports whether it is its first turn. again marks a retry of a request
// already noted: the retry of a first turn is a first turn too.
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
