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
