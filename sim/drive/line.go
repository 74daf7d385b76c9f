package drive

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// standing is a turn in a router's queue.
type standing struct {
	router int32
	lease  fleet.Lease
}

// call records dispatched leases. They are sent after the current event.
func (p *player) call(router int32, leases []fleet.Lease) {
	for _, l := range leases {
		if i, ok := p.inLine[standing{router, l}]; ok {
			delete(p.inLine, standing{router, l})
			p.called = append(p.called, i)
		}
	}
}

// handOn sends the dispatched turns.
func (p *player) handOn(now int64) {
	for len(p.called) > 0 {
		i := int(p.called[0])
		p.called = p.called[1:]
		switch {
		case p.flights[i].held != 0:
			p.place(now, i)
		case p.prefillStands(i):
			if outcome := p.submitPrefill(now, i); outcome != fleet.OK {
				p.computeElsewhere(now, i, outcome)
			}
		case !p.hand(now, i):
			p.place(now, i)
		}
	}
}

// prefillStands reports whether a queued turn's prefill leg is queued.
func (p *player) prefillStands(i int) bool {
	hand := p.flights[i].hand
	return hand != 0 && p.hands[hand-1].waits
}

// computeElsewhere places a turn's prompt at another prefiller, or at its decoder.
func (p *player) computeElsewhere(now int64, i int, outcome fleet.Outcome) {
	if d, ok := p.instead(now, i, outcome); ok {
		p.compute(now, i, d)
	}
}

// leaveLine decides again for turns queued for an engine that is gone.
func (p *player) leaveLine(now int64, at int) {
	for i := range p.flights {
		f := &p.flights[i]
		if p.prefillStands(i) && int(p.hands[f.hand-1].from) == at {
			h := &p.hands[f.hand-1]
			delete(p.inLine, standing{f.router, h.lease})
			h.waits = false
			p.computeElsewhere(now, i, fleet.Abandoned)
			continue
		}
		s := standing{f.router, f.lease}
		if !p.stands(s, i) || int(f.engine) != at {
			continue
		}
		delete(p.inLine, s)
		p.observe(now, i, route.Finished{Lease: f.lease, Outcome: fleet.Abandoned})
		f.tried = append(f.tried, p.Fleet.Endpoints[at].Name)
		p.out[f.row-1].Retries++
		p.place(now, i)
	}
}
