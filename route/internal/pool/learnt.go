package pool

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/learnt"
)

// Learnt is a pool's learnt state.
func (p Pool) Learnt() learnt.Pool {
	s := p.s
	return learnt.Pool{
		Name: s.name, Size: s.size.Size, Missing: float64(s.answers.Missing), Seen: s.answers.Seen, Parts: s.splits,
		Turns: s.turns.Export(), Prompts: s.prompts.Export(),
	}
}

// Restore keeps a pool's learnt state until the pool exists. A pool that has learnt nothing takes it at once.
func (t *Table) Restore(l *learnt.Pool) {
	if t.restored == nil {
		t.restored = map[string]*learnt.Pool{}
	}
	if len(t.restored) >= bound.Many {
		return
	}
	t.restored[l.Name] = l
	if p, ok := t.byName[l.Name]; ok && p.s.answers.Seen == 0 && p.s.size.Counted == 0 {
		p.s.restore(l)
	}
}

// ForgetRestored drops the restored state of pools that do not exist yet.
func (t *Table) ForgetRestored() { t.restored = nil }

// restore gives restored state, if there is any, to a new pool.
func (s *state) restore(l *learnt.Pool) {
	if l == nil {
		return
	}
	s.size.Restore(&l.Size)
	s.answers = cache.AnswerReuse{Missing: fit.Mean(l.Missing), Seen: max(0, l.Seen)}
	if s.splits == l.Parts {
		s.turns.Restore(l.Turns)
		s.prompts.Restore(l.Prompts)
	}
}
