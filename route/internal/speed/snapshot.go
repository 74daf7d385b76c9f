package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/learnt"
)

// Export is what is known of an endpoint.
func (r Reader) Export(now time.Time, slot int) learnt.Speed {
	e := r.t.endpoints.Get(slot)
	p, o, tr := &e.prefill, &e.order, &e.transfer
	return learnt.Speed{
		Prefill: learnt.Prefill{
			Samples: p.samples, PerToken: p.perToken, Fixed: float64(p.fixed), PerAnswer: float64(p.perAnswer),
			Hold: float64(p.hold), PerStep: p.perStep, Far: float64(p.farWork), Prior: p.prior, Assumed: p.assumed,
			Line: p.line,
		},
		Alone: o.solo, First: o.first, Others: o.company, Front: o.front, Soon: o.soon, Pace: e.decodePace.Line,
		Moves: tr.samples, MovesAge: age(now, tr.at), Shared: tr.export(),
	}
}

// ExportFleet is what is known of all endpoints together.
func (r Reader) ExportFleet() learnt.Fleet {
	return learnt.Fleet{Pace: r.t.decodePace.Line, Prompts: learnt.FleetPrefill(r.t.fleet)}
}

// Restore takes in what was known of an endpoint that has entered and has had no request. It was kept for later since.
func (t *Table) Restore(now time.Time, slot int, l *learnt.Speed, later time.Duration) {
	e := t.endpoints.Get(slot)
	if p := &l.Prefill; p.Samples > 0 {
		e.prefill = prefill{
			samples: p.Samples, perToken: p.PerToken, fixed: fit.Quantile(p.Fixed), perStep: p.PerStep,
			line: p.Line,
		}
		if p.Assumed > 0 { // an earlier version did not write it
			e.prefill.prior, e.prefill.assumed, e.prefill.priorShare = p.Prior, p.Assumed, p.Prior/float64(p.Line.AA)
		}
	}
	e.prefill.perAnswer, e.prefill.hold = fit.Mean(l.Prefill.PerAnswer), fit.Mean(l.Prefill.Hold)
	e.prefill.farWork = fit.Mean(l.Prefill.Far)
	e.order = order{solo: l.Alone, first: l.First, company: l.Others, front: l.Front, soon: l.Soon}
	e.decodePace = decodePace{l.Pace}
	if l.Moves > 0 {
		m := &l.Shared
		e.transfer = transfer{
			perToken: m.PerToken, fixed: fit.Quantile(m.Fixed), prior: m.Prior, line: m.Line,
			samples: l.Moves, at: now.Add(-l.MovesAge - later),
		}
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

func age(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at))
}

func (t *transfer) export() learnt.Moves {
	return learnt.Moves{PerToken: t.perToken, Fixed: float64(t.fixed), Prior: t.prior, Line: t.line}
}
