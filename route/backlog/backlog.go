// Package backlog accounts for the work that endpoints were given and have not done, and predicts how long one more request waits.
//
// It owns the load of each endpoint, the queue of prompts that the router keeps for it, the prompts that were sent to it, and the
// transfers of KV cache to it, with a Job for each lease. It promises that a job that is opened and closed leaves nothing behind, and
// that a Reader changes nothing. It learns no speeds: who calls hands in Rates, and speeds are learnt of the Jobs that it returns.
// Times are in ms, sizes in tokens, endpoints are named by their slot and jobs by the number of their lease.
package backlog

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/slot"
)

// Rates are the speeds of endpoints, as learnt or assumed.
type Rates interface {
	MsPerToken(slot int) float64  // of a prompt; at least LeastMsPerToken
	MsPerAnswer(slot int) float64 // of a token of an answer after the first; above 0
	HoldMs(slot int) float64      // that a request stays once its prompt is computed; 0 unknown
	InOrder(slot int) bool        // known to compute one prompt after the other
	Transfer(now time.Time, slot int) Transfer
	Known(slot int) Known
}

// Known is how well the speed of an endpoint is known.
type Known struct {
	Own, Any    bool    // something was learnt of this endpoint, and of any
	MsPerAnswer float64 // the longest that a token of an answer is known to take; 0 unknown
}

// Transfer is how fast KV cache comes to an endpoint.
type Transfer struct {
	MsPerToken, FixedMs float64
	Shares              bool // transfers at the same time share the link
}

// LeastMsPerToken is a million tokens a second: no engine is taken to be faster.
const LeastMsPerToken = 1e-3

// LeastAnswer is how many tokens an answer must have for its pace to be measured.
const LeastAnswer = 16

// Config says what the accounts follow.
type Config struct {
	Queue  Queue
	Silent time.Duration // without a sign of life before an answer may be overdue; none ever is where it is negative
}

// Table is the work of all endpoints.
type Table struct {
	cfg       Config
	endpoints slot.Table[endpoint]
	order     []int // slots in order of declaration
	jobs      slot.Table[Job]
	queued    int // jobs in the router's queues
}

// endpoint is the work of one endpoint.
type endpoint struct {
	incarnation uint32 // counts restarts
	places      int    // requests that it computes at once; 0 unknown
	load        fleet.Load
	coming      []uint32 // decode legs whose KV cache is still to come; among load.Requests

	line    line    // at the router
	prompts prompts // at the engine
	link    link

	promptMs   float64 // ms that it has computed prompts up to promptsAt
	promptedAt time.Time
}

// New makes a table without endpoints.
func New(c Config) Table { return Table{cfg: c} }

// Enter adds an endpoint. The order of the calls is that in which queues are dispatched.
func (t *Table) Enter(slot int) {
	*t.endpoints.Get(slot) = endpoint{prompts: prompts{came: new(came)}}
	t.order = append(t.order, slot)
}

// Drop removes an endpoint that has no work.
func (t *Table) Drop(slot int) {
	t.endpoints.Reset(slot)
	t.order = slices.DeleteFunc(t.order, func(s int) bool { return s == slot })
}

// SetPlaces says how many requests an endpoint computes at once; 0 is unknown.
func (t *Table) SetPlaces(slot, places int) { t.endpoints.Get(slot).places = places }

// Restart notes that another engine is at an endpoint: it has none of the prompts that were sent there. Their jobs stay on the accounts
// until they are closed.
func (t *Table) Restart(slot int) {
	e := t.endpoints.Get(slot)
	e.incarnation++
	e.prompts = prompts{came: new(came)}
}

// sent is how many of the endpoint's requests it has been sent; the others are queued at the router.
func (e *endpoint) sent() int { return e.load.Requests - len(e.line.jobs) }

// decoding is how many requests are being answered, as far as can be told: of those that are not streamed nobody sees when their prompt
// is computed.
func (e *endpoint) decoding() int {
	return max(0, e.sent()-len(e.coming)-e.prompts.streams)
}

// prompting is for how many ms in all the endpoint has computed prompts; only differences count. It is to be called before a prompt is
// added or taken off.
func (e *endpoint) prompting(now time.Time) float64 {
	if e.prompts.streams > 0 {
		e.promptMs += Ms(now.Sub(e.promptedAt))
	}
	e.promptedAt = now
	return e.promptMs
}

// Ms is a duration in milliseconds, to the microsecond.
func Ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// duration is the time that so many ms are, to the nanosecond.
func duration(ms float64) time.Duration { return time.Duration(ms * 1e6) }

// Reader reads the accounts and changes nothing.
type Reader struct{ t *Table }

// Reader is the table for reading.
func (t *Table) Reader() Reader { return Reader{t} }

// Load is an endpoint's outstanding work.
func (r Reader) Load(slot int) fleet.Load {
	e := r.t.endpoints.Get(slot)
	l := e.load
	l.InLine = len(e.line.jobs)
	return l
}

// Idle reports whether an endpoint has no work of ours.
func (r Reader) Idle(slot int) bool {
	l := &r.t.endpoints.Get(slot).load
	return l.Requests == 0 && l.TransferRequests == 0
}

// Decoding is how many requests are being answered at an endpoint, as far as can be told.
func (r Reader) Decoding(slot int) int { return r.t.endpoints.Get(slot).decoding() }

// Coming is how many decode legs wait for KV cache at an endpoint.
func (r Reader) Coming(slot int) int { return len(r.t.endpoints.Get(slot).coming) }

// Queued is how many jobs wait at the router, at all endpoints.
func (r Reader) Queued() int { return r.t.queued }

// Job is the job of a lease. It is valid until the lease's number is opened again.
func (r Reader) Job(n uint32) *Job { return r.t.jobs.Get(int(n)) }

// Audit says what is left on the accounts of an endpoint at which no job is open; nil when nothing is.
func (r Reader) Audit(slot int) error {
	e := r.t.endpoints.Get(slot)
	p := &e.prompts
	switch {
	case e.load != (fleet.Load{}), p.ahead != 0, p.streams != 0, p.head != 0:
		return fmt.Errorf("load %+v, %d tokens of %d prompts ahead", e.load, p.ahead, p.streams)
	case len(e.line.jobs) != 0 || e.line.tokens != 0:
		return fmt.Errorf("%+v are queued", e.line)
	case len(e.coming) != 0:
		return fmt.Errorf("decode legs %v are still to come", e.coming)
	case math.IsNaN(e.link.area) || math.IsInf(e.link.area, 0) || e.link.area < 0:
		return fmt.Errorf("its link has carried %v", e.link.area)
	}
	return nil
}
