// Package route decides where requests go. A Router is told the time, the requests and the events, and answers with decisions.
//
// It owns the order of steps: who may take a request, which rooms fill in what is known of them, when a request is split, and what
// each event changes in which order. It owns the declared endpoints, the pools by model, and the leases. What is learnt belongs to
// the packages below it, one kind of state each. It promises that one step of a decision writes, and that each lease ends once. It
// never does I/O, reads no clock and holds no text: the live router and the simulator drive the same code.
package route

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/arrivals"
	"github.com/warmpath/warmpath/route/backlog"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/budget"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
	"github.com/warmpath/warmpath/route/speed"
)

// Router is the state machine that decides. It is told the time, the requests and the events, and answers; it does no
// I/O, reads no clock and holds no text. It is not safe for concurrent use (package live wraps it).
type Router struct {
	cfg Config

	endpoints []*endpoint // in order of declaration; those gone stay until their last lease ends
	byName    map[string]*endpoint
	bySlot    []*endpoint // nil where a slot is free
	freeSlots []int       // slots of endpoints that left, to be used again
	slots     int         // slots handed out so far

	generation uint64 // counts changes of who serves what
	refreshed  uint64 // generation of the members of pools
	pools      map[string]*pool
	keptPools  []*pool // the same, in the order in which they came
	aliases    map[string][]string

	flights []flight // indexed by the low half of a Lease
	free    []uint32 // indexes of flights that may be used again
	open    int

	// The rooms.
	conversations *conversation.Table
	health        *health.Table
	budget        *budget.Budget
	cache         *cache.Table
	arrivals      arrivals.Table
	backlog       backlog.Table
	speed         speed.Table

	counting bool // a policy asks for blocks, see pick.Counting
	awaiting bool // a policy asks for who comes back, see pick.Awaiting

	pad   decision // memory of the next decision
	ended Ended    // what the latest Finished told, valid until the next one

	dispatched []backlog.Dispatched // scratch, see dispatch
	called     []fleet.Lease        // scratch, see dispatch

	late interruptions // of answers, where roles are free

	decisions, doubleFinished uint64
	panicked                  uint64 // decisions that ignored ejections
}

// New makes a router. It panics on a Config that does not pass Validate.
func New(c Config) *Router {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		panic("route: " + err.Error())
	}
	r := &Router{
		cfg:     c,
		byName:  map[string]*endpoint{},
		pools:   map[string]*pool{},
		aliases: map[string][]string{},
		health: health.New(health.Config{
			EjectAfter: c.EjectAfter, EjectFor: c.EjectFor, EjectMax: c.EjectMax, EjectShare: c.EjectShare, PanicShare: c.PanicShare,
			BusyFor: c.BusyFor, BusyMax: c.BusyMax, Ramp: c.Ramp,
		}),
		conversations: conversation.New(conversation.Config{Sessions: c.Sessions, Responses: c.Responses, ResponseTTL: c.ResponseTTL}),
		cache:         cache.New(),
		counting:      c.Counting,
		awaiting:      c.Awaiting,
		backlog:       backlog.New(backlog.Config{Queue: c.Queue, Silent: c.Silent}),
		budget:        budget.New(budget.Config{Share: c.RetryShare, Floor: c.RetryFloor}),
	}
	r.pad.pcg = rand.NewPCG(0, 0)
	r.pad.rng = rand.New(r.pad.pcg)
	r.wants(c.Policy())
	r.wants(c.Disaggregation.Prefill())
	r.wants(c.Disaggregation.Decode())
	for _, a := range c.Aliases {
		r.aliases[a.Name] = a.Models
	}
	return r
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
	s := r.conversations.Stats()
	return Stats{
		Decisions: r.decisions, Leases: r.open, DoubleFinished: r.doubleFinished,
		Sessions:    s.Sessions,
		SessionHits: s.Hits, SessionMisses: s.Misses, SessionEvictions: s.Evictions,
		Responses:      s.Responses,
		RetriesRefused: r.budget.Refused(), EjectionsSpared: r.health.Spared(), Panics: r.panicked,
	}
}
