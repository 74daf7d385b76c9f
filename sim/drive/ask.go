package drive

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// decide asks a router for a decision on p.req, the request of a turn.
func (p *player) decide(router int32, now int64, turn int) (route.Plan, error) {
	r := p.routers[router]
	if p.Asked != nil {
		p.Asked(turn, &p.req)
	}
	plan, err := r.Decide(p.at(now), &p.req)
	p.spread(now, router, plan.News)
	if p.Announced != nil {
		e := plan.Entry(p.at(now), &p.req, err)
		p.Announced(&e)
	}
	return plan.Plan, err
}

// tell gives a router an event.
func (p *player) tell(router int32, now int64, ev route.Event) (missed fleet.Miss) {
	e := p.routers[router].Observe(p.at(now), ev)
	p.call(router, e.Dispatched)
	p.spread(now, router, e.News)
	if p.Announced != nil {
		p.Announced(&e)
	}
	if e.Ended != nil {
		missed = e.Ended.Miss
	}
	if e.More {
		p.tell(router, now, route.Tick{})
	}
	return missed
}

// observe gives a turn's router an event about it, and returns why it was not in the cache, if that ended it.
func (p *player) observe(now int64, i int, ev route.Event) fleet.Miss {
	return p.tell(p.flights[i].router, now, ev)
}
