package pool

import (
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/size"
)

// Learnt is the learnt state of a model's requests, for a snapshot.
type Learnt struct {
	Name           string
	Size           size.Learnt
	Missing        float64 // see cache.AnswerReuse
	Seen           int
	Parts          bool // its requests may be split
	Turns, Prompts [3]float64
}

// Learnt is a pool's learnt state.
func (p Pool) Learnt() Learnt {
	s := p.s
	l := Learnt{
		Name:    s.name,
		Size:    s.size.Export(),
		Parts:   s.splits,
		Turns:   s.turns.Export(),
		Prompts: s.prompts.Export(),
	}
	l.Missing, l.Seen = s.answers.Export()
	return l
}

// Restore keeps a pool's learnt state until the pool exists. A pool that has learnt nothing takes it at once.
func (t *Table) Restore(l *Learnt) {
	if t.restored == nil {
		t.restored = map[string]*Learnt{}
	}
	if len(t.restored) >= bound.Many {
		return
	}
	t.restored[l.Name] = l
	if p, ok := t.byName[l.Name]; ok && p.s.answers.Empty() && p.s.size.Empty() {
		l.apply(p.s)
	}
}

// ForgetRestored drops the restored state of pools that do not exist yet.
func (t *Table) ForgetRestored() { t.restored = nil }

// apply gives restored state to a new pool.
func (l *Learnt) apply(s *state) {
	if l == nil {
		return
	}
	s.size.Restore(&l.Size)
	s.answers.Restore(l.Missing, l.Seen)
	if s.splits == l.Parts {
		s.turns.Restore(l.Turns)
		s.prompts.Restore(l.Prompts)
	}
}
