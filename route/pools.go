package route

import (
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/arrivals"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/size"
)

// pool is the endpoints that serve one model or alias, with the policies that choose among them.
type pool struct {
	name    string
	policy  pick.Policy // for whole requests and decode legs
	prefill pick.Policy // for prefill legs
	parts   bool        // its members have roles, or need none: requests may be split
	members []member
	slots   []int32 // of the members
	alike   bool    // all members have one model name and one context, and no adapter

	kept        bool   // stored in the registry
	prefillName string // namespace of conversations on the prefill side

	// Learnt from usage.
	size    size.Model
	answers cache.Answers
	turns   arrivals.Mix // of whole requests and decode legs
	prompts arrivals.Mix // of prefill legs
}

// member is an endpoint of a pool and the model name it serves there.
type member struct {
	ep      *endpoint
	model   string
	context int  // tokens, 0 unknown
	adapter bool // the model is a LoRA adapter
	stated  bool // declared by the configuration; the engine has not listed it
}

// anyPool is the pool for unknown model names that are acceptable: for the alias "*", or endpoints that report no models. It
// has one name, so that clients cannot create pools.
const anyPool = "*"

// maxPools bounds the number of pools. Only engines and the configuration can name one.
const maxPools = 4096

// mix is the statistics of turns on the leg's side.
func (p *pool) mix(l fleet.Leg) *arrivals.Mix {
	if l == fleet.LegPrefill {
		return &p.prompts
	}
	return &p.turns
}

// poolFor finds the pool of a request. It changes nothing: the last step stores a new pool, see keepPool.
func (r *registry) poolFor(req *fleet.Request) (*pool, error) {
	name := req.Model
	if name == "" {
		if req.Class != fleet.Aside && !req.Native {
			known := r.baseModels()
			if len(known) > 1 {
				return nil, &ModelRequiredError{Known: r.names()}
			}
			if len(known) == 1 {
				name = known[0]
			}
		}
		return r.pool(name), nil
	}
	p := r.pool(name)
	if len(p.members) > 0 {
		return p, nil
	}
	if p = r.pool(anyPool); len(p.members) > 0 {
		return p, nil
	}
	if len(r.endpoints) == 0 {
		return r.pool(""), nil // admit returns the error
	}
	return nil, &UnknownModelError{Model: req.Model, Known: r.names()}
}

// pool is the stored pool of a name, else a new one.
func (r *registry) pool(name string) *pool {
	if p := r.pools[name]; p != nil {
		return p
	}
	p := &pool{name: name, size: size.NewModel(r.cfg.Without), members: r.membersOf(name)}
	p.survey()
	if len(p.members) > 0 || name == "" || name == anyPool {
		p.prefillName = name + prefillSide
		r.equip(p)
		r.restored.of(p)
	}
	return p
}

// keepPool stores a pool with its policies and its model's statistics, also while it has no members: endpoints come and go.
// Above maxPools, pools without members are dropped, then all.
func (r *Router) keepPool(p *pool) {
	if p.kept || p.prefillName == "" {
		return
	}
	if len(r.pools) >= maxPools {
		r.keptPools = slices.DeleteFunc(r.keptPools, func(k *pool) bool { return len(k.members) == 0 })
		clear(r.pools)
		if len(r.keptPools) >= maxPools {
			r.keptPools = r.keptPools[:0]
		}
		for _, k := range r.keptPools {
			r.pools[k.name] = k
		}
	}
	p.kept, r.pools[p.name] = true, p
	r.keptPools = append(r.keptPools, p)
}

// refreshPools recomputes the members of all pools after a change of models.
func (r *Router) refreshPools() {
	if r.refreshed == r.generation {
		return
	}
	r.refreshed = r.generation
	for _, p := range r.keptPools {
		p.members = r.membersOf(p.name)
		p.survey()
		r.equip(p)
	}
}

// survey notes what a shortlist needs to know about the members.
func (p *pool) survey() {
	p.slots, p.alike = p.slots[:0], true
	for i := range p.members {
		m, first := &p.members[i], &p.members[0]
		p.slots = append(p.slots, int32(m.ep.slot))
		p.alike = p.alike && !m.adapter && m.model == first.model && m.context == first.context
	}
}

// prefillSide marks the conversations of a pool's prefill side. No model name contains it.
const prefillSide = "\x00prefill"

// equip creates a pool's policies, again when its endpoints get or lose roles.
func (r *registry) equip(p *pool) {
	if len(p.members) == 0 && p.policy != nil {
		return
	}
	d, parts := &r.cfg.Disaggregation, r.cfg.Disaggregation.When == WhenFree || hasRoles(p.members)
	if p.policy != nil && p.parts == parts {
		return
	}
	p.parts, p.prefill = parts, nil
	p.turns, p.prompts = arrivals.Mix{}, arrivals.Mix{} // legs differ from whole requests
	if !parts {
		p.policy = r.cfg.Policy()
		return
	}
	p.policy, p.prefill = d.Decode(), d.Prefill()
}

// wants notes which optional columns a policy uses.
func (r *readers) wants(p pick.Policy) {
	if c, ok := p.(pick.Counting); ok && c.CountsBlocks() {
		r.counting = true
	}
	if a, ok := p.(pick.Awaiting); ok && a.AwaitsReturns() {
		r.awaiting = true
	}
}

// policyFor is the policy of a leg.
func (p *pool) policyFor(l fleet.Leg) pick.Policy {
	if l == fleet.LegPrefill && p.prefill != nil { // the pool of a running request may have lost its roles
		return p.prefill
	}
	return p.policy
}

// nameFor is the namespace of the pool's conversations on a leg's side.
func (p *pool) nameFor(l fleet.Leg) string {
	if l == fleet.LegPrefill {
		return p.prefillName
	}
	return p.name
}

// membersOf lists the endpoints that serve a model, an alias, any model ("*"), or all endpoints ("").
func (r *registry) membersOf(name string) []member {
	var members []member
	targets, isAlias := r.aliases[name]
	if !isAlias {
		targets = []string{name}
	}
	for _, ep := range r.endpoints {
		if ep.gone {
			continue
		}
		if name == "" {
			members = append(members, member{ep: ep, context: ep.context()})
			continue
		}
		if m, ok := ep.serves(targets, name == anyPool && !isAlias); ok {
			members = append(members, m)
		}
	}
	return members
}

// serves finds the name under which the endpoint serves one of the targets. Endpoints that report no models serve anything, but
// only in the pool "*": a known name goes to endpoints known to serve it.
func (e *endpoint) serves(targets []string, anything bool) (member, bool) {
	if anything {
		if len(e.spec.Models) == 0 && e.report.Models == nil {
			return member{ep: e}, true
		}
		return member{}, false
	}
	for _, t := range targets {
		for _, m := range e.report.Models {
			if m.ID == t && (len(e.spec.Models) == 0 || slices.Contains(e.spec.Models, t)) {
				return member{ep: e, model: t, context: m.ContextTokens, adapter: m.Parent != ""}, true
			}
		}
		if slices.Contains(e.spec.Models, t) {
			return member{ep: e, model: t, context: e.context(), stated: true}, true
		}
	}
	return member{}, false
}

// modelNames are the endpoint's models, or "" alone when unknown.
func (e *endpoint) modelNames() []string {
	var names []string
	for _, m := range e.models() {
		names = append(names, m.ID)
	}
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// context is the longest prompt plus answer of any of the endpoint's models; 0 unknown.
func (e *endpoint) context() int {
	longest := 0
	for _, m := range e.report.Models {
		longest = max(longest, m.ContextTokens)
	}
	return longest
}

// models lists the endpoint's models: the declared ones, else the reported ones.
func (e *endpoint) models() []fleet.Model {
	if len(e.spec.Models) == 0 {
		return e.report.Models
	}
	var out []fleet.Model
	for _, id := range e.spec.Models {
		m := fleet.Model{ID: id, ContextTokens: e.context()}
		for _, reported := range e.report.Models {
			if reported.ID == id {
				m = reported
			}
		}
		out = append(out, m)
	}
	return out
}

// baseModels lists the models that are not adapters.
func (r *registry) baseModels() []string {
	var ids []string
	for _, m := range r.Models() {
		if m.Alias == nil && m.Parent == "" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (r *registry) names() []string {
	var ids []string
	for _, m := range r.Models() {
		ids = append(ids, m.ID)
	}
	return ids
}

// ModelStatus is one model or alias a client can ask for.
type ModelStatus struct {
	ID            string
	Alias         []string // the models it stands for; nil for a model
	Parent        string   // base model of an adapter
	ContextTokens int      // the largest of its endpoints; 0 unknown
	Endpoints     []string // names of its endpoints, in order of declaration
}

// Models lists the models and aliases, sorted by id, without the alias "*".
func (r *registry) Models() []ModelStatus {
	var out []ModelStatus
	index := map[string]int{}
	for _, ep := range r.endpoints {
		if ep.gone {
			continue
		}
		for _, m := range ep.models() {
			i, ok := index[m.ID]
			if !ok {
				i = len(out)
				index[m.ID] = i
				out = append(out, ModelStatus{ID: m.ID, Parent: m.Parent})
			}
			out[i].ContextTokens = max(out[i].ContextTokens, m.ContextTokens)
			out[i].Endpoints = append(out[i].Endpoints, ep.spec.Name)
		}
	}
	for _, a := range r.cfg.Aliases {
		_, real := index[a.Name]
		members := r.membersOf(a.Name)
		if a.Name == anyPool || real || len(members) == 0 {
			continue
		}
		s := ModelStatus{ID: a.Name, Alias: a.Models}
		for _, m := range members {
			s.ContextTokens = max(s.ContextTokens, m.context)
			s.Endpoints = append(s.Endpoints, m.ep.spec.Name)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b ModelStatus) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// measure estimates the prompt tokens of a request, which may continue a conversation's last prompt.
func (p *pool) measure(req *fleet.Request, t *conversation.Found) size.Prompt {
	if !t.Known {
		return p.size.Prompt(req, 0, 0)
	}
	return p.size.Prompt(req, t.Entry.Bytes, t.Entry.Prompt)
}

// learn corrects the size estimates by the engine's counts. A split request's prompt was learnt from the prefill leg.
func (p *pool) learn(f *flight, u *fleet.Usage) {
	prompt := u.PromptTokens
	if f.leg == fleet.LegDecode {
		prompt = 0
	}
	p.size.Learn(&size.Sample{Text: f.text, Bytes: f.promptBytes, Exact: f.exactTokens, Turn: f.class == fleet.Turn}, prompt, u.OutputTokens)
}

// tellReserved tells a pool's policy of a reservation, if it is Keeping.
func (r *Router) tellReserved(req *fleet.Request, v *pick.View, f *flight, index int) {
	if k, ok := f.policy.(pick.Keeping); ok {
		k.Reserved(f.decision.Lease, &v.Candidates[index], v, req)
	}
}

// tellReleased tells it of the reservation's end.
func tellReleased(f *flight, ev *Finished) {
	if k, ok := f.policy.(pick.Keeping); ok {
		k.Released(ev.Lease, ev.Outcome == fleet.OK)
	}
}

// tellGone tells the policies of all pools that an endpoint has left, if they are Forgetting.
func (r *Router) tellGone(e *endpoint) {
	for _, p := range r.keptPools {
		for _, policy := range [...]pick.Policy{p.policy, p.prefill} {
			if f, ok := policy.(pick.Forgetting); ok {
				f.Forget(e.key)
			}
		}
	}
}
