// Package backlog accounts for the outstanding work of endpoints and predicts how long one more request waits.
//
// It owns each endpoint's load (job.go), the router's queue for it (queue.go), its order by priority, use of the tenant
// and size (share.go), the prompts sent to it (prompts.go) and the KV transfers to it (link.go), with a Job per lease;
// expect.go predicts the wait, overdue.go says which answers are late. It promises that a job that is opened and closed
// leaves nothing behind, and that a Reader changes nothing. It learns no speeds: it asks its Rates, and callers learn
// from the Jobs it returns. Times are in ms, sizes in tokens; endpoints are identified by slot, jobs by the number of
// their lease.
package backlog

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/slot"
)

// Rates are the speeds of endpoints, learnt or assumed.
type Rates interface {
	MsPerToken(slot int) float64        // per prompt token; at least LeastMsPerToken
	MsPerAnswer(slot int) float64       // per answer token after the first; above 0
	DecodeMs(slot int) float64          // from first byte to end of a request; 0 unknown
	InOrder(slot int) (yes, known bool) // whether it computes prompts one after another
	Transfer(now time.Time, slot int) Transfer
	Known(slot int) Known
}

// Known says how well the speed of an endpoint is known.
type Known struct {
	Own, Any    bool    // there are samples of this endpoint, and of any
	MsPerAnswer float64 // slowest known time per answer token; 0 unknown
}

// Transfer is the speed of KV transfers to an endpoint.
type Transfer struct {
	MsPerToken, FixedMs float64
}

// LeastMsPerToken is the fastest prefill assumed, a million tokens per second.
const LeastMsPerToken = 1e-3

// LeastAnswer is the minimum number of answer tokens for a sample of decode speed.
const LeastAnswer = 16

// Config configures the accounts.
type Config struct {
	// of the queues, see route.QueueConfig; Patience and Promote are not 0
	Ahead    time.Duration
	Patience float64
	Promote  time.Duration
	Most     int

	Without    ablation.Set
	StaleAfter time.Duration // how long an engine's report of its load counts
	Silent     time.Duration // time without a sign of life before an answer can be overdue; negative: never overdue
}

// Table is the outstanding work of all endpoints.
type Table struct {
	Reader
	cfg           Config
	rates         Rates
	endpoints     slot.Table[endpoint]
	order         slot.Order // slots in order of declaration
	jobs          slot.Table[Job]
	queued        int    // this router's jobs in its queues
	foreign       int    // other routers' jobs in their queues
	arrivalCount  uint64 // jobs that were queued so far
	clock         clock
	tenants       tenants
	unsharedShare fit.Mean  // share of its tokens in memory that a job of this router does not share with all others
	ends          []float64 // memory of linkProgress
}

// endpoint is the outstanding work of one endpoint.
type endpoint struct {
	slot   int
	places int   // requests it computes concurrently; 0 unknown
	memory int64 // tokens of KV cache it can hold; 0 unknown
	// tokens of memory that it may be sent, since it fails all of its requests when they have more; 0 for any number
	room             int64
	overfilled       time.Time // when it last did
	load             fleet.Load
	unshared         int64 // of load.ContextTokens, those not shared with all others
	limit            int   // requests that it computed when it last reported that others wait in it; 0 unknown
	limitAt          time.Time
	pendingTransfers []pending // decode legs whose KV cache has not arrived; among load.Requests

	queue   queue   // at the router
	prompts prompts // at the engine
	link    link

	promptMs   float64 // total prefill time up to promptedAt, in ms
	promptedAt time.Time
}

// New returns a table without endpoints, whose speeds are told by rates.
func New(c Config, rates Rates) *Table {
	t := &Table{cfg: c, rates: rates, tenants: tenants{of: map[string]*tenant{}}}
	t.Reader = Reader{t}
	return t
}

// SetConfig replaces the Config. Queued jobs stay queued until their endpoint has room, even if the queue is switched
// off.
func (t *Table) SetConfig(c Config) { t.cfg = c }

// AddEndpoint adds an endpoint. Queues are dispatched in the order of the calls.
func (t *Table) AddEndpoint(slot int) {
	*t.endpoints.Grow(slot) = endpoint{slot: slot, prompts: prompts{arrivals: new(arrivalRing)}}
	t.order = append(t.order, slot)
}

// RemoveEndpoint removes an endpoint without work.
func (t *Table) RemoveEndpoint(slot int) {
	t.endpoints.Reset(slot)
	t.order.Remove(slot)
}

// Describe sets how many requests an endpoint computes concurrently and how many tokens its KV cache can hold; 0 is
// unknown. It fails all of its requests once they do not fit in its cache together, where that is said.
func (t *Table) Describe(slot, places int, memory int64, together bool) {
	e := t.endpoints.Get(slot)
	if memory != e.memory {
		e.room = 0
	}
	if together && e.room == 0 {
		e.room = memory
	}
	e.places, e.memory = places, memory
}

// Reported takes in an engine's own report of how many requests it computes, and how many wait in it.
func (t *Table) Reported(now time.Time, slot int, l *fleet.LoadReport) {
	if e := t.endpoints.Get(slot); l.Running > 0 && l.Waiting > 0 {
		e.limit, e.limitAt = l.Running, now
	}
}

// sent is the number of requests that have or await a place at the engine; the others are queued at the router, or
// auxiliary ones.
func (e *endpoint) sent() int { return e.load.Working() - e.queue.n }

// decoding estimates how many requests are being answered: of non-streamed ones the end of prefill is not observed.
func (e *endpoint) decoding(sent int) int {
	return max(0, sent-len(e.pendingTransfers)-e.prompts.streams)
}

// prompting is the endpoint's total prefill time in ms; only differences matter. Call it before adding or removing a
// prompt.
func (e *endpoint) prompting(now time.Time) float64 {
	if e.prompts.streams > 0 {
		e.promptMs += fleet.Ms(now.Sub(e.promptedAt))
	}
	e.promptedAt = now
	return e.promptMs
}

// Reader reads the accounts and never changes them.
type Reader struct{ t *Table }

// Load is an endpoint's outstanding work.
func (r Reader) Load(slot int) (l fleet.Load) {
	r.LoadInto(slot, &l)
	return l
}

// LoadInto is Load without a copy.
func (r Reader) LoadInto(slot int, l *fleet.Load) {
	e := r.t.endpoints.Get(slot)
	*l = e.load
	l.Queued = e.queue.n
}

// Idle reports whether an endpoint has no outstanding work.
func (r Reader) Idle(slot int) bool {
	l := &r.t.endpoints.Get(slot).load
	return l.Requests == 0 && l.TransferRequests == 0
}

// Queued is the number of this router's queued jobs, at all endpoints.
func (r Reader) Queued() int { return r.t.queued }

// Full reports whether no more may wait, beside those that wait elsewhere in the router, of which some are the asker's,
// and how many do: of the tenant if own, since its own limit is reached.
func (r Reader) Full(who Asker, elsewhere, askers int) (full, own bool, waiting int) {
	waiting = askers
	if x := r.t.tenants.of[who.Tenant]; x != nil {
		waiting += x.queued // at all routers and endpoints
	}
	if most := who.QueueClass.MaxWaiting; most > 0 && waiting >= most {
		return true, true, waiting
	}
	waiting = r.t.queued + r.t.foreign + elsewhere
	most := r.t.cfg.Most
	return most > 0 && waiting >= most, false, waiting
}

// WouldQueue reports whether Open would queue a job.
func (r Reader) WouldQueue(now time.Time, w Work) bool {
	j := newJob(now, w)
	return r.t.mustQueue(now, r.t.endpoints.Get(w.Slot), &j)
}

// Job is the job of a lease. It is valid until the number is reused.
func (r Reader) Job(n uint32) *Job { return r.t.jobs.Get(int(n)) }

// Audit reports what remains on the accounts of an endpoint without open jobs; nil if nothing does.
func (r Reader) Audit(slot int) error {
	e := r.t.endpoints.Get(slot)
	p, q, area := &e.prompts, &e.queue, e.link.area
	if e.load == (fleet.Load{}) && p.streamTokens == 0 && p.streams == 0 && p.head == 0 && e.unshared == 0 &&
		q.n == 0 && len(q.groups) == 0 && q.tokens == 0 && q.unshared == 0 && q.context == 0 && q.foreign == 0 &&
		q.ranked == [2]int{} && len(e.pendingTransfers) == 0 && area >= 0 && !math.IsInf(area, 1) {
		return nil
	}
	return fmt.Errorf("left are load %+v, prompts %+v, queue %+v, transfers %v, a link that carried %v, and %d tokens "+
		"of memory", e.load, *p, *q, e.pendingTransfers, area, e.unshared)
}
