package trace

import "time"

// From is the earlier turn whose prompt this one continues.
func (t *Turn) From() int32 { return t.from }

// HasPrompt reports whether the turn has a prompt.
func (t *Turn) HasPrompt() bool { return t.node >= 0 }

// Begins is the recorded start of the session.
func (s *Session) Begins() time.Duration { return s.begins }

// Disorder is a piece that precedes its parent; -1 for none.
func (t *Trace) Disorder() int {
	for i, n := range t.forest.nodes {
		if n.parent >= int32(i) {
			return i
		}
	}
	return -1
}
