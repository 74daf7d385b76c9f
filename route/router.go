// Package route is DECIDE: a router that is told the time, the requests and the events, and answers with decisions. It keeps
// the books of what it sent where, judges the health of endpoints, groups them into pools by the models they serve, remembers
// conversations, and lets a Policy choose among the endpoints that may take a request. It is pure: the live router and the
// simulator drive the same code.
package route

import (
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/session"
)

// Router is the state machine that decides. It is told the time, the requests and the events, and answers; it does no
// I/O, reads no clock and holds no text. It is not safe for concurrent use (package live wraps it).
type Router struct {
	cfg Config

	endpoints []*endpoint // in order of declaration; those gone stay until their last lease ends
	byName    map[string]*endpoint
	freeSlots []int  // slots of endpoints that left, to be used again
	slots     int    // slots handed out so far
	epochs    uint32 // and epochs of caches

	generation uint64 // counts changes of who serves what; pools rebuild their members when it moved
	pools      map[string]*pool
	aliases    map[string][]string

	sessions  *session.Table // conversations whose id a client has sent
	newborn   *session.Table // conversations under an id we minted and nobody has gone on with yet
	responses *session.Table // response id -> endpoint that holds it
	trails    *session.Trails
	users     *session.Users
	seen      *session.Seen // ids that clients have sent of late
	isNew     bool          // that of the request that is decided is new

	flights []flight // indexed by the low half of a Lease
	free    []uint32 // indexes of flights that may be used again
	open    int

	pcg       *rand.PCG
	rng       *rand.Rand
	belief    belief
	kv        kvTable // what KV events say
	counting  bool    // a policy asks for blocks, see Counting
	awaiting  bool    // a policy asks for who comes back, see Awaiting
	speeds    speeds
	returns   returns // of conversations, to their next turn
	ticking   ticking
	among     among
	equals    equals    // scratch, see equate
	members   []*member // scratch: the members behind view.Candidates
	view      pick.View // scratch
	leg       fleet.Leg // what view.Candidates are for
	other     side      // scratch: the candidates of the other leg
	present   []int     // scratch, see findPresent
	counts    bool      // the decision being made counts on what is in present only
	apart     talk      // scratch: the conversation on the prefill side
	why       SplitWhy  // scratch: of the decision being made
	weighed   Weighed   // the same
	apartOnly bool      // scratch: the candidates for the answer are those of a decode leg, not of a whole request
	first     float64   // scratch: ms until the prompt is predicted to be computed elsewhere, of a decode leg
	freely    freely    // scratch, see weighFree
	pace      pace      // of answers at all endpoints
	moved     movePace  // what is assumed of endpoints that no KV cache has come to yet
	movedAt   time.Time // when that was learnt
	ended     Ended     // scratch: what the latest Finished told, valid until the next one

	standing int           // flights in line, at all endpoints
	called   []fleet.Lease // scratch, see callUp

	late interruptions // of answers, where roles are free

	retries retries

	decisions, doubleFinished uint64
	spared, panicked          uint64
}

// New makes a router. It panics on a Config that does not pass Validate.
func New(c Config) *Router {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		panic("route: " + err.Error())
	}
	r := &Router{
		cfg:       c,
		byName:    map[string]*endpoint{},
		pools:     map[string]*pool{},
		aliases:   map[string][]string{},
		sessions:  session.New(c.Sessions),
		responses: session.New(session.Config{Max: c.Responses, IdleTTL: c.ResponseTTL, HashOnly: true}),
		trails:    session.NewTrails(c.Sessions.Max),
		users:     session.NewUsers(c.Sessions),
		seen:      session.NewSeen(session.DefaultSeen),
		belief:    belief{index: prefix.New(prefix.Config{Reach: blocks.Reach, Chains: true})},
		pcg:       rand.NewPCG(0, 0),
		counting:  c.Counting,
		awaiting:  c.Awaiting,
		retries:   newRetries(&c),
	}
	// Ids that no client ever sends back must not push out conversations that live: they have a table of their own.
	unclaimed := c.Sessions
	unclaimed.Max = max(1, c.Sessions.Max/4)
	unclaimed.HashOnly = true
	r.newborn = session.New(unclaimed)
	r.rng = rand.New(r.pcg)
	for _, a := range c.Aliases {
		r.aliases[a.Name] = a.Models
	}
	return r
}

// Route decides where a request goes and reserves its work there. The errors are *UnknownModelError,
// *ModelRequiredError, *PinError, *NoEndpointError and, with Request.Again, ErrRetryBudget.
func (r *Router) Route(now time.Time, req *fleet.Request) (Decision, error) {
	if !r.retries.allow(now, req) {
		return Decision{}, ErrRetryBudget
	}
	d, err := r.place(now, req)
	if err == nil {
		r.retries.enter(now, req)
	}
	return d, err
}

// place does so, whatever the retry budget says.
func (r *Router) place(now time.Time, req *fleet.Request) (Decision, error) {
	p, err := r.poolFor(req)
	if err != nil {
		return Decision{}, err
	}
	talk := r.recall(now, p, req)
	m := p.measure(req, &talk)
	r.isNew = r.newID(p, req, &talk)
	r.why, r.weighed, r.apartOnly = "", Weighed{}, false
	holder, err := r.consider(now, p, req, &talk, &m, fleet.LegWhole)
	if err != nil {
		return Decision{}, err
	}
	d := r.commit(now, p, req, &talk, r.choose(p, req, holder))
	return d, nil
}

func (r *Router) choose(p *pool, req *fleet.Request, holder int) pick.Choice {
	switch {
	case holder >= 0:
		return pick.Choice{Index: holder, Reason: pick.ReasonHolder}
	case req.Pin != "":
		return pick.Choice{Index: 0, Reason: pick.ReasonPinned}
	case len(r.view.Candidates) == 1:
		if _, keeps := p.policyFor(r.leg).(pick.Keeping); keeps {
			p.policyFor(r.leg).Pick(&r.view, req) // it notes where the conversation is now
		}
		if r.view.Home == 0 {
			return pick.Choice{Index: 0, Reason: pick.ReasonSession}
		}
		return pick.Choice{Index: 0, Reason: pick.ReasonOnly}
	}
	return p.policyFor(r.leg).Pick(&r.view, req)
}

// placeHash is what policies place a request by that has no home.
func placeHash(req *fleet.Request, id string) uint64 {
	if req.HashKey != "" {
		id = req.HashKey
	}
	return blocks.Hash(req.Tenant, id)
}

// Stats are the router's own counters and sizes.
type Stats struct {
	Decisions        uint64
	Leases           int    // reservations not yet released
	DoubleFinished   uint64 // Finished for a lease that was not open: a mistake of ours
	Sessions         int
	SessionHits      uint64
	SessionMisses    uint64
	SessionEvictions uint64
	Responses        int    // response ids remembered
	RetriesRefused   uint64 // further attempts that the retry budget had no room for
	EjectionsSpared  uint64 // failed requests that ejected nothing, since as much of the pool was as may be
	Panics           uint64 // decisions on a leg with so few endpoints left that failed requests at the others were ignored
}

// Stats is a snapshot of the counters.
func (r *Router) Stats() Stats {
	s := r.sessions.Stats()
	return Stats{
		Decisions: r.decisions, Leases: r.open, DoubleFinished: r.doubleFinished,
		Sessions:    r.sessions.Len() + r.newborn.Len(),
		SessionHits: s.Hits, SessionMisses: s.Misses, SessionEvictions: s.Evictions,
		Responses:      r.responses.Len(),
		RetriesRefused: r.retries.refused, EjectionsSpared: r.spared, Panics: r.panicked,
	}
}
