// Package health judges how fit an endpoint is for traffic, by what probes say, by how requests end there, and by silence.
//
// It owns a row for each endpoint: whether probes find it up, ejections and half-open probes after them, back-pressure for all or for one
// caller, and the ramp of its weight after it comes (back). It judges outcomes; it never counts load and never chooses. Another address
// is another engine: Reset forgets.
package health

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
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
	BusyMax    time.Duration // the longest Retry-After that is believed
	Ramp       time.Duration // how long an endpoint that joins or comes back takes to get its full share
}

// Table is what is known of all endpoints.
type Table struct {
	cfg       Config
	endpoints slot.Table[endpoint]
	spared    uint64
	none      endpoint // of an endpoint that is not known
}

// endpoint is the row of one endpoint.
type endpoint struct {
	probed  bool // at least one report came
	healthy bool // by the latest
	detail  string

	failures     int       // in a row, by its fault
	failed       uint64    // in all
	ejections    int       // without a success in between
	ejectedUntil time.Time // zero when not ejected
	unreachable  bool      // ejected because it could not be connected to: a good probe lifts it
	busyUntil    time.Time
	refusals     refusals // by which it is busy for some callers only
	cause        string   // of the last failure, for people
	halfOpen     bool     // its ejection ended and nothing has succeeded yet: one request at a time
	trials       int      // requests now testing it
	rampFrom     time.Time
	lifeAt       time.Time // when something last came of an answer of its
	silentAt     time.Time // when it was ejected because nothing came any more; zero when it was not, or something has come since

	told fleet.State // the state that was last told
	news []string    // to be told with the next observation
}

// New makes a table without endpoints.
func New(c Config) *Table { return &Table{cfg: c, none: endpoint{told: fleet.StateUnknown}} }

// Key names an endpoint: its slot, and a hash of its name.
type Key struct {
	Slot int
	Hash uint64
}

func (t *Table) at(k Key) *endpoint { return t.endpoints.At(k.Slot, k.Hash) }

// Enter takes in a new endpoint; gently gives it its share of traffic little by little.
func (t *Table) Enter(now time.Time, k Key, gently bool) {
	t.endpoints.Reset(k.Slot)
	e := t.at(k)
	if e.told = fleet.StateUnknown; gently {
		e.rampFrom = now
	}
}

// Reset forgets what was judged of the engine at an older address. Its failures in all and the state that was told stay.
func (t *Table) Reset(k Key) {
	e := t.at(k)
	*e = endpoint{failed: e.failed, told: e.told, news: e.news}
}

// Probe takes in what a probe found.
func (t *Table) Probe(now time.Time, k Key, healthy bool, detail string) {
	e := t.at(k)
	was, first := e.state(now), !e.probed
	e.probed, e.healthy, e.detail = true, healthy, detail
	if healthy && e.unreachable {
		e.ejectedUntil, e.unreachable = time.Time{}, false
	}
	if healthy && !first && was == fleet.StateDown {
		e.rampFrom = now
	}
}

// Admit notes that a request is placed, and reports whether it tests an endpoint whose ejection has just ended.
func (t *Table) Admit(k Key) (trial bool) {
	e := t.at(k)
	if e.halfOpen {
		e.trials++
	}
	return e.halfOpen
}

// Withdraw notes that a test is over, however it ended.
func (t *Table) Withdraw(k Key) { t.at(k).trials-- }

// Alive notes a sign of life. An endpoint that was ejected because it gave none is tried again at once.
func (t *Table) Alive(k Key, at time.Time) {
	e := t.at(k)
	if !at.After(e.lifeAt) {
		return
	}
	e.lifeAt = at
	if !e.silentAt.IsZero() && !at.Before(e.silentAt) {
		e.silentAt, e.ejectedUntil = time.Time{}, time.Time{}
	}
}

// Accepted notes that the endpoint has accepted what it was sent at a time.
func (t *Table) Accepted(k Key, sent time.Time) { t.at(k).refusals.accept(sent) }

// Recovered forgets the failures of an endpoint that computes; one that was tested gets its share back gently.
func (t *Table) Recovered(now time.Time, k Key) {
	e := t.at(k)
	e.failures, e.ejections = 0, 0
	if e.halfOpen {
		e.halfOpen, e.rampFrom = false, now
	}
}

// Verdict is how an attempt ended.
type Verdict struct {
	Outcome    fleet.Outcome
	Alike      bool          // the request failed like that elsewhere too: it may be its own fault
	Computes   bool          // of OK: a success shows that the engine computes
	Trial      bool          // it tested the endpoint, see Admit
	Sent       time.Time     // when
	RetryAfter time.Duration // with Busy, 0 when the engine did not say
	Limited    bool          // with Busy: a 429, which may concern the caller alone
	Caller     uint64        // whose request it was; 0 when nobody is told apart
}

// Peers counts the endpoints that can do the same work in the pool of a request: the judged one and those that are not unusable, and how many
// of the others are ejected.
type Peers struct{ All, Ejected int }

// Conclude draws the conclusions of an attempt's end for its endpoint. A client's fault is never the endpoint's; back-pressure keeps new
// traffic away for a while and says nothing about its health. peers is asked when a failure ought to eject.
func (t *Table) Conclude(now time.Time, k Key, v *Verdict, peers func() Peers) {
	e := t.at(k)
	switch v.Outcome {
	case fleet.OK:
		if v.Computes {
			t.Recovered(now, k)
			e.refusals.accept(v.Sent)
		}
	case fleet.Busy:
		t.refused(now, e, v)
	case fleet.ConnectFailed:
		e.failed++
		e.failures++
		e.cause = "it could not be connected to"
		if t.mayEject(now, e, peers, e.failures == 1) {
			t.eject(now, e, 0)
			e.unreachable = true
		}
	case fleet.EngineError, fleet.TimedOut:
		if v.Alike {
			return
		}
		e.failed++
		e.failures++
		if !e.silent(now) {
			e.cause = fmt.Sprintf("%d requests in a row failed (%s)", e.failures, v.Outcome)
		}
		if (e.failures >= t.cfg.EjectAfter || v.Trial) && t.mayEject(now, e, peers, e.failures == t.cfg.EjectAfter) {
			t.eject(now, e, 0)
			e.unreachable = false
		}
	case fleet.ClientError, fleet.ClientGone, fleet.Abandoned, fleet.TransferFailed:
	}
}

// Silent ejects an endpoint that gives no sign of life although answers are overdue: so many requests wait, the first for so long.
func (t *Table) Silent(now time.Time, k Key, waiting int, waited time.Duration) {
	e := t.at(k)
	e.cause = fmt.Sprintf("it gives no sign of life although its health is good; requests waiting: %d, the first for %v", waiting, waited)
	t.eject(now, e, waited)
	e.silentAt, e.unreachable = now, false
}

// eject ejects an endpoint for no less than a time, within the bound.
func (t *Table) eject(now time.Time, e *endpoint, least time.Duration) {
	if now.Before(e.ejectedUntil) {
		return // requests that were already under way when it was ejected
	}
	d := max(t.cfg.EjectFor<<min(e.ejections, 20), least)
	if d > t.cfg.EjectMax || d <= 0 {
		d = t.cfg.EjectMax
	}
	e.ejections++
	e.ejectedUntil = now.Add(d)
	e.halfOpen = true
}

// mayEject reports whether an endpoint may be ejected for a failed request: not the last of those that can do the same work in the
// request's pool, and not more of them at once than the configured share. Requests that fail may be at fault themselves, so what they can
// do to a fleet is bounded. first says that this is the first failure that ought to eject it.
func (t *Table) mayEject(now time.Time, e *endpoint, peers func() Peers, first bool) bool {
	if now.Before(e.ejectedUntil) {
		return true // it is out already
	}
	p, most := peers(), 0
	if t.cfg.EjectShare > 0 {
		most = min(max(1, int(t.cfg.EjectShare*float64(p.All))), p.All-1)
	}
	if p.Ejected < most {
		return true
	}
	t.spared++
	switch {
	case first && p.All == 1:
		e.news = append(e.news, e.cause+"; it is not ejected, since no other endpoint does its work")
	case first:
		e.news = append(e.news, fmt.Sprintf("%s; it is not ejected, since %d of %d endpoints that do its work are, and at most %d may be", e.cause, p.Ejected, p.All, most))
	}
	return false
}

// Say has a line told with the next changes.
func (t *Table) Say(k Key, detail string) {
	e := t.at(k)
	e.news = append(e.news, detail)
}

// Change is what is told of an endpoint: another state, or news in the same one.
type Change struct {
	From, To fleet.State
	Detail   string
}

// Changes tells, once, what has changed of an endpoint.
func (t *Table) Changes(now time.Time, k Key, tell func(Change)) {
	e := t.at(k)
	for _, detail := range e.news {
		tell(Change{e.told, e.told, detail})
	}
	e.news = e.news[:0]
	if s := e.state(now); s != e.told {
		from := e.told
		e.told = s
		tell(Change{from, s, e.why(s)})
	}
}

// Spared is how many failures ejected nothing, since as much of a pool was ejected as may be.
func (t *Table) Spared() uint64 { return t.spared }
