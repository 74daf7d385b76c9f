package pool

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/arrivals"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/registry"
	"github.com/warmpath/warmpath/route/size"
)

// Alias is a name that stands for several models.
type Alias struct {
	Name   string   // "*" stands for every unknown name
	Models []string // in order of preference, for endpoints that serve several of them
}

// Any is the pool for unknown model names that are acceptable: for the alias "*", or endpoints that report no models. It has one
// name, so that clients cannot create pools.
const Any = "*"

// maxPools bounds the number of pools. Only engines and the configuration can name one.
const maxPools = 4096

// prefillSide marks the conversations of a pool's prefill side. No model name contains it.
const prefillSide = "\x00prefill"

// PrefillNamespace is the scope of the conversations of a pool's prefill side.
func PrefillNamespace(name string) string { return name + prefillSide }

// Config says which policies pools have.
type Config struct {
	Policy          func() pick.Policy // of a pool without roles
	Decode, Prefill func() pick.Policy // of the two sides of one with roles
	Free            bool               // requests are split without roles
	Aliases         []Alias
	Without         ablation.Set
}

// Table holds the pools.
type Table struct {
	cfg       Config
	endpoints registry.Reader
	aliases   map[string][]string

	byName    map[string]Pool
	kept      []Pool // the same in order of creation
	refreshed uint64 // the registry's generation of their members

	restored map[string]*Learnt // not found in a pool yet
}

// New makes a table without pools.
func New(endpoints registry.Reader, c Config) *Table {
	t := &Table{endpoints: endpoints, byName: map[string]Pool{}, aliases: map[string][]string{}}
	t.SetConfig(c, false)
	return t
}

// SetConfig replaces the configuration. Refresh applies it to the pools; with policies they get new ones.
func (t *Table) SetConfig(c Config, policies bool) {
	t.cfg = c
	clear(t.aliases)
	for _, a := range c.Aliases {
		t.aliases[a.Name] = a.Models
	}
	if policies {
		for _, p := range t.kept {
			p.s.policy, p.s.prefill = nil, nil
		}
	}
}

// Keep stores a pool with its policies and its model's statistics, also while it has no members: endpoints come and go. Above
// maxPools, pools without members are dropped, then all.
func (t *Table) Keep(p Pool) {
	if p.s.kept || p.s.prefillName == "" {
		return
	}
	if len(t.byName) >= maxPools {
		t.kept = slices.DeleteFunc(t.kept, func(k Pool) bool { return k.Len() == 0 })
		clear(t.byName)
		if len(t.kept) >= maxPools {
			t.kept = t.kept[:0]
		}
		for _, k := range t.kept {
			t.byName[k.s.name] = k
		}
	}
	p.s.kept, t.byName[p.s.name] = true, p
	t.kept = append(t.kept, p)
}

// Refresh recomputes the members of all pools after a change of models or endpoints.
func (t *Table) Refresh() {
	if t.refreshed == t.endpoints.Generation() {
		return
	}
	t.refreshed = t.endpoints.Generation()
	for _, p := range t.kept {
		p.s.members = t.membersOf(p.s.name)
		p.s.survey()
		t.equip(p.s)
	}
}

// survey notes what a shortlist needs to know about the members.
func (s *state) survey() {
	s.slots, s.alike = s.slots[:0], true
	for i := range s.members {
		m, first := &s.members[i], &s.members[0]
		s.slots = append(s.slots, int32(m.endpoint.Slot()))
		s.alike = s.alike && !m.adapter && m.model == first.model && m.context == first.context
	}
}

// equip makes a pool's policies, again when its endpoints get or lose roles.
func (t *Table) equip(s *state) {
	if len(s.members) == 0 && s.policy != nil {
		return
	}
	parts := t.cfg.Free || slices.ContainsFunc(s.members, func(m member) bool { return m.endpoint.Role() != fleet.RoleBoth })
	if s.policy != nil && s.parts == parts {
		return
	}
	s.parts, s.prefill = parts, nil
	s.turns, s.prompts = arrivals.Mix{}, arrivals.Mix{} // legs differ from whole requests
	if !parts {
		s.policy = t.cfg.Policy()
		return
	}
	s.policy, s.prefill = t.cfg.Decode(), t.cfg.Prefill()
}

// Policy is the policy of a leg, to be told what has happened.
func (t *Table) Policy(p Pool, l fleet.Leg) pick.Policy { return p.s.policyFor(l) }

// Forget tells the policies of all pools that an endpoint has left, if they are pick.Forgetting.
func (t *Table) Forget(e registry.Endpoint) {
	for _, p := range t.kept {
		for _, policy := range [...]pick.Policy{p.s.policy, p.s.prefill} {
			if f, ok := policy.(pick.Forgetting); ok {
				f.Forget(e.Key())
			}
		}
	}
}

// Learn corrects the estimates of size by an engine's counts; 0 for none.
func (t *Table) Learn(p Pool, s *size.Sample, promptTokens, outputTokens int) {
	p.s.size.Learn(s, promptTokens, outputTokens)
}

// Answers is what the cache learns of a pool's answers.
func (t *Table) Answers(p Pool) *cache.Answers { return &p.s.answers }

// Turn counts a placed turn with this many uncached prompt tokens.
func (t *Table) Turn(p Pool, l fleet.Leg, first bool, uncached int) { p.s.mix(l).Add(first, uncached) }

// Kept lists the stored pools in order of creation.
func (t *Table) Kept() []Pool { return slices.Clone(t.kept) }
