package route

import (
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/size"
)

// pool is the endpoints that serve one model or alias, with the policy that chooses among them.
type pool struct {
	name    string
	policy  pick.Policy // of whole requests and of decode legs
	prefill pick.Policy // of prefill legs
	parts   bool        // its members have roles, or need none: requests may be split
	members []member

	prefillName string // what conversations are remembered under on the prefill side

	// Learnt from usage.
	size    size.Model
	answers cache.Answers
}

// member is an endpoint of a pool and what it would be asked for.
type member struct {
	ep      *endpoint
	model   string
	context int  // tokens, 0 unknown
	adapter bool // the model is a LoRA adapter
	stated  bool // the configuration says that it serves the model, the engine has not listed it
}

// anyPool is the pool of requests whose model is unknown to the router but acceptable: the alias "*", or endpoints that
// do not say what they serve. One name, so that clients cannot grow the set of pools.
const anyPool = "*"

// maxPools bounds the pools that are kept. Only engines and the configuration can name one.
const maxPools = 4096

// poolFor finds the pool of a request. It changes nothing: a pool that is new is kept by the last step, see keepPool.
func (r *Router) poolFor(req *fleet.Request) (*pool, error) {
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
		return r.pool(""), nil // admit says that there is none
	}
	return nil, &UnknownModelError{Model: req.Model, Known: r.names()}
}

// pool is the pool of a name: the one that is kept, else a new one.
func (r *Router) pool(name string) *pool {
	if p := r.pools[name]; p != nil {
		return p
	}
	p := &pool{name: name, size: size.NewModel(), members: r.membersOf(name)}
	if len(p.members) > 0 || name == "" || name == anyPool {
		p.prefillName = name + prefillSide
		r.equip(p)
	}
	return p
}

// keepPool keeps a pool, with its policies and what is learnt of its model, also while it has no members: endpoints come and go. When there
// are too many those without members are dropped, then all.
func (r *Router) keepPool(p *pool) {
	if p.prefillName == "" || r.pools[p.name] == p {
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
	r.pools[p.name] = p
	r.keptPools = append(r.keptPools, p)
}

// refreshPools finds the members of all pools anew, when who serves what has changed.
func (r *Router) refreshPools() {
	if r.refreshed == r.generation {
		return
	}
	r.refreshed = r.generation
	for _, p := range r.keptPools {
		p.members = r.membersOf(p.name)
		r.equip(p)
	}
}

// prefillSide sets the conversations of a pool's prefill side apart. No model's name holds it.
const prefillSide = "\x00prefill"

// equip gives a pool its policies. One whose endpoints get or lose their roles begins with new ones.
func (r *Router) equip(p *pool) {
	if len(p.members) == 0 && p.policy != nil {
		return
	}
	d, parts := &r.cfg.Disaggregation, r.cfg.Disaggregation.When == WhenFree || hasRoles(p.members)
	if p.policy != nil && p.parts == parts {
		return
	}
	p.parts, p.prefill = parts, nil
	if !parts {
		p.policy = r.cfg.Policy()
		return
	}
	p.policy, p.prefill = d.Decode(), d.Prefill()
}

// wants notes which columns a policy asks for.
func (r *Router) wants(p pick.Policy) {
	if c, ok := p.(pick.Counting); ok && c.CountsBlocks() {
		r.counting = true
	}
	if a, ok := p.(pick.Awaiting); ok && a.AwaitsReturns() {
		r.awaiting = true
	}
}

// policyFor is the policy that places a leg.
func (p *pool) policyFor(l fleet.Leg) pick.Policy {
	if l == fleet.LegPrefill && p.prefill != nil { // a request may be under way whose pool has lost its roles
		return p.prefill
	}
	return p.policy
}

// nameFor is what the pool's conversations are remembered under on the side of a leg.
func (p *pool) nameFor(l fleet.Leg) string {
	if l == fleet.LegPrefill {
		return p.prefillName
	}
	return p.name
}

// membersOf lists the endpoints that serve a model, an alias, anything ("*"), or all there are ("").
func (r *Router) membersOf(name string) []member {
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

// serves finds what the endpoint would be asked for. Those that say nothing about their models serve anything, under
// the pool "*" only: a known name goes to those who are known to serve it.
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

// context is the longest prompt plus answer that some model of the endpoint takes, 0 unknown.
func (e *endpoint) context() int {
	longest := 0
	for _, m := range e.report.Models {
		longest = max(longest, m.ContextTokens)
	}
	return longest
}

// models lists what the endpoint serves: what is stated, else what the engine reports.
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

// baseModels lists the models that are no adapters.
func (r *Router) baseModels() []string {
	var ids []string
	for _, m := range r.Models() {
		if m.Alias == nil && m.Parent == "" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (r *Router) names() []string {
	var ids []string
	for _, m := range r.Models() {
		ids = append(ids, m.ID)
	}
	return ids
}

// ModelStatus is one model or alias a client can ask for.
type ModelStatus struct {
	ID            string
	Alias         []string // what it stands for, nil for a real model
	Parent        string   // base model of an adapter
	ContextTokens int      // the longest over the endpoints that serve it, 0 unknown
	Endpoints     []string // names that serve it, in order of declaration
}

// Models lists what can be asked for, sorted by id. The alias "*" is not listed: it has no name to ask for.
func (r *Router) Models() []ModelStatus {
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

// measure estimates the tokens of a request's prompt, which may go on from a conversation's last one.
func (p *pool) measure(req *fleet.Request, t *conversation.Found) size.Prompt {
	if !t.Known {
		return p.size.Prompt(req, 0, 0)
	}
	return p.size.Prompt(req, t.Entry.Bytes, t.Entry.Prompt)
}

// learn corrects the estimates of sizes by what an engine counted. Of a decode leg the prefill leg has taught the prompt's.
func (p *pool) learn(f *flight, u *fleet.Usage) {
	prompt := u.PromptTokens
	if f.leg == fleet.LegDecode {
		prompt = 0
	}
	p.size.Learn(&size.Sample{Text: f.text, Bytes: f.promptBytes, Exact: f.exactTokens, Turn: f.class == fleet.Turn}, prompt, u.OutputTokens)
}
