package proxy

import "github.com/warmpath/warmpath/engine/handover"

// inquire asks the prefiller what the protocol must know of it.
func (s *split) inquire() {
	s.x.Told = nil
	conn, ok := s.conn.(handover.Inquirer)
	if !ok {
		return
	}
	if address := conn.Inquiry(&s.x); address != "" {
		ctx, done := s.c.patient()
		defer done()
		s.x.Told = s.c.p.inquiries.Ask(ctx, s.c.p.transport, address)
	}
}

// forgetTold has the prefiller asked again with the next request: it has failed, or its KV cache was not found.
func (s *split) forgetTold() {
	if conn, ok := s.conn.(handover.Inquirer); ok {
		s.c.p.inquiries.Forget(conn.Inquiry(&s.x))
	}
}

// expect begins to listen for what the prefiller of the next attempt will tell.
func (s *split) expect(await handover.Await) {
	s.heard()
	if s.c.p.cfg.Notices != nil && await.Count > 0 {
		s.notified, s.forget = s.c.p.cfg.Notices(await.ID, await.Count)
	}
}

// await waits until the KV cache is where it is needed. When that is not told in time the decoder is asked all the same: it computes
// what is not there.
func (s *split) await() {
	if s.notified == nil {
		return
	}
	ctx, done := s.c.patient()
	defer done()
	if !s.notified(ctx) && ctx.Err() == nil {
		s.c.p.log.Warn("prefiller did not tell that it has pushed the KV cache; its decoder is asked without",
			"request", s.c.served.ID, "endpoint", s.plan.Prefill.Endpoint.Name, "decoder", s.plan.Endpoint.Name)
	}
	s.heard()
}

// heard stops listening.
func (s *split) heard() {
	if s.forget != nil {
		s.forget()
	}
	s.notified, s.forget = nil, nil
}
