package speed

import (
	"time"

	"github.com/warmpath/warmpath/route/learnt"
)

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
