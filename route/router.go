// Package route decides where requests go. A Router gets the time, the requests and the events, and returns decisions.
//
// It owns the order of steps: which endpoints may take a request, which rooms fill in what is known of them, when a request is
// split, and what each event changes in which order. It owns the declared endpoints, the pools by model, and the leases. Learnt
// state belongs to the packages below it, one kind each. It promises that only the last step of a decision writes, and that
// each lease ends once. It does no I/O, reads no clock and stores no text: the live router and the simulator run the same code.
package route

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/arrivals"
	"github.com/warmpath/warmpath/route/backlog"
	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/budget"
	"github.com/warmpath/warmpath/route/cache"
	"github.com/warmpath/warmpath/route/conversation"
	"github.com/warmpath/warmpath/route/health"
	"github.com/warmpath/warmpath/route/shortlist"
	"github.com/warmpath/warmpath/route/speed"
)

// Router is the state machine that decides. It gets the time, the requests and the events; it does no I/O, reads no clock and
// stores no text. It is not safe for concurrent use (package live wraps it).
type Router struct {
	registry
	see readers // read-only view for the steps of a decision

	flights []flight // indexed by the low half of a Lease
	free    []uint32 // free indexes of flights
	open    int

	// The rooms.
	conversations *conversation.Table
	health        *health.Table
	budget        *budget.Budget
	cache         *cache.Table
	arrivals      arrivals.Table
	backlog       backlog.Table
	speed         speed.Table
	shortlist     shortlist.Table

	pad   decision // memory of the next decision
	ended Ended    // result of the latest Finished, valid until the next one

	dispatched []backlog.Dispatched // scratch, see dispatch
	called     []fleet.Lease        // scratch, see dispatch

	others others // other routers of the fleet

	walk   walk // of the current snapshot
	worked bool // there was a request, of this router or another

	decisions, doubleFinished uint64
	panicked                  uint64 // decisions that ignored ejections
	queueRefused              uint64 // requests rejected because the queue was full
}

// registry holds the declared endpoints and the pools by model.
type registry struct {
	cfg *Config

	endpoints []*endpoint // in order of declaration; those that left stay until their last lease ends
	byName    map[string]*endpoint
	byKey     map[uint64]*endpoint // by the hash of their names
	bySlot    []*endpoint          // nil for a free slot
	freeSlots []int                // free slots, to be reused
	slots     int                  // number of slots ever used

	generation uint64 // counts changes of models and endpoints
	refreshed  uint64 // generation of the pools' members
	pools      map[string]*pool
	keptPools  []*pool // the same in order of creation
	aliases    map[string][]string

	restored restored // from a snapshot
}

// readers is what all steps of a decision but the last may use: the registry, and the Reader of each room. They write to no
// room; their results are in the decision.
type readers struct {
	*registry
	conversations conversation.Reader
	health        health.Reader
	cache         cache.Reader
	speed         speed.Reader
	arrivals      arrivals.Reader
	backlog       backlog.Reader
	shortlist     shortlist.Reader

	counting bool // a policy uses them, see pick.Counting
	awaiting bool // a policy uses returns, see pick.Awaiting
}

// New returns a router. It panics on a Config that does not pass Validate.
func New(c Config) *Router {
	c = c.WithDefaults()
	if c.Without.Has(ablation.Queue) {
		c.Queue.Ahead = 0
	}
	if err := c.Validate(); err != nil {
		panic("route: " + err.Error())
	}
	r := &Router{
		registry:      registry{cfg: &c, byName: map[string]*endpoint{}, byKey: map[uint64]*endpoint{}, pools: map[string]*pool{}, aliases: map[string][]string{}},
		health:        health.New(c.health()),
		conversations: conversation.New(c.conversations()),
		cache:         cache.New(c.Without),
		arrivals:      arrivals.New(c.Without),
		speed:         speed.New(c.Without),
		backlog:       backlog.New(c.backlog()),
		budget:        budget.New(c.budget()),
		others:        others{peers: map[uint64]*peer{}, leases: map[peerLease]uint32{}, pools: map[uint64]string{}},
	}
	r.see = readers{
		registry: &r.registry, conversations: r.conversations.Reader(), health: r.health.Reader(), cache: r.cache.Reader(),
		speed: r.speed.Reader(), arrivals: r.arrivals.Reader(), backlog: r.backlog.Reader(),
		shortlist: r.shortlist.Reader(),
	}
	r.pad.pcg = rand.NewPCG(0, 0)
	r.pad.rng = rand.New(r.pad.pcg)
	r.derive()
	return r
}

// configure replaces the configuration.
func (r *Router) configure(c Config, policies bool) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		panic("route: " + err.Error())
	}
	r.cfg = &c
	r.health.SetConfig(c.health())
	r.conversations.SetConfig(c.conversations())
	r.backlog.SetConfig(c.backlog())
	r.budget.SetConfig(c.budget())
	r.derive()
	if policies {
		for _, p := range r.keptPools {
			p.policy, p.prefill = nil, nil
		}
	}
	r.generation++ // aliases and the rules for splitting determine the members of pools
}

// derive computes the state that depends on the configuration.
func (r *Router) derive() {
	r.see.counting, r.see.awaiting = r.cfg.Counting, r.cfg.Awaiting
	r.see.wants(r.cfg.Policy())
	r.see.wants(r.cfg.Disaggregation.Prefill())
	r.see.wants(r.cfg.Disaggregation.Decode())
	clear(r.aliases)
	for _, a := range r.cfg.Aliases {
		r.aliases[a.Name] = a.Models
	}
}

// placeHash is the hash by which a request without a home is placed.
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
	DoubleFinished   uint64 // Finished for a lease that was not open: an internal error
	Sessions         int
	SessionHits      uint64
	SessionMisses    uint64
	SessionEvictions uint64
	Responses        int    // response ids remembered
	RetriesRefused   uint64 // retries refused by the retry budget
	EjectionsSpared  uint64 // failed requests that ejected nothing because of EjectShare
	QueueRefused     uint64 // requests rejected because the queue was full
	Panics           uint64 // decisions that ignored ejections for failed requests because too few endpoints were left
}

// Stats returns the counters.
func (r *Router) Stats() Stats {
	s := r.conversations.Stats()
	return Stats{
		Decisions: r.decisions, Leases: r.open, DoubleFinished: r.doubleFinished,
		Sessions:    s.Sessions,
		SessionHits: s.Hits, SessionMisses: s.Misses, SessionEvictions: s.Evictions,
		Responses:      s.Responses,
		RetriesRefused: r.budget.Refused(), EjectionsSpared: r.health.Spared(), Panics: r.panicked, QueueRefused: r.queueRefused,
	}
}
