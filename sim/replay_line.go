package sim

import "github.com/warmpath/warmpath/route"

// standing is a turn that stands in a router's line.
type standing struct {
	router int32
	lease  route.Lease
}

// call notes whose turn it is at a router. They are handed on when what is under way now is done with.
func (p *player) call(router int32, leases []route.Lease) {
	for _, l := range leases {
		if i, ok := p.inLine[standing{router, l}]; ok {
			delete(p.inLine, standing{router, l})
			p.called = append(p.called, i)
		}
	}
}

// handOn hands on whose turn it is.
func (p *player) handOn(now int64) {
	for len(p.called) > 0 {
		i := int(p.called[0])
		p.called = p.called[1:]
		if !p.hand(now, i) {
			p.place(now, i)
		}
	}
}

// leaveLine has those ask again who stand in line for an engine that is gone.
func (p *player) leaveLine(now int64, at int) {
	for i := range p.flights {
		f := &p.flights[i]
		s := standing{f.router, f.lease}
		if j, ok := p.inLine[s]; !ok || int(j) != i || int(f.engine) != at {
			continue
		}
		delete(p.inLine, s)
		p.observe(now, i, route.Finished{Lease: f.lease, Outcome: route.Abandoned})
		f.tried = append(f.tried, p.Fleet.Endpoints[at].Name)
		p.out[f.row-1].Retries++
		p.place(now, i)
	}
}
