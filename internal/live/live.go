// Package live drives the pure router in real time: it owns the clock, the lock, the seeds and the listeners. All that
// the router is told passes through here, so metrics, logs and the admin page are listeners, not callers.
package live

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Fleet is a route.Router behind one lock, on the wall clock.
type Fleet struct {
	now       func() time.Time
	listeners atomic.Pointer[[]Listener]

	mu     sync.Mutex // guards router, and orders the calls of Listener.Entry
	router *route.Router
	entry  route.Entry // what the listeners are being told; listeners may not keep it
	made   route.Made  // has the decisions in it

	dispatched map[fleet.Lease]chan struct{} // of those in line, closed when it is their turn

	changed    chan struct{} // what Changed returned; nil until it is called again
	generation uint64        // of what endpoints serve, when it was made

	roles  atomic.Bool  // some endpoint has one
	listed atomic.Int64 // how many endpoints the last Status had

	declaring   sync.Mutex // held while endpoints are declared: source after source
	configuring sync.Mutex // held while a configuration is taken in: one after another

	snapshot sync.Mutex // held during a snapshot: there is one at a time

	note atomic.Pointer[func() (ready bool, why string)] // see SetNote
}

// New makes a Fleet around a router. now is the clock, time.Now in production.
func New(r *route.Router, now func() time.Time, listeners ...Listener) *Fleet {
	f := &Fleet{router: r, now: now, dispatched: map[fleet.Lease]chan struct{}{}}
	f.listeners.Store(&listeners)
	return f
}

// ask asks the router inside the lock.
func ask[T any](f *Fleet, what func(*route.Router) T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return what(f.router)
}

// SetListeners replaces all listeners between two entries. A request that is served meanwhile is told to either set,
// once.
func (f *Fleet) SetListeners(listeners ...Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners.Store(&listeners)
}

// Decide decides where a request goes and reserves its work there, see route.Router.Decide. Each lease in the plan must
// be ended by exactly one Observe(route.Finished{...}), that of a hold by that or by Decide with Attempt.Hold. It draws
// req.Seed when that is zero.
func (f *Fleet) Decide(req *fleet.Request) (p route.Plan, err error) {
	err = f.DecideInto(req, &p)
	return p, err
}

// DecideInto is Decide with a plan to overwrite: copies of more than 1 kB take time and cache.
func (f *Fleet) DecideInto(req *fleet.Request, plan *route.Plan) error {
	if req.Seed == 0 {
		req.Seed = rand.Uint64()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, p := f.now(), &f.made
	*p = route.Made{}
	err := f.router.DecideInto(now, req, p)
	*plan, f.entry = p.Plan, p.Entry(now, req, err)
	if p.Hold.Lease != 0 {
		f.dispatched[p.Hold.Lease] = make(chan struct{})
	}
	f.stand(&p.Decision)
	f.stand(&p.Prefill)
	f.tell()
	return err
}

// Observe tells the router an event. Of one that would hold the lock for long it makes several: of a long list of
// endpoints, of what has changed.
func (f *Fleet) Observe(ev route.Event) {
	switch ev := ev.(type) {
	case route.Declared:
		f.declaring.Lock()
		defer f.declaring.Unlock()
		if f.declareInSteps(&ev) {
			return
		}
	case route.KVApplied:
		ev.Steps(applyStep, func(some *route.KVApplied) { f.observe(*some) })
		return
	case route.PeerGone:
		for f.ending(ev.Peer) {
			f.observe(route.PeerGone{Peer: ev.Peer, Partly: true})
		}
	case route.Configured:
		f.configureInSteps(&ev)
		return
	}
	f.observe(ev)
}

// configureInSteps replaces the configuration, one alias after another, for the members of its pool are computed anew,
// and then all else at once: policies must not meet the settings of others.
func (f *Fleet) configureInSteps(ev *route.Configured) {
	f.configuring.Lock()
	defer f.configuring.Unlock()
	step := route.Configured{Config: ask(f, (*route.Router).Config)}
	aliases := slices.Clone(step.Config.Aliases)
	for _, a := range ev.Config.Aliases {
		i := slices.IndexFunc(aliases, func(old fleet.Alias) bool { return old.Name == a.Name })
		switch {
		case i < 0:
			aliases = append(aliases, a)
		case aliases[i].Equal(a):
			continue
		default:
			aliases[i] = a
		}
		step.Config.Aliases = slices.Clone(aliases)
		f.observe(step)
	}
	for len(aliases) > len(ev.Config.Aliases) {
		i := slices.IndexFunc(aliases, func(old fleet.Alias) bool {
			return !slices.ContainsFunc(ev.Config.Aliases, func(a fleet.Alias) bool { return a.Name == old.Name })
		})
		aliases = slices.Delete(aliases, i, i+1)
		step.Config.Aliases = slices.Clone(aliases)
		f.observe(step)
	}
	f.observe(*ev)
}

// closeStep is in how many pools a conversation is closed in one hold of the lock.
const closeStep = 64

// Close says that a tenant's conversation is over, in all pools, and reports whether it was known.
func (f *Fleet) Close(tenant, id string) (known bool) {
	for some := range slices.Chunk(ask(f, (*route.Router).Pools), closeStep) {
		known = f.observe(route.Closed{Tenant: tenant, Session: id, Pools: some}) || known
	}
	return known
}

// Keepers are the endpoints that are to be told the end of a session, see route.Router.Keepers.
func (f *Fleet) Keepers() []fleet.Endpoint { return ask(f, (*route.Router).Keepers) }

// ending reports whether a router that is gone has requests to end.
func (f *Fleet) ending(peer uint64) bool {
	return ask(f, func(r *route.Router) bool { return r.Ending(peer) })
}

// applyStep is about how many blocks of an engine's events are taken in in one hold of the lock.
const applyStep = 256

// declareStep is how many endpoints come or go in one hold of the lock.
const declareStep = 4

// declareInSteps declares a snapshot by its differences, and reports false if all endpoints are few enough for one
// step.
func (f *Fleet) declareInSteps(d *route.Declared) bool {
	if len(d.Endpoints) <= declareStep && ask(f, (*route.Router).Endpoints) <= declareStep {
		return false
	}
	s := route.NewSurvey(d)
	for more := true; more; {
		f.mu.Lock()
		more = f.router.Survey(f.now(), d, s)
		f.mu.Unlock()
	}
	for some := range slices.Chunk(s.Fresh, declareStep) {
		f.observe(route.Declared{Source: d.Source, Endpoints: some, Partly: true, Gently: s.Gently})
	}
	for some := range slices.Chunk(s.Left, declareStep) {
		f.observe(route.Declared{Source: d.Source, Left: some, Partly: true})
	}
	return true
}

// observe reports what Entry.Closed does.
func (f *Fleet) observe(ev route.Event) (closed bool) {
	more, closed := f.step(ev)
	for more {
		more, _ = f.step(route.Tick{})
	}
	return closed
}

// step tells the router an event and reports whether a Tick is to follow, and what Entry.Closed does.
func (f *Fleet) step(ev route.Event) (more, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entry = f.router.Observe(f.now(), ev)
	switch ev := ev.(type) {
	case route.Declared:
		f.roles.Store(f.router.Roles())
	case route.Finished:
		delete(f.dispatched, ev.Lease) // it may have left the line
	}
	called, more, closed := f.entry.Dispatched, f.entry.More, f.entry.Closed
	f.noteChange(ev)
	f.tell()
	for _, l := range called { // after the listeners have heard of it
		if turn := f.dispatched[l]; turn != nil {
			close(turn)
			delete(f.dispatched, l)
		}
	}
	return more, closed
}

// Changed is closed when a request that could not be placed may have a place: when an endpoint has come, serves other
// models or is in another state, or with another configuration.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed, f.generation = make(chan struct{}), f.router.Generation()
	}
	return f.changed
}

// noteChange tells those who wait for one.
func (f *Fleet) noteChange(ev route.Event) {
	_, configured := ev.(route.Configured)
	if f.changed != nil && (configured || len(f.entry.Changes) > 0 || f.router.Generation() != f.generation) {
		close(f.changed)
		f.changed = nil
	}
}

// stand notes that a request stands in line.
func (f *Fleet) stand(d *route.Decision) {
	if d.Queued {
		f.dispatched[d.Lease] = make(chan struct{})
	}
}

// Dispatched is closed when it is the turn of a request whose Decision.Queued, or which is held; nil when it is
// already.
func (f *Fleet) Dispatched(l fleet.Lease) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dispatched[l]
}

// Queued is how many requests stand in line at this router.
func (f *Fleet) Queued() int { return ask(f, (*route.Router).Queued) }

// Held is how many requests this router holds before they are placed.
func (f *Fleet) Held() int { return ask(f, (*route.Router).Held) }

// HeldTurns lists the turns that this router holds, see route.Router.HeldTurns.
func (f *Fleet) HeldTurns(most int) []route.HeldTurn {
	return ask(f, func(r *route.Router) []route.HeldTurn { return r.HeldTurns(most) })
}

// Running lists what runs of a request, see route.Router.Running.
func (f *Fleet) Running(request string) []route.Running {
	return ask(f, func(r *route.Router) []route.Running { return r.Running(request) })
}

// Inside calls a function inside the lock: between two entries, of which listeners hear the one before it and the other
// after it. It must not block, decide or observe.
func (f *Fleet) Inside(do func(now time.Time, r *route.Router)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f.now(), f.router)
}

// Roles reports whether some endpoint has a role, so that requests may be split. It takes no lock.
func (f *Fleet) Roles() bool { return f.roles.Load() }

// tell hands the entry to the listeners, and lets go of what it points to.
func (f *Fleet) tell() {
	for _, l := range *f.listeners.Load() {
		if l.Entry != nil {
			l.Entry(&f.entry)
		}
	}
	f.entry = route.Entry{}
}

// Served tells the listeners the end of a client request.
func (f *Fleet) Served(s *Served) {
	for _, l := range *f.listeners.Load() {
		if l.Served != nil {
			l.Served(s)
		}
	}
}

// Retried tells the listeners that an attempt failed and another is made.
func (f *Fleet) Retried(endpoint string, o fleet.Outcome) {
	for _, l := range *f.listeners.Load() {
		if l.Retry != nil {
			l.Retry(endpoint, o)
		}
	}
}

// Status lists the endpoints in order of declaration. Of a large fleet the lock is let go of now and then, so that
// requests are decided in between.
func (f *Fleet) Status() []route.EndpointStatus {
	all := route.Statuses{Of: make([]route.EndpointStatus, 0, f.listed.Load())}
	for more := true; more; {
		f.mu.Lock()
		more = f.router.Describe(f.now(), &all)
		f.mu.Unlock()
	}
	f.listed.Store(int64(len(all.Of)))
	return all.Of
}

// HasRequests reports whether an endpoint has requests of this router at an address, see route.Router.HasRequests.
func (f *Fleet) HasRequests(endpoint, url string) bool {
	return ask(f, func(r *route.Router) bool { return r.HasRequests(endpoint, url) })
}

// Moved reports whether the name of an endpoint, as it was when a request was sent there, means another engine now.
func (f *Fleet) Moved(from *fleet.Endpoint) bool {
	return ask(f, func(r *route.Router) bool { return r.Moved(from) })
}

// Each calls f with each declared endpoint, in order of declaration. It holds the lock: f is quick, and keeps nothing.
func (f *Fleet) Each(do func(*fleet.Endpoint)) {
	f.Inside(func(_ time.Time, r *route.Router) { r.Each(do) })
}

// EachModel calls f with the models that endpoints list, see route.Router.EachModel. It holds the lock, as Each does.
func (f *Fleet) EachModel(do func(kind fleet.Kind, id, parent string) bool) {
	f.Inside(func(_ time.Time, r *route.Router) { r.EachModel(do) })
}

// Models lists the models and aliases that can be asked for, sorted by id.
func (f *Fleet) Models() []fleet.ModelStatus { return ask(f, (*route.Router).Models) }

// Stats is a snapshot of the router's own counters.
func (f *Fleet) Stats() route.Stats { return ask(f, (*route.Router).Stats) }

// Ready reports whether at least one endpoint can take a request now; when none can, why says what is wrong. It may say
// what is amiss although some can: a role without peers, so that nothing is split.
func (f *Fleet) Ready() (ok bool, why string) {
	f.mu.Lock()
	ok, why = f.router.Ready(f.now())
	f.mu.Unlock()
	if note := f.note.Load(); ok && note != nil {
		if ready, more := (*note)(); !ready || why == "" {
			ok, why = ready, more
		}
	}
	return ok, why
}

// SetNote sets a further judge of Ready: whether requests can be taken as far as it knows, and what is amiss.
func (f *Fleet) SetNote(note func() (ready bool, why string)) { f.note.Store(&note) }

// Snapshot hands out the pieces of what the router has learnt, in order, until yield returns false. Requests are
// decided between any two.
func (f *Fleet) Snapshot(yield func(*route.Piece) bool) {
	f.snapshot.Lock()
	defer f.snapshot.Unlock()
	f.mu.Lock()
	f.router.Rewind()
	f.mu.Unlock()
	for {
		f.mu.Lock()
		p, more := f.router.Snapshot(f.now())
		f.mu.Unlock()
		if !more || !yield(&p) {
			return
		}
	}
}

// Restore takes in the pieces of a snapshot that was kept for later since.
func (f *Fleet) Restore(pieces []route.Piece, later time.Duration) {
	for i := range pieces {
		f.mu.Lock()
		f.router.Restore(f.now(), &pieces[i], later)
		f.mu.Unlock()
	}
}
