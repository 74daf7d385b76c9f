package proxy

import "github.com/warmpath/warmpath/engine/handover"

// inquire asks the prefiller for the facts that the protocol needs.
func (s *split) inquire() {
	s.x.InquiryAnswer = nil
	conn, ok := s.conn.(handover.Inquirer)
	if !ok {
		return
	}
	if address := conn.Inquiry(&s.x); address != "" {
		ctx, done := s.c.patient()
		defer done()
		s.x.InquiryAnswer = s.c.p.inquiries.Ask(ctx, s.c.p.transport, address)
	}
}

// forgetInquiry discards the prefiller's answers, so that the next request asks again: it has failed, or its KV cache
// was missing.
func (s *split) forgetInquiry() {
	if conn, ok := s.conn.(handover.Inquirer); ok {
		s.c.p.inquiries.Forget(conn.Inquiry(&s.x))
	}
}

// expect begins to listen for notifications of the next attempt's prefiller.
func (s *split) expect(await handover.Await) {
	s.stopNotices()
	if s.c.p.cfg.Notices != nil && await.Count > 0 {
		s.notified, s.forget = s.c.p.cfg.Notices(await.ID, await.Count)
	}
}

// await waits until the KV cache has arrived. If no notification comes in time, the decoder is asked anyway: it
// computes what is missing.
func (s *split) await() {
	if s.notified == nil {
		return
	}
	ctx, done := s.c.patient()
	defer done()
	if !s.notified(ctx) && ctx.Err() == nil {
		s.c.p.log.Warn("prefiller sent no notification of pushed KV cache in time; its decoder is asked anyway",
			"request", s.c.served.ID, "endpoint", s.plan.Prefill.Endpoint.Name, "decoder", s.plan.Endpoint.Name)
	}
	s.stopNotices()
}

// stopNotices stops listening for the prefiller.
func (s *split) stopNotices() {
	if s.forget != nil {
		s.forget()
	}
	s.notified, s.forget = nil, nil
}
