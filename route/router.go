// Package route is DECIDE: a router that is told the time, the requests and the events, and answers with decisions. It keeps
// the books of what it sent where, judges the health of endpoints, groups them into pools by the models they serve, remembers
// conversations, and lets a Policy choose among the endpoints that may take a request. It is pure: the live router and the
// simulator drive the same code.
package route

import (
	"math/rand/v2"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/session"
)

// Router is the state machine that decides. It is told the time, the requests and the events, and answers; it does no
// I/O, reads no clock and holds no text. It is not safe for concurrent use (package live wraps it).
type Router struct {
	cfg Config

	endpoints []*endpoint // in order of declaration; those gone stay until their last lease ends
	byName    map[string]*endpoint
	freeSlots []int // slots of endpoints that left, to be used again
	slots     int   // slots handed out so far

	generation uint64 // counts changes of who serves what; pools rebuild their members when it moved
	pools      map[string]*pool
	aliases    map[string][]string

	sessions  *session.Table // conversations whose id a client has sent
	newborn   *session.Table // conversations under an id we minted and nobody has gone on with yet
	responses *session.Table // response id -> endpoint that holds it
	trails    *session.Trails

	flights []flight // indexed by the low half of a Lease
	free    []uint32 // indexes of flights that may be used again
	open    int

	pcg     *rand.PCG
	rng     *rand.Rand
	members []*member // scratch: the members behind view.Candidates
	view    View      // scratch
	ended   Ended     // scratch: what the latest Finished told, valid until the next one

	decisions, doubleFinished uint64
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
		pcg:       rand.NewPCG(0, 0),
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
// *ModelRequiredError, *PinError and *NoEndpointError.
func (r *Router) Route(now time.Time, req *Request) (Decision, error) {
	p, err := r.poolFor(req)
	if err != nil {
		return Decision{}, err
	}
	tokens := p.promptTokens(req)
	talk := r.recall(now, p, req)
	holder, err := r.candidates(now, p, req, tokens, talk)
	if err != nil {
		return Decision{}, err
	}
	v := &r.view
	v.Now, v.PromptTokens, v.OutputTokens = now, tokens, p.outputTokens(req)
	v.FirstTurn = !talk.known || talk.entry.Turns == 1 && len(req.Tried) > 0 // a retry is still the same turn
	v.Home = r.home(talk)
	v.Hash = placeHash(req, talk.id)
	r.pcg.Seed(req.Seed, 0x9e3779b97f4a7c15)
	v.Rand = r.rng
	r.predict(talk)

	choice := r.choose(p, req, holder)
	ep, c := r.members[choice.Index].ep, &v.Candidates[choice.Index]
	d := Decision{
		Endpoint: ep.spec, Kind: ep.kind(), Model: c.Model, Pool: p.name, Policy: r.cfg.PolicyName,
		Session: talk.id, FirstTurn: v.FirstTurn && req.Class == Turn, Reason: choice.Reason, Candidates: len(v.Candidates),
		PromptTokens: tokens, CachedTokens: c.CachedTokens,
	}
	if d.Model == "" || req.Model == "" {
		d.Model = req.Model
	}
	d.Lease = r.reserve(now, ep, p, req, &d)
	if req.Class == Turn {
		r.bind(now, p, req, talk, ep, c.Model)
	}
	r.decisions++
	return d, nil
}

func (r *Router) choose(p *pool, req *Request, holder int) Choice {
	switch {
	case holder >= 0:
		return Choice{holder, ReasonHolder}
	case req.Pin != "":
		return Choice{0, ReasonPinned}
	case len(r.view.Candidates) == 1:
		if r.view.Home == 0 {
			return Choice{0, ReasonSession}
		}
		return Choice{0, ReasonOnly}
	}
	return p.policy.Pick(&r.view, req)
}

// talk is what the router remembers of the conversation that a request belongs to.
type talk struct {
	id      string
	minted  bool // the client sent no id
	known   bool
	entry   session.Entry
	newborn bool // known under an id that we minted, and now gone on with for the first time
}

// recall finds the conversation of a request.
func (r *Router) recall(now time.Time, p *pool, req *Request) talk {
	t := talk{id: req.Session, minted: req.Session == ""}
	if t.minted {
		t.id = req.MintedID
		if req.Trail == nil || req.Class != Turn {
			if len(req.Tried) > 0 {
				t.entry, t.known = r.newborn.Get(now, req.Tenant, p.name, t.id)
			}
			return t
		}
		followed := false
		req.Trail.Scope = placeHash(&Request{Tenant: req.Tenant, HashKey: p.name}, "")
		if t.id, followed = r.trails.Follow(req.Trail, t.id); !followed {
			return t
		}
		t.minted = false
	}
	if t.entry, t.known = r.sessions.Get(now, req.Tenant, p.name, t.id); t.known {
		return t
	}
	if t.entry, t.known = r.newborn.Get(now, req.Tenant, p.name, t.id); t.known {
		t.newborn = true
	}
	return t
}

// bind remembers where a conversation's turn goes. What is warm there is only known once the prefill is done, so the
// tokens carry over only while the conversation stays.
func (r *Router) bind(now time.Time, p *pool, req *Request, t talk, ep *endpoint, model string) {
	if t.id == "" {
		return
	}
	e := session.Entry{Endpoint: ep.spec.Name, Model: model, Epoch: ep.epoch, Turns: t.entry.Turns, Last: now}
	if len(req.Tried) == 0 || e.Turns == 0 {
		e.Turns++
	}
	if t.entry.Endpoint == ep.spec.Name && t.entry.Epoch == ep.epoch {
		e.Tokens = t.entry.Tokens
	}
	if t.minted {
		r.newborn.Put(now, req.Tenant, p.name, t.id, e)
		return
	}
	r.sessions.Put(now, req.Tenant, p.name, t.id, e)
	if t.newborn {
		r.newborn.Delete(req.Tenant, p.name, t.id)
	}
}

// warm updates how many tokens of a conversation its endpoint holds, if the conversation is still there.
func (r *Router) warm(now time.Time, f *flight, tokens int) {
	if f.class != Turn || f.session == "" {
		return
	}
	table := r.sessions
	e, ok := table.Get(now, f.tenant, f.pool.name, f.session)
	if !ok {
		table = r.newborn
		e, ok = table.Get(now, f.tenant, f.pool.name, f.session)
	}
	if !ok || e.Endpoint != f.ep.spec.Name || f.incarnation != f.ep.incarnation {
		return
	}
	e.Epoch, e.Tokens, e.Last = f.ep.epoch, tokens, now
	table.Put(now, f.tenant, f.pool.name, f.session, e)
}

// home is the index of the conversation's endpoint among the candidates, -1 when there is none.
func (r *Router) home(t talk) int {
	if !t.known {
		return -1
	}
	for i, m := range r.members {
		if m.ep.spec.Name == t.entry.Endpoint {
			return i
		}
	}
	return -1
}

// predict fills in how much of the prompt each candidate probably holds: a conversation's home holds what it computed
// and produced for the previous turns.
func (r *Router) predict(t talk) {
	v := &r.view
	if v.Home < 0 || v.PromptTokens == 0 || r.members[v.Home].ep.epoch != t.entry.Epoch {
		return
	}
	v.Candidates[v.Home].CachedTokens = min(t.entry.Tokens, v.PromptTokens-1)
}

func placeHash(req *Request, id string) uint64 {
	key := req.HashKey
	if key == "" {
		key = id
	}
	h := xxh3.HashString(key)
	if req.Tenant != "" {
		h ^= xxh3.HashString(req.Tenant) * 0x9e3779b97f4a7c15
	}
	return h
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
	Responses        int // response ids remembered
}

// Stats is a snapshot of the counters.
func (r *Router) Stats() Stats {
	s := r.sessions.Stats()
	return Stats{
		Decisions: r.decisions, Leases: r.open, DoubleFinished: r.doubleFinished,
		Sessions:    r.sessions.Len() + r.newborn.Len(),
		SessionHits: s.Hits, SessionMisses: s.Misses, SessionEvictions: s.Evictions,
		Responses: r.responses.Len(),
	}
}
