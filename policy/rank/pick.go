package rank

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
)

// adapter makes a policy of a rank router: one request is a batch of one, and the candidates are its ranks.
type adapter struct {
	pick.Plain
	router    router
	tokens    func(l *fleet.Load) int64 // an endpoint's active tokens
	transfers bool                      // count requests whose KV is in transfer
	caches    bool                      // uses cached tokens
	most      int                       // max_num_active_requests; 0 uses the engine's report

	ranks []dpRank
	one   [1]request
	held  []int
}

// gated is a router with a gate, see pick.CacheGate.
type gated interface {
	lastGate() pick.CacheGate // of the request scored last; zero if none was in the latest batch
}

// promptTokens are the prompt tokens of all outstanding requests.
func promptTokens(l *fleet.Load) int64 { return l.ContextTokens - l.DecodeTokens }

// tokensToCompute are uncached prompt tokens of outstanding requests, not computed yet.
func tokensToCompute(l *fleet.Load) int64 { return l.PrefillTokens }

// Pick implements pick.Policy. If every endpoint is at its limit, the request is placed as if there were none: it waits
// wherever it goes.
func (p *adapter) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	at := p.place(v, r)
	if g, ok := p.router.(gated); ok {
		v.CacheGate = g.lastGate()
	}
	return pick.Choice{Index: at, Reason: p.router.reason()}
}

// Hooks implements pick.Policy.
func (p *adapter) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *adapter) placed(v *pick.View, r *fleet.Request, _ pick.Choice) {
	p.place(v, r)
	p.router.keep()
}

// place places a request as a batch of one.
func (p *adapter) place(v *pick.View, r *fleet.Request) int {
	p.see(v)
	p.one[0] = p.ask(v, r)
	to, _ := p.router.Place(p.ranks, p.one[:])
	if to[0] == unplaced {
		for i := range p.ranks {
			p.ranks[i].Most = 0
		}
		to, _ = p.router.Place(p.ranks, p.one[:])
	}
	return to[0]
}

// see converts the candidates to ranks.
func (p *adapter) see(v *pick.View) {
	p.ranks, p.held = p.ranks[:0], p.held[:0]
	for i := range v.Candidates {
		c := &v.Candidates[i]
		k := dpRank{Key: c.Key, Requests: c.Load.Working(), Tokens: p.tokens(&c.Load), Most: p.most}
		if k.Most == 0 {
			k.Most = c.Places
		}
		if p.transfers {
			k.Tokens += c.Load.TransferTokens
			if v.Leg == fleet.LegPrefill { // a decoder's outstanding requests include those whose KV has not arrived
				k.Requests += c.Load.TransferRequests
			}
		}
		p.ranks = append(p.ranks, k)
		if p.caches {
			p.held = append(p.held, c.CachedTokens)
		}
	}
}

// ask converts a request. A conversation that has an id, or that the router recognised without one, has the home that
// the router knows: its session table is saved and shared between routers, which the bindings here are not. A new one
// without an id is not remembered.
func (p *adapter) ask(v *pick.View, r *fleet.Request) request {
	q := request{ID: seedOf(r), FirstTurn: v.NewID, Tokens: v.PromptTokens, Cached: p.held}
	if v.Hash != 0 && (r.Session != "" || !v.FirstTurn) {
		q.Conversation, q.Home = v.Hash, v.Home+1
	}
	return q
}

// seedOf is the hash of the request's id, equal on every replica; without an id it is the request's seed.
func seedOf(r *fleet.Request) uint64 {
	if r.ID == "" {
		return r.Seed
	}
	return byhash.Text(r.ID)
}
