// Package route decides where requests go. A Router gets the time, the requests and the events, and returns decisions.
// It does no I/O, reads no clock, starts no goroutine and stores no text: its caller has the sockets, the clock and the
// lock, since a Router serves one caller at a time. Equal inputs give equal decisions.
//
// # Using it
//
// New makes a Router from a Config, which needs a policy (package policy). Everything that happens is then an Event for
// Observe:
//
//   - Declared says which endpoints there are, Probed how they are and which models they have. Models may also be
//     declared. Without probes all endpoints stay unknown, and take requests all the same.
//   - Decide says where a request goes, and counts its work there under a lease. What is not known of the request stays
//     zero; its conversation (Session), its length (PromptTokens or PromptBytes) and its Seed matter most. An error
//     says what to answer to the client.
//   - FirstByte says that the first data of the answer is there, Finished how it ended, with the engine's usage. Each
//     lease ends by exactly one Finished, also when the client leaves. From these two the router learns speeds and what
//     is cached. A retry is another Decide, whose Attempt names the endpoints that failed.
//   - A Decision with Queued, or a Plan with a Hold, waits until its lease is in Entry.Dispatched of a later Observe.
//     This takes a Config with Queue, or with Admission. Where nothing else happens, Tick finds those whose time has come.
//   - StreamsAlive, about once a second while requests run, finds endpoints that have fallen silent.
//
// Snapshot and Restore make a router warm after a restart. KVApplied and the other KV events replace estimates of what
// is cached by what engines report (package kvstream). News tell other routers of the same endpoints.
//
// # Inside
//
// A decision (decide.go) goes through steps as values, each of which the next one needs: what is asked (asked.go); the
// endpoints that may take it (candidates.go, overflow.go, prefer.go); a row of what is known of each (rows.go); which
// of them get it, whole or in two legs (legs.go), or that it is held (admission.go), or refused since there is none or
// too many wait (refusal.go). The last step alone writes: reservation.go and binding.go.
// explain.go keeps what a decision rested on. observe.go says which file takes each event, and in which order the rooms
// hear of it: these are the packages below, each of which owns one kind of state.
package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/budget"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/miss"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/shortlist"
	"github.com/warmpath/warmpath/route/internal/speed"
)

// Router is the state machine that decides. It gets the time, the requests and the events; it does no I/O, reads no
// clock and stores no text. It is not safe for concurrent use.
type Router struct {
	cfg     *Config
	readers readers // what the steps of a decision see

	reservations []reservation // indexed by the low half of a Lease
	free         []uint32      // free indexes of reservations

	// The rooms, each with what its Reader says.
	registry      *registry.Table
	pools         *pool.Table
	misses        miss.Table
	conversations *conversation.Table
	health        *health.Table
	budget        *budget.Budget
	cache         *cache.Table
	arrivals      *arrivals.Table
	backlog       *backlog.Table
	speed         *speed.Table
	shortlist     *shortlist.Table
	admission     *admission.Table

	scratch *scratch // memory of the next decision
	ended   Ended    // result of the latest Finished, valid until the next one

	dispatched       []backlog.Dispatched // scratch, see dispatch
	dispatchedLeases []fleet.Lease        // scratch, see dispatch
	slots            []int                // scratch, see takingTraffic

	replicas replicas // other routers of the fleet

	restored restored // from a snapshot

	walk   walk // of the current snapshot
	worked bool // there was a request, of this router or another

	decisions, doubleFinished uint64
	panicked                  uint64 // decisions that ignored ejections
	queueRefused              uint64 // requests rejected because the queue was full
}

// readers is what the steps of a decision see, all but the last: the Reader of each room, and settings. Each decision
// has a copy. So the compiler refuses that such a step changes a room, and what it changes here ends with the decision.
type readers struct {
	registry      registry.Reader
	pools         pool.Reader
	budget        budget.Reader
	conversations conversation.Reader
	health        health.Reader
	cache         cache.Reader
	speed         speed.Reader
	arrivals      arrivals.Reader
	backlog       backlog.Reader
	shortlist     shortlist.Reader
	admission     admission.Reader

	noFallback bool          // see Disaggregation
	shortlists int           // see Config.Shortlist
	staleAfter time.Duration // see Config
	replicas   bool          // see Config
	admits     bool          // see Config.Admission
	without    ablation.Set
	needs      pick.Needs // of all policies and Config.Needs
}

// New returns a router. It panics on a Config that does not pass Validate.
func New(c Config) *Router {
	c = c.prepared()
	declared := registry.New()
	r := &Router{
		registry:  declared,
		pools:     pool.New(declared.Reader, c.pools()),
		health:    health.New(c.health()),
		cache:     cache.New(c.Without),
		arrivals:  arrivals.New(c.Without),
		speed:     speed.New(c.Without),
		budget:    budget.New(c.RetryShare, c.RetryFloor),
		shortlist: shortlist.New(),
		replicas:  replicas{peers: map[uint64]*peer{}, leases: map[peerLease]uint32{}, pools: map[uint64]string{}},
	}
	r.backlog = backlog.New(c.backlog(), r.speed.Reader)
	r.admission = admission.New(!c.Admission, engines{r.cache.Reader, r.speed.Reader, r.arrivals.Reader})
	r.conversations = conversation.New(c.conversations(), r.forgetIdle)
	r.scratch = &scratch{chance: [...]chance{newChance(), newChance()}}
	r.derive(&c)
	return r
}

// prepared is the configuration with its defaults. It panics on one that does not pass Validate.
func (c Config) prepared() Config {
	c = c.WithDefaults()
	if c.Without.Has(ablation.Queue) {
		c.Queue.Ahead = 0
	}
	if err := c.Validate(); err != nil {
		panic("route: " + err.Error())
	}
	return c
}

// configure replaces the configuration. What is switched off for a simulation stays so.
func (r *Router) configure(c Config) {
	c.Without = r.cfg.Without
	c = c.prepared()
	r.health.SetConfig(c.health())
	r.conversations.SetConfig(c.conversations())
	r.backlog.SetConfig(c.backlog())
	r.budget.SetSize(c.RetryShare, c.RetryFloor)
	r.admission.SetOff(!c.Admission)
	r.pools.SetConfig(c.pools())
	clear(r.replicas.pools) // there may be other aliases
	r.derive(&c)
}

// derive sets the configuration and what depends on it.
func (r *Router) derive(c *Config) {
	r.cfg = c
	r.readers = readers{
		registry: r.registry.Reader, pools: r.pools.Reader, budget: r.budget.Reader,
		conversations: r.conversations.Reader, health: r.health.Reader, cache: r.cache.Reader,
		speed: r.speed.Reader, arrivals: r.arrivals.Reader,
		backlog: r.backlog.Reader, shortlist: r.shortlist.Reader, admission: r.admission.Reader,
		noFallback: c.Disaggregation.NoFallback, shortlists: c.Shortlist, staleAfter: c.StaleAfter,
		replicas: c.Replicas, admits: c.Admission, without: c.Without, needs: c.Needs,
	}
	pools := c.pools()
	add := func(of *pool.Rules) {
		for _, make := range [...]func() pick.Policy{of.Policy, of.Prefill, of.Decode} {
			r.readers.needs = r.readers.needs.And(make().Needs())
		}
	}
	add(&pools.Rules)
	for i := range pools.Some {
		add(&pools.Some[i].Rules)
	}
}

// Stats are the router's own counters and sizes.
type Stats struct {
	Decisions        uint64
	Leases           int        // reservations not yet released
	DoubleFinished   uint64     // Finished for a lease that was not open: an internal error
	Sessions         int        // conversations remembered
	SessionHits      uint64     // turns whose conversation was known
	SessionMisses    uint64     // turns whose conversation was unknown
	SessionEvictions uint64     // conversations forgotten to make room, or since they were idle
	Responses        int        // response ids remembered
	RetriesRefused   uint64     // retries refused by the retry budget
	EjectionsSpared  uint64     // failed requests that ejected nothing because of EjectShare
	QueueRefused     uint64     // requests rejected because the queue was full
	Held             int        // turns that wait before they are placed, see Config.Admission
	HeldTokens       int64      // of their conversations
	HeldPools        []HeldPool // the same by pool
	// decisions that ignored ejections for failed requests because too few endpoints were left
	Panics uint64
}

// Stats returns the counters.
func (r *Router) Stats() Stats {
	var pools []HeldPool
	for _, q := range r.admission.Queues() {
		pools = append(pools, HeldPool{Pool: q.Pool, Tokens: q.Tokens})
	}
	s := r.conversations.Stats()
	return Stats{
		Decisions: r.decisions, DoubleFinished: r.doubleFinished,
		Leases:      len(r.reservations) - len(r.free) - len(r.replicas.leases), // those left are other routers'
		Sessions:    s.Sessions,
		SessionHits: s.Hits, SessionMisses: s.Misses, SessionEvictions: s.Evictions,
		Responses:      s.Responses,
		RetriesRefused: r.budget.Refused(), EjectionsSpared: r.health.Spared(), Panics: r.panicked,
		QueueRefused: r.queueRefused, Held: r.admission.Held(), HeldTokens: r.admission.HeldTokens(),
		HeldPools: pools,
	}
}
