package drive

import "github.com/warmpath/warmpath/route"

// hearsay is what one router decided or saw and the others have yet to hear.
type hearsay struct {
	turn     int32
	endpoint int32       // where the turn went; of a decision
	event    route.Event // what became of it, with the lease of whom it happened to; nil of a decision
	seed     uint64      // of a decision
	tried    []string    // of a decision
}

// shares says whether routers tell each other what they know.
func (p *player) shares() bool { return p.Share && len(p.routers) > 1 }

// handed tells of a turn that an endpoint gets. Of those in line others hear when it is their turn: two routers that each knew of the other's
// line only as work of the engine would both wait for it.
func (p *player) handed(now int64, i, at int) {
	if p.shares() {
		p.spread(now, hearsay{turn: int32(i), endpoint: int32(at), seed: p.drawn(i), tried: p.flights[i].tried})
	}
}

// observe tells a turn's router, and in time the others, what became of it.
func (p *player) observe(now int64, i int, ev route.Event) {
	p.tell(p.flights[i].router, now, ev)
	if p.shares() {
		p.spread(now, hearsay{turn: int32(i), event: ev})
	}
}

func (p *player) spread(now int64, n hearsay) {
	p.news = append(p.news, n)
	p.due.push(now+int64(p.Staleness), newsDue, 0)
}

// hear tells the oldest news to all routers but the one it is of. A decision is to them a request that must go where it went, so that
// it enters their books, beliefs and memory of conversations as one of their own, while their policy is not asked; what policies
// count for themselves they count of their own requests only, but for those that keep what is reserved. All news take equally long,
// hence come in order.
func (p *player) hear(now int64) {
	n := p.news[0]
	p.news = p.news[1:]
	own := int(p.flights[n.turn].router)
	leases := p.told[int(n.turn)*len(p.routers):][:len(p.routers)]
	if n.event == nil {
		p.ask(int(n.turn))
		p.req.Pin, p.req.Seed, p.req.Tried = p.Fleet.Endpoints[n.endpoint].Name, n.seed, n.tried
		for r, router := range p.routers {
			if leases[r] = 0; r == own {
				continue
			}
			if d, err := router.Decide(p.at(now), &p.req); err == nil { // else it holds the endpoint for gone
				leases[r] = d.Lease
			}
		}
		return
	}
	for r, router := range p.routers {
		if r == own || leases[r] == 0 {
			continue
		}
		switch ev := n.event.(type) {
		case route.FirstByte:
			ev.Lease = leases[r]
			p.call(int32(r), router.Observe(p.at(now), ev).Called)
		case route.Finished:
			ev.Lease, leases[r] = leases[r], 0
			p.call(int32(r), router.Observe(p.at(now), ev).Called)
		}
	}
}

// ended tells what is left to tell when the last turn has ended, so that no router holds anything for it; true.
func (p *player) ended() bool {
	for len(p.news) > 0 {
		p.hear(p.end + int64(p.Staleness))
	}
	return true
}
