package pool

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/internal/split"
	"github.com/warmpath/warmpath/route/learnt"
)

// Any is the pool for unknown model names that are acceptable: for the alias "*", or endpoints that report no models or
// are declared to take any. It has one name, so that clients cannot create pools.
const Any = "*"

// prefillSide marks the conversations of a pool's prefill side. No model name contains it.
const prefillSide = "\x00prefill"

// PrefillNamespace is the scope of the conversations of a pool's prefill side.
func PrefillNamespace(name string) string { return name + prefillSide }

// Rules are by what a pool's requests are placed.
type Rules struct {
	Policy          func() pick.Policy // of a pool without roles
	Decode, Prefill func() pick.Policy // of the two sides of one with roles
	Split           split.Rule
}

// SomeRules are the rules of the pools with these names.
type SomeRules struct {
	Names fleet.Names
	Rules
}

// Config says which rules pools have.
type Config struct {
	Rules               // of all pools
	Some    []SomeRules // of some; of several entries that have a pool's name the first counts
	Aliases []fleet.Alias
}

// rules are those of the pool of a name.
func (t *Table) rules(name string) *Rules {
	for i := range t.cfg.Some {
		if t.cfg.Some[i].Names.Has(name) {
			return &t.cfg.Some[i].Rules
		}
	}
	return &t.cfg.Rules
}

// Table holds the pools.
type Table struct {
	Reader
	cfg       Config
	endpoints registry.Reader
	aliases   map[string]fleet.Alias

	byName    map[string]Pool
	byKey     map[uint64]Pool // by the hash of their names
	kept      []Pool          // the same in order of creation
	refreshed uint64          // the registry's generation of their members

	names   []string // see Names; nil since aliases have changed
	namedAt uint64   // the registry's generation then: a pool is kept by the name of a model or an alias only

	restored map[string]*learnt.Pool // not found in a pool yet
}

// New makes a table without pools.
func New(endpoints registry.Reader, c Config) *Table {
	t := &Table{
		endpoints: endpoints, byName: map[string]Pool{}, byKey: map[uint64]Pool{}, aliases: map[string]fleet.Alias{},
	}
	t.Reader = Reader{t}
	t.SetConfig(c)
	return t
}

// SetConfig replaces the configuration. The pools keep their policies; those of aliases that have changed get other
// members.
func (t *Table) SetConfig(c Config) {
	old := t.aliases
	t.names = nil
	t.cfg, t.aliases = c, make(map[string]fleet.Alias, len(c.Aliases))
	for _, a := range c.Aliases {
		t.aliases[a.Name] = a
	}
	for _, p := range t.kept {
		was, isOld := old[p.s.name]
		is, isNew := t.aliases[p.s.name]
		if isOld != isNew || !slices.Equal(was.Models, is.Models) || p.s.divides != is.Divides() {
			t.fill(p.s)
		}
		p.s.rules = t.rules(p.s.name)
		t.equip(p.s)
	}
}

// RenewPolicies gives the pools new policies, which remember nothing.
func (t *Table) RenewPolicies() {
	for _, p := range t.kept {
		p.s.policy, p.s.prefill = nil, nil
		t.equip(p.s)
	}
}

// Keep stores a pool with its policies and its model's statistics, also while it has no members: endpoints come and go.
// Above bound.Many, pools without members are dropped, then all.
func (t *Table) Keep(p Pool) {
	if p.s.kept || p.s.prefillName == "" {
		return
	}
	if len(t.byName) >= bound.Many {
		t.kept = slices.DeleteFunc(t.kept, func(k Pool) bool { return k.Len() == 0 })
		clear(t.byName)
		clear(t.byKey)
		if len(t.kept) >= bound.Many {
			t.kept = t.kept[:0]
		}
		for _, k := range t.kept {
			t.byName[k.s.name], t.byKey[registry.NameHash(k.s.name)] = k, k
		}
	}
	p.s.kept = true
	t.byName[p.s.name], t.byKey[registry.NameHash(p.s.name)] = p, p
	t.kept = append(t.kept, p)
}

// Refresh recomputes the members of the pools of models that have changed, by the endpoints that have.
func (t *Table) Refresh() {
	if t.refreshed == t.endpoints.Generation() {
		return
	}
	t.refreshed = t.endpoints.Generation()
	touched := t.endpoints.Touched()
	models := slices.Compact(slices.Sorted(slices.Values(touched.Models)))
	t.retake("", touched.Endpoints)
	t.retake(Any, touched.Endpoints)
	for _, a := range t.cfg.Aliases {
		if a.Name != Any && slices.ContainsFunc(a.Models, func(m string) bool { return slices.Contains(models, m) }) {
			t.retake(a.Name, touched.Endpoints)
		}
	}
	for _, name := range models {
		if _, alias := t.aliases[name]; !alias && name != Any {
			t.retake(name, touched.Endpoints)
		}
	}
}

// retake takes the endpoints that have changed out of a pool, and those that serve its model into it.
func (t *Table) retake(name string, changed []registry.Endpoint) {
	p, ok := t.byName[name]
	if !ok {
		return
	}
	s, targets, holes := p.s, t.targets(name), 0
	for _, e := range changed {
		i, was := s.place(e)
		m, is := t.memberOf(e, s, targets)
		if was {
			s.count(&s.members[i], -1)
		}
		switch {
		case is && was:
			s.members[i], s.slots[i] = m, m.slot
		case is && i < len(s.slots) && s.slots[i] == hole && s.members[i].order == m.order:
			s.members[i], s.slots[i] = m, m.slot
			holes--
		case is:
			s.members, s.slots = slices.Insert(s.members, i, m), slices.Insert(s.slots, i, m.slot)
		case was:
			s.members[i].slot, s.slots[i] = hole, hole
			holes++
		}
		if is {
			s.count(&m, 1)
			s.uniform = s.uniform && m.isLike(&s.members[0]) && m.isLike(&s.members[len(s.members)-1])
		}
	}
	for ; holes > 0; holes-- {
		i := slices.Index(s.slots, hole)
		s.members, s.slots = slices.Delete(s.members, i, i+1), slices.Delete(s.slots, i, i+1)
	}
	if !s.uniform {
		s.noteUniform()
	}
	t.equip(s)
}

// hole is in place of the slot of a member that has left, until all changes are known: one that comes in its place, as
// an engine that moves does, moves no others.
const hole = pick.None

// count adds by to the numbers of members that a member is among.
func (s *state) count(m *member, by int) {
	if m.hasRole {
		s.roles += by
	}
	if m.half {
		s.halves += by
	}
	if m.takesWhole {
		s.takeWhole += by
	}
}

// place is where an endpoint is among the members, in order of declaration, or where it belongs.
func (s *state) place(e registry.Endpoint) (i int, ok bool) {
	i, ok = slices.BinarySearchFunc(s.members, e.Order(), func(m member, order uint64) int {
		return cmp.Compare(m.order, order)
	})
	return i, ok && int(s.members[i].slot) == e.Slot()
}

func (s *state) noteUniform() {
	s.uniform = true
	for i := range s.members {
		if s.uniform = s.members[i].isLike(&s.members[0]); !s.uniform {
			return
		}
	}
}

// isLike reports whether two members have one model name and one context, and no adapter.
func (m *member) isLike(other *member) bool {
	return !m.adapter && !other.adapter && m.model == other.model && m.context == other.context
}

// equip makes a pool's policies, again when its endpoints get or lose roles.
func (t *Table) equip(s *state) {
	if len(s.members) == 0 && s.policy != nil {
		return
	}
	parts := s.rules.Split.When == fleet.WhenFree || s.roles > 0
	if s.policy != nil && s.splits == parts {
		return
	}
	s.splits, s.prefill = parts, nil
	s.turns, s.prompts = arrivals.Mix{}, arrivals.Mix{} // legs differ from whole requests
	if !parts {
		s.policy = pick.Install(s.rules.Policy())
		return
	}
	s.policy, s.prefill = pick.Install(s.rules.Decode()), pick.Install(s.rules.Prefill())
}

// Policy is the policy of a leg, to be told what has happened.
func (t *Table) Policy(p Pool, l fleet.Leg) *pick.Installed { return p.s.policyFor(l) }

// Forget tells the policies of all pools that an endpoint has left.
func (t *Table) Forget(e registry.Endpoint) {
	for _, p := range t.kept {
		for _, policy := range [...]*pick.Installed{p.s.policy, p.s.prefill} {
			if policy != nil {
				policy.Forgotten(e.Key())
			}
		}
	}
}

// Learn corrects the estimates of size by an engine's counts; 0 for none.
func (t *Table) Learn(p Pool, s *size.Sample, promptTokens, outputTokens int) {
	p.s.size.Learn(s, promptTokens, outputTokens)
}

// AnswerReuse is what the cache learns of a pool's answers.
func (t *Table) AnswerReuse(p Pool) *cache.AnswerReuse { return &p.s.answers }

// Turn counts a placed turn with this many uncached prompt tokens.
func (t *Table) Turn(p Pool, l fleet.Leg, first bool, uncached int) { p.s.mix(l).Add(first, uncached) }

// Kept lists the stored pools in order of creation.
func (t *Table) Kept() []Pool { return slices.Clone(t.kept) }

// Export is a pool's learnt state.
func (p Pool) Export() learnt.Pool {
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
