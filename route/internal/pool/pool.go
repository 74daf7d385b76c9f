// Package pool groups endpoints by the model or alias they serve, and holds what belongs to one such group: its
// policies, and what its requests have taught about prompts, answers and conversations.
//
// It owns the list of pools and their members. It promises that a pool is found for every model that an endpoint
// serves, that pools are bounded, and that nothing changes through a Reader, a Pool or a Member. In come the endpoints
// of package registry, the configuration with its aliases, and what engines counted; out come pools with their members
// (reader.go) and policies, and estimates in tokens. It never chooses an endpoint itself.
package pool

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/internal/split"
	"github.com/warmpath/warmpath/slot"
)

// Pool is the endpoints that serve one model or alias, to be read only. Two are equal if they are the same; the zero
// value is none.
type Pool struct{ s *state }

type state struct {
	endpoints registry.Reader

	name      string
	rules     *Rules
	policy    *pick.Installed // for whole requests and decode legs
	prefill   *pick.Installed // for prefill legs
	splits    bool            // its members have roles, or need none: requests may be split
	members   []member
	slots     []int32  // of the members
	models    []string // names under which members serve its requests
	roles     int      // members with a role
	halves    int      // of these, decoders that take no whole requests
	takeWhole int      // members that take whole requests
	uniform   bool     // all members have one model name and one context, and no adapter
	divides   bool     // it is of an alias whose models divide its requests, see fleet.Alias.Divides

	kept        bool   // stored in the table
	prefillName string // namespace of conversations on the prefill side

	// Learnt from usage.
	size    size.Model
	answers cache.AnswerReuse
	turns   arrivals.Mix // of whole requests and decode legs
	prompts arrivals.Mix // of prefill legs
}

// Exists is false for the zero value.
func (p Pool) Exists() bool { return p.s != nil }

// Name is the model or alias; "" is the pool of all endpoints.
func (p Pool) Name() string { return p.s.name }

// Namespace is the scope of the pool's conversations on a leg's side.
func (p Pool) Namespace(l fleet.Leg) string {
	if l == fleet.LegPrefill {
		return p.s.prefillName
	}
	return p.s.name
}

// Splits reports whether its members have roles, or need none, so that requests may be split.
func (p Pool) Splits() bool { return p.s.splits }

// Rule says which of its requests are split.
func (p Pool) Rule() *split.Rule { return &p.s.rules.Split }

// Uniform reports whether all members have one model name and one context, and none an adapter, whatever the request.
func (p Pool) Uniform() bool { return p.s.uniform && !p.s.divides }

// Divides reports whether it is the pool of an alias whose models divide its requests, by shares or in order.
func (p Pool) Divides() bool { return p.s.divides }

// Len is the number of members.
func (p Pool) Len() int { return len(p.s.members) }

// Member is the member with an index, in order of declaration.
func (p Pool) Member(i int) Member { return Member{p.s, &p.s.members[i]} }

// Slots lists the members' slots.
func (p Pool) Slots() slot.List { return slot.ListOf(p.s.slots) }

// MemberAt is the member that an endpoint is; ok is false if it is none, or the endpoint is the zero value.
func (p Pool) MemberAt(e registry.Endpoint) (m Member, ok bool) {
	if !e.Exists() {
		return Member{}, false
	}
	i, ok := p.s.place(e)
	if !ok {
		return Member{}, false
	}
	return p.Member(i), true
}

// SplitsAlways reports whether the pool's decoders take no whole requests. Every request that can be split is then
// split, whatever is configured.
func (p Pool) SplitsAlways() bool {
	return p.s.splits && p.s.halves > 0
}

// ServesWhole reports whether some member takes whole requests.
func (p Pool) ServesWhole() bool { return p.s.takeWhole > 0 }

// Shortlists reports whether the policy for whole requests takes a shortlist.
func (p Pool) Shortlists() bool { return p.s.policy.Needs.Shortlist }

// Ask asks the leg's policy for its choice, which changes nothing.
func (p Pool) Ask(v *pick.View, r *fleet.Request) pick.Tentative {
	return p.s.policyFor(v.Leg).Ask(v, r)
}

// Only is the choice of the only candidate, see pick.Installed.
func (p Pool) Only(v *pick.View, why pick.Reason) pick.Tentative {
	return p.s.policyFor(v.Leg).Only(v, why)
}

// Measure estimates the prompt tokens of a request that goes on from another prompt.
func (p Pool) Measure(req *fleet.Request, last size.Last) size.Prompt {
	return p.s.size.Prompt(req, last)
}

// ExpectedOutput estimates the tokens of a request's answer.
func (p Pool) ExpectedOutput(req *fleet.Request) int { return p.s.size.Answer(req) }

// TokensPerByte is the mean of the pool's prompts.
func (p Pool) TokensPerByte() float64 { return p.s.size.TokensPerByte }

// AnswerReuse is what is known of answers as parts of later prompts.
func (p Pool) AnswerReuse() cache.AnswerReuse { return p.s.answers }

// Turns says what turns of the leg's side are like, see arrivals.Mix.
func (p Pool) Turns(l fleet.Leg, without ablation.Set) (laterTurns, turnTokens float64) {
	return p.s.mix(l).Expect(without)
}

func (s *state) mix(l fleet.Leg) *arrivals.Mix {
	if l == fleet.LegPrefill {
		return &s.prompts
	}
	return &s.turns
}

func (s *state) policyFor(l fleet.Leg) *pick.Installed {
	if l == fleet.LegPrefill && s.prefill != nil { // the pool of a running request may have lost its roles
		return s.prefill
	}
	return s.policy
}

// Member is an endpoint of a pool and the model name it serves there, to be read only.
type Member struct {
	s *state
	m *member
}

// member has no pointers, so that the collector does not look at members that move when one in the middle leaves.
type member struct {
	order   uint64 // of its endpoint's declaration
	context int    // tokens, 0 unknown
	slot    int32  // of its endpoint
	model   int32  // index of state.models
	adapter bool   // the model is a LoRA adapter
	stated  bool   // declared by the configuration; the engine has not listed it
	// what its endpoint counts among, see state
	hasRole, half, takesWhole bool
}

// Endpoint is the endpoint.
func (m Member) Endpoint() registry.Endpoint { return m.s.endpoints.At(int(m.m.slot)) }

// Model is the name under which it serves the pool's requests; "" if no name is known.
func (m Member) Model() string { return m.s.models[m.m.model] }

// Context is the longest prompt plus answer in tokens; 0 unknown.
func (m Member) Context() int { return m.m.context }

// Adapter reports whether the model is a LoRA adapter.
func (m Member) Adapter() bool { return m.m.adapter }

// Stated reports whether only the configuration says that it serves the model.
func (m Member) Stated() bool { return m.m.stated }
