// Package speed estimates how fast endpoints are: prefill, decode, and KV cache transfers.
//
// It owns one set of fits per endpoint, learnt from finished jobs, and the defaults for endpoints without a sample:
// prefill.go and batches.go for prompts and for what is fetched from a second tier, order.go for whether prompts are
// computed one after another, decode.go for answers by the number of requests beside them, transfer.go for links. A
// Reader changes nothing, always returns a speed above 0, and implements backlog.Rates. The package never knows what
// waits or where a request goes. Times are in ms, sizes in tokens; endpoints are named by their slot.
package speed

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/slot"
)

// Table is the speeds of all endpoints.
type Table struct {
	Reader
	endpoints  slot.Table[endpoint]
	order      slot.Order       // slots in order of declaration
	fleet      fleetPrefill     // default for prompts at endpoints without a sample
	first      firstPrompt      // of the fleet
	decodePace decodePace       // of answers at all endpoints
	moved      backlog.Transfer // default for endpoints without a transfer
	movedAt    time.Time        // when moved was updated
	without    ablation.Set
}

// New makes a table without endpoints that learns without some mechanisms.
func New(without ablation.Set) *Table {
	t := &Table{without: without, fleet: fleetPrefill{
		Prior: priorTokens * priorTokens, PerToken: firstPerToken, Fixed: FirstPace,
	}}
	t.Reader = Reader{t}
	return t
}

// endpoint holds the fits of one endpoint.
type endpoint struct {
	prefill    prefill
	order      order
	transfer   transfer   // KV cache received
	decodePace decodePace // decode speed
}

// AddEndpoint adds an endpoint. Means are summed in the order of these calls, so they are reproducible to the bit.
func (t *Table) AddEndpoint(slot int) {
	*t.endpoints.Grow(slot) = endpoint{}
	t.order = append(t.order, slot)
}

// RemoveEndpoint removes an endpoint.
func (t *Table) RemoveEndpoint(slot int) {
	t.endpoints.Reset(slot)
	t.order.Remove(slot)
}

// Entered takes in that a turn is placed, and sent unless it is queued. Until a prompt of the fleet is computed, the
// first shows what a token takes at least: slow engines would be given copies of a long prompt that take many times as
// long as assumed, and would seem late beside one that has just begun.
func (t *Table) Entered(now time.Time, j *backlog.Job) {
	switch f := &t.first; {
	case t.fleet.known() || f.over:
	case f.tokens > 0:
		t.fleet.PerToken = max(t.fleet.PerToken, f.perToken(now))
	case j.Stream && !j.Queued && j.Leg != fleet.LegDecode && j.Prefill > 0:
		*f = firstPrompt{slot: j.Slot, sent: j.Sent, tokens: float64(j.Prefill)}
	}
}

// Computed learns from the first byte of a job.
func (t *Table) Computed(now time.Time, j *backlog.Job) {
	t.first.over = t.first.over || t.first.is(j)
	if j.Leg == fleet.LegDecode {
		t.learnTransfer(now, j)
	}
	if j.Timed {
		t.learnPrompt(now, j)
	}
}

// Ended learns from the end of a job. ok means that the answer is complete and u is valid.
func (t *Table) Ended(now time.Time, j *backlog.Job, ok bool, u *fleet.Usage) {
	t.endpoints.Get(j.Slot).prefill.ended(j)
	if t.first.is(j) && !t.fleet.known() { // it has failed, and shows nothing
		t.first = firstPrompt{}
		t.fleet.PerToken = firstPerToken
	}
	if ok && j.Class == fleet.Turn && !j.First.IsZero() {
		if u.PromptTokens > 0 {
			t.learnUsage(now, j, u)
		}
		t.learnDecodePace(now, j, u)
	}
}

// Reader is a read-only view of a Table. It implements backlog.Rates.
type Reader struct{ t *Table }

var _ backlog.Rates = Reader{}

// MsPerToken is the prefill time per token, learnt or default.
func (r Reader) MsPerToken(slot int) float64 {
	return r.t.paceOf(&r.t.endpoints.Get(slot).prefill).perToken
}

// MsPerAnswer is the decode time per output token after the first, learnt or default.
func (r Reader) MsPerAnswer(slot int) float64 {
	switch p := &r.t.endpoints.Get(slot).prefill; {
	case p.PerAnswer > 0:
		return float64(p.PerAnswer)
	case r.t.fleet.PerAnswer > 0:
		return float64(r.t.fleet.PerAnswer)
	}
	return FirstPace
}

// DecodeMs is the mean time from first byte to end of a request, learnt or the fleet's; 0 is unknown.
func (r Reader) DecodeMs(slot int) float64 {
	if r.t.without.Has(ablation.Residence) {
		return 0
	}
	if own := r.t.endpoints.Get(slot).prefill.Hold; own > 0 {
		return float64(own)
	}
	return float64(r.t.fleet.Hold)
}

// Known says whether an endpoint's speed is its own, the fleet's, or a default.
func (r Reader) Known(slot int) backlog.Known {
	p := &r.t.endpoints.Get(slot).prefill
	return backlog.Known{
		Own:         p.Samples > 0,
		Any:         p.Samples > 0 || r.t.fleet.known(),
		MsPerAnswer: max(float64(p.PerAnswer), p.PerStep),
	}
}

// InOrder reports whether an endpoint computes prompts one after another. While that is not known it is assumed.
func (r Reader) InOrder(slot int) (yes, known bool) {
	if r.t.without.Has(ablation.Order) {
		return true, true
	}
	return r.t.endpoints.Get(slot).order.serial()
}

// Transfer is the speed of KV cache transfers to an endpoint, learnt or default.
func (r Reader) Transfer(now time.Time, slot int) backlog.Transfer {
	return r.t.transferOf(now, &r.t.endpoints.Get(slot).transfer)
}

// DecodePace is the decode time per token with this many other requests decoding.
func (r Reader) DecodePace(slot, others int) (a pick.DecodePace) {
	a.AnswerMs, a.PerOtherMs = r.t.decodePaceOf(r.t.endpoints.Get(slot), others)
	return a
}

// OwnMsPerToken is the prefill time per token from an endpoint's own finished requests; 0 before the first.
func (r Reader) OwnMsPerToken(slot int) (perToken float64) {
	if p := &r.t.endpoints.Get(slot).prefill; p.Samples > 0 {
		return r.t.paceOfEnded(p).perToken
	}
	return 0
}

// OwnTransfer is the transfer speed from an endpoint's own transfers; ok is false before the first.
func (r Reader) OwnTransfer(slot int) (learnt backlog.Transfer, ok bool) {
	tr := &r.t.endpoints.Get(slot).transfer
	return tr.learnt(), tr.samples > 0
}

// Pace is how fast an endpoint computes, learnt or default.
func (r Reader) Pace(slot int) (p pick.Pace) {
	e := &r.t.endpoints.Get(slot).prefill
	own := r.t.paceOf(e)
	p.MsPerToken, p.FixedMs = own.perToken, own.fixed
	p.MsPerAnswer, p.FarWork = float64(e.PerAnswer), float64(e.Far)
	return p
}

// Export is what is known of an endpoint.
func (r Reader) Export(now time.Time, slot int) learnt.Speed {
	e := r.t.endpoints.Get(slot)
	o, tr := &e.order, &e.transfer
	l := learnt.Speed{
		Prefill: e.prefill.Prefill, Pace: e.decodePace.Line,
		Alone: o.solo, First: o.first, Others: o.company, Front: o.front, Soon: o.soon,
		Moves: tr.samples, Shared: tr.Moves,
	}
	if !tr.at.IsZero() {
		l.MovesAge = max(0, now.Sub(tr.at))
	}
	return l
}

// ExportFleet is what is known of all endpoints together.
func (r Reader) ExportFleet() learnt.Fleet {
	return learnt.Fleet{Pace: r.t.decodePace.Line, Prompts: learnt.FleetPrefill(r.t.fleet)}
}

// Restore takes in what was known of an endpoint that has entered and has had no request. It was kept for later since.
func (t *Table) Restore(now time.Time, slot int, l *learnt.Speed, later time.Duration) {
	e := t.endpoints.Get(slot)
	if l.Prefill.Samples > 0 {
		e.prefill = prefill{Prefill: l.Prefill}
		if p := &e.prefill; p.Assumed > 0 {
			p.priorShare = p.Prior / float64(p.Line.AA)
		} else { // an earlier version did not write it
			p.Prior, p.Assumed = 0, 0
		}
	}
	e.prefill.PerAnswer, e.prefill.Hold, e.prefill.Far = l.Prefill.PerAnswer, l.Prefill.Hold, l.Prefill.Far
	e.order = order{solo: l.Alone, first: l.First, company: l.Others, front: l.Front, soon: l.Soon}
	e.decodePace = decodePace{l.Pace}
	if l.Moves > 0 {
		e.transfer = transfer{Moves: l.Shared, samples: l.Moves, at: now.Add(-l.MovesAge - later)}
		t.meanTransfer(e.transfer.at)
	}
}

// RestoreFleet takes in what was known of all endpoints together.
func (t *Table) RestoreFleet(f *learnt.Fleet) {
	t.decodePace = decodePace{f.Pace}
	if p := fleetPrefill(f.Prompts); p.known() {
		t.fleet = p
	}
}
