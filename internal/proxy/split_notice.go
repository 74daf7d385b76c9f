package proxy

import (
	"github.com/warmpath/warmpath/engine/handover"
)

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
