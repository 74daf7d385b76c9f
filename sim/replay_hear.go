package sim

import "github.com/warmpath/warmpath/route"

// route asks a router where p.req, the request of a turn, goes.
func (p *player) route(router int32, now int64, turn int) (route.Decision, error) {
	r := p.routers[router]
	if p.Asked != nil {
		p.Asked(turn, &p.req)
	}
	d, err := r.Route(p.at(now), &p.req)
	if p.Heard != nil {
		e := route.Entry{Now: p.at(now), Request: &p.req, Err: err}
		if err == nil {
			e.Decision, e.View = &d, r.Seen()
		}
		p.Heard(&e)
	}
	return d, err
}

// tell tells a router an event.
func (p *player) tell(router int32, now int64, ev route.Event) {
	e := p.routers[router].Observe(p.at(now), ev)
	if p.Heard != nil {
		p.Heard(&e)
	}
}
