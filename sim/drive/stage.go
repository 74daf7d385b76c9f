package drive

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/engine"
)

// Stage lets callers add to a run: KV events of engines, actions of an operator.
type Stage struct {
	// called when an engine gets a whole turn. nil for none
	Submitted func(now time.Time, lease fleet.Lease, endpoint int, job *engine.Job)
	// called at the end of a step, before the routers. nil for none
	Stepped func(now time.Time, endpoint int)

	p *player
}

// Start is the time of the start of the run.
func (s *Stage) Start() time.Time { return s.p.start }

// Engine is the engine of an endpoint.
func (s *Stage) Engine(endpoint int) *engine.Engine { return s.p.engines[endpoint] }

// Observe sends all routers an event.
func (s *Stage) Observe(now time.Time, ev route.Event) {
	for r := range s.p.routers {
		s.p.tell(int32(r), int64(now.Sub(s.p.start)), ev)
	}
}

// At schedules a call at a time from the start of the run, in the future.
func (s *Stage) At(at time.Duration, do func(now time.Time)) {
	s.p.due.push(int64(at), asideDue, len(s.p.asides))
	s.p.asides = append(s.p.asides, do)
}
