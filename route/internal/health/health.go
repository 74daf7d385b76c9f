// Package health decides which endpoints are fit for traffic, from probes, from how requests end, and from silence.
//
// It owns one row per endpoint: the latest probe, ejection (outlier detection) and half-open trials, back-pressure for
// all callers or for one (refusals.go), silence of the whole (silence.go) or for one model or path (services.go), and
// the ramp. An endpoint that is down because of its probes is so until a good one: how often it is probed is the
// business of internal/probe. In come those, as events with a time; out come a Rank (which health class an endpoint is
// in, reader.go), its fleet.State and the changes of that, in words. Who is to blame for an outcome is in Conclude. It
// never counts load and never chooses an endpoint.
package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/slot"
)

// Config says how outcomes are judged. All of it is set.
type Config struct {
	EjectAfter int           // failures in a row, by the endpoint's fault, that eject it
	EjectFor   time.Duration // the first ejection; doubles with each further one
	EjectMax   time.Duration // the longest ejection
	EjectShare float64       // of a pool's endpoints that failed requests may eject at once, 0 to 1
	PanicShare float64       // of a pool's endpoints below which failed requests at the others are ignored, 0 to 1
	BusyFor    time.Duration // how long 429 or 503 without Retry-After keeps traffic away
	BusyMax    time.Duration // the longest Retry-After that is honoured
	// time without a byte while answers are overdue, after which an endpoint is ejected; negative for never
	Silent time.Duration
	Ramp   time.Duration // slow start: how long an endpoint that joins or recovers takes to get its full share
}

// Table holds the health of all endpoints.
type Table struct {
	Reader
	cfg       Config
	endpoints slot.Table[endpoint]
	spared    uint64
	mutes     int // services for which an endpoint is mute
}

// endpoint is the row of one endpoint.
type endpoint struct {
	// What ranks it, beside each other: each decision looks at it.
	healthy      bool      // result of the latest probe
	probed       bool      // at least one probe came
	unanswered   bool      // probes get no answer while it has requests
	halfOpen     bool      // the ejection ended and nothing has succeeded yet: one request at a time
	unreachable  bool      // ejected because the connection failed: a good probe lifts it
	ejectedUntil time.Time // zero when not ejected
	busyUntil    time.Time
	rampFrom     time.Time
	refusals     refusals // back-pressure for single callers
	trials       int      // requests now testing it

	detail     string
	failures   int         // consecutive failures by its fault
	failed     uint64      // failures in total
	ejections  int         // consecutive ejections without a success
	cause      string      // of the last failure, for people
	lastByteAt time.Time   // when a byte of an answer last came
	modelLoads []modelLoad // that answers wait for, at most bound.Few
	dozedAt    time.Time   // when it was last told to have no model in memory
	unreached  time.Time   // when a connection failed last
	silentAt   time.Time   // when it was ejected for silence; zero when it was not, or a byte has come since
	silenced   time.Time   // when it was last ejected for silence
	idleAt     time.Time   // when it last had no requests, as far as was looked
	loadedAt   time.Time   // when a request last had no load of a model to wait for any more

	// its figures of work (fleet.LoadReport.Work), when they last moved, since when they stand still while it has
	// requests, and when they were last told; zero before they have moved
	work                      uint64
	moved, standsSince, asked time.Time

	services []service // at most bound.Few
	begun    time.Time // when the latest of the requests was sent whose answers have begun

	reported fleet.State // last reported state
	news     []string    // to be reported with the next observation
}

// modelLoad is a model that an endpoint is to load.
type modelLoad struct {
	model string
	at    time.Time // when it was asked for, or when another load ended that may have come before it
}

// New makes a table without endpoints.
func New(c Config) *Table {
	t := &Table{cfg: c}
	t.Reader = Reader{t}
	return t
}

// SetConfig replaces the settings by which outcomes are judged.
func (t *Table) SetConfig(c Config) { t.cfg = c }

// AddEndpoint adds an endpoint.
func (t *Table) AddEndpoint(slot int) {
	e := t.endpoints.Grow(slot)
	t.forgetServices(e)
	*e = endpoint{reported: fleet.StateUnknown}
}

// RampUp starts an endpoint slowly from now on.
func (t *Table) RampUp(now time.Time, slot int) { t.endpoints.Get(slot).rampFrom = now }

// Replace takes in that an endpoint that has entered is another engine under the name of an older one: its count of
// failures and the state that was told go on.
func (t *Table) Replace(old, slot int) {
	was := t.endpoints.Get(old)
	t.forgetServices(t.endpoints.Get(slot))
	*t.endpoints.Get(slot) = endpoint{failed: was.failed, reported: was.reported, news: was.news}
	was.news = nil
}

// Probe records a probe's result.
func (t *Table) Probe(now time.Time, slot int, healthy bool, detail string) {
	e := t.endpoints.Get(slot)
	was, first := e.state(now), !e.probed
	if e.refusals.over(now) {
		e.refusals = e.refusals[:0]
	}
	e.probed, e.healthy, e.unanswered, e.detail = true, healthy, false, detail
	if healthy && e.unreachable {
		e.ejectedUntil, e.unreachable = time.Time{}, false
	}
	if healthy && !first && was == fleet.StateDown {
		e.rampFrom = now
		t.forgetServices(e)
	}
}

// Unanswered records that an endpoint that is taken to be healthy answers no probe until the next Probe: it computes
// something else first, or is not reached.
func (t *Table) Unanswered(slot int, detail string) {
	e := t.endpoints.Get(slot)
	e.unanswered, e.detail = true, detail
}

// Works records figures of which one changes with each step that the endpoint computes, and whether it has requests;
// 0 says nothing.
func (t *Table) Works(now time.Time, slot int, figures uint64, busy bool) {
	if figures == 0 {
		return
	}
	e := t.endpoints.Get(slot)
	if e.work != 0 && e.work != figures { // whether they move at all shows later
		e.moved, e.standsSince = now, now
	}
	if !busy && !e.standsSince.IsZero() {
		e.standsSince = now
	}
	e.work, e.asked = figures, now
}

// Admit records that a request is placed, and reports whether it is a half-open trial.
func (t *Table) Admit(slot int) (trial bool) {
	e := t.endpoints.Get(slot)
	if e.halfOpen {
		e.trials++
	}
	return e.halfOpen
}

// Withdraw records that a trial is over, however it ended.
func (t *Table) Withdraw(slot int) { t.endpoints.Get(slot).trials-- }

// Alive records a byte from the endpoint. One that was ejected for silence is tried again at once.
func (t *Table) Alive(slot int, at time.Time) {
	e := t.endpoints.Get(slot)
	if !at.After(e.lastByteAt) {
		return
	}
	e.lastByteAt = at
	if !e.silentAt.IsZero() && !at.Before(e.silentAt) {
		e.silentAt, e.ejectedUntil = time.Time{}, time.Time{}
	}
}

// NoRequests records that the endpoint has no requests.
func (t *Table) NoRequests(now time.Time, slot int) { t.endpoints.Get(slot).idleAt = now }

// Dozed records that the endpoint has no model in memory: its next answer waits for one to load.
func (t *Table) Dozed(now time.Time, slot int) { t.endpoints.Get(slot).dozedAt = now }

// LoadingModel notes that a request was sent for a model that is not in memory. A second one within a load that shows
// no life changes nothing.
func (t *Table) LoadingModel(now time.Time, slot int, model string) {
	e := t.endpoints.Get(slot)
	i := slices.IndexFunc(e.modelLoads, func(l modelLoad) bool { return l.model == model })
	switch {
	case i < 0 && len(e.modelLoads) < bound.Few:
		e.modelLoads = append(e.modelLoads, modelLoad{model, now})
	case i < 0:
		e.modelLoads[0] = modelLoad{model, now} // an old one: few are loaded at a time
	case e.lastByteAt.After(e.modelLoads[i].at):
		e.modelLoads[i].at = now
	}
}

// ModelLoaded notes that a request for a model that was not in memory is answered, or has failed at the engine: other
// models may be loaded only now.
func (t *Table) ModelLoaded(now time.Time, slot int, model string) {
	e := t.endpoints.Get(slot)
	n := len(e.modelLoads)
	e.modelLoads = slices.DeleteFunc(e.modelLoads, func(l modelLoad) bool { return l.model == model })
	if len(e.modelLoads) == n {
		return
	}
	e.loadedAt = now
	for i := range e.modelLoads {
		e.modelLoads[i].at = now
	}
}

// Recovered clears the failures of an endpoint that computes; after a trial it starts slowly.
func (t *Table) Recovered(now time.Time, slot int) {
	e := t.endpoints.Get(slot)
	e.failures, e.ejections = 0, 0
	if e.halfOpen {
		e.halfOpen, e.rampFrom = false, now
	}
}

// Verdict is how an attempt ended.
type Verdict struct {
	Outcome    fleet.Outcome
	Excused    bool          // the request may be at fault: see route.Finished
	Computes   bool          // with OK: the success shows that the engine computes
	Trial      bool          // it was a half-open trial, see Admit
	Sent       time.Time     // when
	RetryAfter time.Duration // with Busy, 0 when the engine did not say
	Limited    bool          // with Busy: a 429, which may concern the caller alone
	Caller     uint64        // hash of the caller; 0 when callers are not told apart
}

// Conclude applies the end of an attempt to its endpoint. A client's fault is never the endpoint's. Back-pressure keeps
// new traffic away for a while and is no failure. capable, called when a failure should eject, counts the endpoints of
// the request's pool that can do the same work, this one included, and how many others are ejected.
func (t *Table) Conclude(now time.Time, slot int, v *Verdict, capable func() Census) {
	e := t.endpoints.Get(slot)
	switch v.Outcome {
	case fleet.OK:
		if v.Computes {
			t.Recovered(now, slot)
			e.refusals.accept(v.Sent)
		}
	case fleet.Busy:
		t.refused(now, e, v)
	case fleet.ConnectFailed:
		e.failed++
		e.failures++
		e.cause, e.unreached = "the connection failed", now
		if t.mayEject(now, e, capable, 1) {
			t.eject(now, e, 0)
			e.unreachable = true
		}
	case fleet.EngineError, fleet.TimedOut:
		if v.Excused {
			return
		}
		e.failed++
		e.failures++
		if !e.silent(now) {
			e.cause = fmt.Sprintf("%d requests in a row failed (%s)", e.failures, v.Outcome)
		}
		if v.Sent.Before(e.silenced) {
			return // it is what the endpoint was ejected for, and must not end the trial that follows
		}
		if (e.failures >= t.cfg.EjectAfter || v.Trial) && t.mayEject(now, e, capable, t.cfg.EjectAfter) {
			t.eject(now, e, 0)
			e.unreachable = false
		}
	case fleet.ClientError, fleet.ClientGone, fleet.Abandoned, fleet.TransferFailed:
	}
}

// eject ejects an endpoint for at least a time, within EjectMax.
func (t *Table) eject(now time.Time, e *endpoint, least time.Duration) {
	if now.Before(e.ejectedUntil) {
		return // requests that were already under way when it was ejected
	}
	e.ejectedUntil = now.Add(t.ejection(e.ejections, least))
	e.ejections++
	e.halfOpen = true
}

// ejection is how long the next ejection lasts. It doubles with each one before it in a row. It is least or longer, but
// EjectMax at most.
func (t *Table) ejection(before int, least time.Duration) time.Duration {
	d := max(t.cfg.EjectFor<<min(before, 20), least)
	if d > t.cfg.EjectMax || d <= 0 {
		return t.cfg.EjectMax
	}
	return d
}

// mayEject bounds ejections for failed requests, because the requests may be at fault: never the last endpoint that can
// do the work, never more than EjectShare of them. after is the number of failures in a row that eject an endpoint. If
// it is not ejected, the log says so at that failure, and not again at later ones.
func (t *Table) mayEject(now time.Time, e *endpoint, capable func() Census, after int) bool {
	if now.Before(e.ejectedUntil) {
		return true // it is ejected already
	}
	p, most := capable(), 0
	if t.cfg.EjectShare > 0 {
		most = min(max(1, int(t.cfg.EjectShare*float64(p.All))), p.All-1)
	}
	if p.Ejected < most {
		return true
	}
	t.spared++
	switch {
	case e.failures != after:
	case p.All == 1:
		e.news = append(e.news, e.cause+"; not ejected: no other endpoint can do its work")
	default:
		e.news = append(e.news, fmt.Sprintf(
			"%s; not ejected: %d of %d endpoints that can do its work are ejected, the limit is %d",
			e.cause, p.Ejected, p.All, most))
	}
	return false
}

// Say queues a line for the next Changes.
func (t *Table) Say(slot int, detail string) {
	e := t.endpoints.Get(slot)
	e.news = append(e.news, detail)
}

// Changes reports each change of an endpoint once: a new state, or news in the same one.
func (t *Table) Changes(now time.Time, slot int, tell func(from, to fleet.State, detail string)) {
	e := t.endpoints.Get(slot)
	for _, detail := range e.news {
		tell(e.reported, e.reported, detail)
	}
	e.news = e.news[:0]
	if s := e.state(now); s != e.reported {
		from := e.reported
		e.reported = s
		tell(from, s, e.why(s))
	}
}

// Spared counts failures that ejected nothing because EjectShare was used up.
func (t *Table) Spared() uint64 { return t.spared }
