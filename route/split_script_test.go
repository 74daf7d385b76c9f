package route_test

import (
	"strconv"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// disagg configures how pools with roles are served.
func (p *player) disagg(args []string) {
	d := &p.cfg.Disaggregation
	d.When = fleet.SplitWhen(args[0])
	for _, a := range args[1:] {
		if a == "strict" {
			d.NoFallback = true
			continue
		}
		n, err := strconv.Atoi(a)
		if err != nil {
			p.t.Fatal(err)
		}
		d.Threshold = n
	}
}

// decide plays a decision. The lease of a prefill leg is named after the request's id with a p appended.
func (p *player) decide(args []string) {
	req := p.request(args)
	plan, err := p.r.Decide(p.now, &req)
	if err != nil {
		p.say("%s: error: %v", req.ID, err)
		return
	}
	say := func(id string, d *route.Decision) {
		p.leases[id] = d.Lease
		p.say("%s %s -> %s (%s of %d) %s session=%s first=%t prompt=%d cached=%d ttft=%.1f",
			id, d.Leg, d.Endpoint.Name, d.Reason, d.Candidates, d.Why, d.Session, d.FirstTurn, d.PromptTokens,
			d.CachedTokens, d.TTFTMs)
	}
	if plan.Split() {
		say(req.ID+"p", &plan.Prefill)
	}
	if plan.Lease != 0 {
		say(req.ID, &plan.Decision)
		if w := plan.Weighed; w != (fleet.Weighed{}) {
			p.say("%s whole %.1f ms, split %.1f ms", req.ID, w.WholeMs, w.SplitMs)
		}
	}
}

// transfers prints an endpoint's outgoing or awaited transfers.
func (p *player) transfers(s *route.EndpointStatus) {
	if s.Load.TransferRequests != 0 || s.Load.TransferTokens != 0 || s.TransferMs != 0 {
		p.say("%s transfers=%d tokens=%d, takes %.1f ms and 1 s for %.0f tokens",
			s.Endpoint.Name, s.Load.TransferRequests, s.Load.TransferTokens, s.TransferMs, s.TransferPerSec)
	}
}
