package admin

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
)

// maxAliased bounds the pairs of alias and model that are counted between two looks. Both are names of the
// configuration.
const maxAliased = 200

// aliased is a model by the alias under which clients asked for it.
type aliased struct{ alias, model string }

// beside has the counts of a model of an alias.
type beside struct {
	tallied
	passed uint64 // requests that got a later model instead
}

// aliasView is an alias as JSON: its models beside each other, as a canary needs it.
type aliasView struct {
	Alias  string           `json:"alias"`
	Models []aliasModelView `json:"models"`
}

// aliasModelView is one of an alias's models.
type aliasModelView struct {
	Model string   `json:"model"`
	Share *float64 `json:"share,omitempty"` // 0..1 of the alias's new conversations
	// of models in order, how long a new prompt may wait for this one; 0 for as long as it takes
	Overflow *float64 `json:"overflow_seconds,omitempty"`
	Passed   uint64   `json:"passed,omitempty"` // requests that got a later model since this one could not take them
	Served   *heardOf `json:"served,omitempty"`
}

// asked counts a request for an alias at its model. The alias "*" is left out: clients make up its names.
func (t *Tally) asked(s *live.Served) {
	alias := s.Decision.Pool
	if alias == "" || alias == "*" {
		return
	}
	if model := s.Decision.Model; model != "" && model != alias {
		if one := t.beside(aliased{alias, model}); one != nil {
			one.add(s, true, true)
		}
	}
	for _, p := range s.Decision.Passed {
		if one := t.beside(aliased{alias, p.Model}); one != nil {
			one.passed++
		}
	}
}

// beside is the counts of a pair; nil when there are too many.
func (t *Tally) beside(p aliased) *beside {
	one := t.models[p]
	if one == nil && len(t.models) < maxAliased {
		one = &beside{}
		t.models[p] = one
	}
	return one
}

// aliases shows the aliases of several models. It forgets what is counted of others.
func (t *Tally) aliases(models []fleet.ModelStatus) (out []aliasView) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	stands := map[aliased]bool{}
	for i := range models {
		m := &models[i]
		if len(m.Alias) < 2 {
			continue
		}
		v, total := aliasView{Alias: m.ID}, 0.0
		for _, share := range m.Shares {
			total += share
		}
		for k, model := range m.Alias {
			p := aliased{m.ID, model}
			stands[p] = true
			w := aliasModelView{Model: model}
			if k < len(m.Shares) && total > 0 {
				share := m.Shares[k] / total
				w.Share = &share
			}
			if k < len(m.Overflow) {
				wait := m.Overflow[k].Seconds()
				w.Overflow = &wait
			}
			if one := t.models[p]; one != nil {
				served := one.view(0)
				w.Served, w.Passed = &served, one.passed
			}
			v.Models = append(v.Models, w)
		}
		out = append(out, v)
	}
	for p := range t.models {
		if !stands[p] {
			delete(t.models, p)
		}
	}
	return out
}
