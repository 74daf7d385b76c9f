package pool

import (
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/size"
)

// Reader is a read-only view of a Table.
type Reader struct{ t *Table }

// Named is the stored pool of a model or alias, else a new one, which Table.Keep stores.
func (r Reader) Named(name string) Pool {
	t := r.t
	if p, ok := t.byName[name]; ok {
		return p
	}
	s := &state{endpoints: t.endpoints, name: name, rules: t.rules(name), size: size.NewModel()}
	t.fill(s)
	if len(s.members) > 0 || name == "" || name == Any {
		s.prefillName = PrefillNamespace(name)
		t.equip(s)
		s.restore(t.restored[name])
	}
	return Pool{s}
}

// Keyed is the stored pool whose name has a hash; the zero value if there is none.
func (r Reader) Keyed(key uint64) Pool { return r.t.byKey[key] }

// NameOf is the model or alias whose name has a hash, "" for none that an endpoint serves. It looks through all
// endpoints. A name that is both is the alias.
func (r Reader) NameOf(key uint64) string {
	if key == registry.NameHash(Any) {
		return Any
	}
	for _, a := range r.t.cfg.Aliases {
		if registry.NameHash(a.Name) != key {
			continue
		}
		if r.served(a.Models) {
			return a.Name
		}
		return ""
	}
	for m := range r.models() {
		if registry.NameHash(m.ID) == key {
			return m.ID
		}
	}
	return ""
}

// models goes through the models of the endpoints that have not left, some several times.
func (r Reader) models() iter.Seq2[fleet.Model, registry.Endpoint] {
	return func(yield func(fleet.Model, registry.Endpoint) bool) {
		for e := range r.t.endpoints.All() {
			if e.Gone() {
				continue
			}
			for m := range e.Models() {
				if !yield(m, e) {
					return
				}
			}
		}
	}
}

// fill makes the members of a pool anew: the endpoints that serve a model, an alias, any model ("*"), or all ("").
func (t *Table) fill(s *state) {
	s.members, s.models = s.members[:0], nil
	targets := t.targets(s.name)
	if s.divides = t.aliases[s.name].Divides(); s.divides {
		for _, model := range targets {
			s.called(model) // Serving needs no further ones
		}
	}
	for e := range t.endpoints.All() {
		if m, ok := t.memberOf(e, s, targets); ok {
			s.members = append(s.members, m)
		}
	}
	s.slots, s.roles, s.halves, s.takeWhole = s.slots[:0], 0, 0, 0
	for i := range s.members {
		s.count(&s.members[i], 1)
		s.slots = append(s.slots, s.members[i].slot)
	}
	s.noteUniform()
}

// targets are the models that a name stands for; nil for any.
func (t *Table) targets(name string) []string {
	alias, isAlias := t.aliases[name]
	if !isAlias && name != Any {
		return []string{name}
	}
	return alias.Models
}

// memberOf is an endpoint as a member of a pool whose name stands for the targets; ok is false if it is none.
func (t *Table) memberOf(e registry.Endpoint, s *state, targets []string) (m member, ok bool) {
	var model fleet.Model
	switch {
	case e.Gone():
		return member{}, false
	case s.name == "":
		model.ContextTokens, ok = e.Context(), true
	case s.name == Any && targets == nil:
		// it serves anything, but only here: a known name goes to endpoints known to serve it
		ok = e.TakesAny()
	default:
		model, m.stated, ok = e.Serves(targets)
	}
	if !ok {
		return member{}, false
	}
	role := e.Role()
	m.hasRole, m.half = role != fleet.RoleBoth, role == fleet.RoleDecode && e.RoleOnly()
	m.takesWhole = role != fleet.RolePrefill && !m.half
	m.order, m.slot = e.Order(), int32(e.Slot())
	m.model, m.context, m.adapter = s.called(model.ID), model.ContextTokens, model.Parent != ""
	return m, true
}

// called is the index of a name under which a member serves a pool's requests: one of the models that the pool stands
// for.
func (s *state) called(model string) int32 {
	i := slices.Index(s.models, model)
	if i < 0 {
		i, s.models = len(s.models), append(s.models, model)
	}
	return int32(i)
}

// Listed is the listed name of a model that an engine also knows by another spelling; "" for none.
func (r Reader) Listed(name string) string {
	plain := ollamaName(name)
	for m, e := range r.models() {
		if e.Kind() == fleet.KindOllama && ollamaName(m.ID) == plain {
			return m.ID
		}
	}
	return ""
}

// ollamaName is the one spelling of all by which Ollama knows a model: case does not count, nor do the registry, its
// own models and the tag that stand for nothing else (0.33, types/model/name.go and server/routes.go, getExistingName).
func ollamaName(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "registry.ollama.ai/")
	return strings.TrimSuffix(strings.TrimPrefix(name, "library/"), ":latest")
}

// Models lists the models and aliases, sorted by id, without the alias "*".
func (r Reader) Models() []fleet.ModelStatus {
	var out []fleet.ModelStatus
	index := map[string]int{}
	for m, e := range r.models() {
		i, ok := index[m.ID]
		if !ok {
			i = len(out)
			index[m.ID] = i
			out = append(out, fleet.ModelStatus{ID: m.ID, Parent: m.Parent})
		}
		out[i].ContextTokens = max(out[i].ContextTokens, m.ContextTokens)
		out[i].Endpoints = append(out[i].Endpoints, e.Name())
	}
	for _, a := range r.t.cfg.Aliases {
		_, real := index[a.Name]
		p := state{endpoints: r.t.endpoints, name: a.Name}
		if r.t.fill(&p); a.Name == Any || real || len(p.members) == 0 {
			continue
		}
		s := fleet.ModelStatus{ID: a.Name, Alias: a.Models, Shares: a.Shares, Overflow: a.Overflow}
		for i := range p.members {
			s.ContextTokens = max(s.ContextTokens, p.members[i].context)
			s.Endpoints = append(s.Endpoints, r.t.endpoints.At(int(p.members[i].slot)).Name())
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b fleet.ModelStatus) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Base is the only model that is not an adapter, "" for none; several reports that there are more. Every request
// without a model asks.
func (r Reader) Base() (id string, several bool) {
	for e := range r.t.endpoints.All() {
		base, more := e.Base()
		switch {
		case e.Gone() || base == "":
		case more || id != "" && id != base:
			return "", true
		default:
			id = base
		}
	}
	return id, false
}

// OneModel reports whether no two endpoints of those that may take a request are known to serve different models first,
// adapters aside.
func (r Reader) OneModel(may func(registry.Endpoint) bool) bool {
	first := ""
	for e := range r.t.endpoints.All() {
		switch base, _ := e.Base(); {
		case e.Gone() || base == "" || !may(e):
		case first != "" && base != first:
			return false
		default:
			first = base
		}
	}
	return true
}

// Names are the names of all pools: those that were asked for here, and those of models and aliases, which may have
// been elsewhere, or before a restart. They must not be changed. Clients can ask for them as often as they like, so the
// endpoints are looked through only where something has changed since the last time.
func (t *Table) Names() []string {
	if t.names != nil && t.namedAt == t.endpoints.Generation() {
		return t.names
	}
	names := append(make([]string, 0, len(t.kept)+2), "", Any)
	for _, p := range t.kept {
		names = append(names, p.s.name)
	}
	for _, a := range t.cfg.Aliases {
		names = append(names, a.Name)
	}
	for e := range t.endpoints.All() {
		for m := range e.Models() {
			names = append(names, m.ID)
		}
	}
	slices.Sort(names)
	t.names, t.namedAt = slices.Compact(names), t.endpoints.Generation()
	return t.names
}

// AliasOf lists the models that a name is an alias of; nil if it is none.
func (r Reader) AliasOf(name string) []string { return r.t.aliases[name].Models }

// MostNames bounds SomeNames: clients can ask for unknown models as often as they like.
const MostNames = 21

// Overflow is how long a new prompt may wait for each of an alias's models, if these are in order; else nil.
func (r Reader) Overflow(name string) []time.Duration { return r.t.aliases[name].Overflow }

// Drawn is the model that a new conversation gets of an alias, of those that are there at present; "" for none. Without
// shares it is the first. With shares weighted rendezvous hashing (-w/ln u) draws it: the same conversation gets the
// same model everywhere, and a share that grows takes conversations from the others only. A model whose share is 0 is
// drawn where no other is there.
func (r Reader) Drawn(name string, conversation uint64, there func(model string) bool) (model string) {
	a := r.t.aliases[name]
	if a.Shares == nil {
		if i := slices.IndexFunc(a.Models, there); i >= 0 {
			return a.Models[i]
		}
		return ""
	}
	best := 0.0
	for i, share := range a.Shares {
		if !there(a.Models[i]) {
			continue
		}
		number := blocks.Hash("", a.Models[i]) ^ conversation
		number = (number ^ number>>32) * 0x9e3779b97f4a7c15
		number = (number ^ number>>29) * 0xbf58476d1ce4e5b9
		u := (float64((number^number>>32)>>11) + 0.5) / (1 << 53)
		if score := -max(share, least) / math.Log(u); score > best {
			model, best = a.Models[i], score
		}
	}
	return model
}

// least is the share of a model that has none: with it none is drawn before one that has a share.
const least = 1e-300

// Serving appends a member once for each model of its pool that its engine may be asked for: of an alias's models the
// first that it serves, but each where they have shares. others is memory for all but the first, from an empty list on.
func (r Reader) Serving(m Member, to []Member, others *Others) []Member {
	if len(to) == 0 {
		others.list = others.list[:0]
	}
	to = append(to, m)
	if !m.s.divides {
		return to
	}
	targets := r.t.targets(m.s.name)
	for i := range targets {
		if as, ok := r.t.memberOf(m.Endpoint(), m.s, targets[i:i+1]); ok && as.model != m.m.model {
			others.list = append(others.list, as)
			to = append(to, Member{m.s, &others.list[len(others.list)-1]})
		}
	}
	return to
}

// Serves reports whether a member's engine may be asked for a model.
func (r Reader) Serves(m Member, model string) bool {
	targets := r.t.targets(m.s.name)
	i := slices.Index(targets, model)
	if m.Model() == model || !m.s.divides || i < 0 {
		return m.Model() == model
	}
	_, ok := r.t.memberOf(m.Endpoint(), m.s, targets[i:i+1])
	return ok
}

// Others is memory for members that a pool does not have as such, see Reader.Serving.
type Others struct{ list []member }

// SomeNames lists models and aliases by name, sorted, up to MostNames.
func (r Reader) SomeNames() (ids []string) {
	for m := range r.models() {
		if !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
		if len(ids) == MostNames {
			break
		}
	}
	for _, a := range r.t.cfg.Aliases {
		if len(ids) < MostNames && a.Name != Any && !slices.Contains(ids, a.Name) && r.served(a.Models) {
			ids = append(ids, a.Name)
		}
	}
	slices.Sort(ids)
	return ids
}

// served reports whether an endpoint serves one of the models.
func (r Reader) served(models []string) bool {
	for e := range r.t.endpoints.All() {
		if _, _, ok := e.Serves(models); ok && !e.Gone() {
			return true
		}
	}
	return false
}
