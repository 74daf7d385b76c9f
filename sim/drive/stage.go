package drive

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/engine"
)

// Stage is a run for who adds to it: what engines tell of their caches, what an operator does.
type Stage struct {
	Submitted func(now time.Time, lease fleet.Lease, endpoint int, job *engine.Job) // hears what an engine is given as a whole. nil for nobody
	Stepped   func(now time.Time, endpoint int)                                     // hears that a step is over, before the routers do. nil for nobody

	p *player
}

// Start is the time of the run's beginning.
func (s *Stage) Start() time.Time { return s.p.start }

// Engine is the engine of an endpoint.
func (s *Stage) Engine(endpoint int) *engine.Engine { return s.p.engines[endpoint] }

// Observe tells all routers an event.
func (s *Stage) Observe(now time.Time, ev route.Event) {
	for r := range s.p.routers {
		s.p.tell(int32(r), int64(now.Sub(s.p.start)), ev)
	}
}

// At has something done at a time from the start of the run, which is after now.
func (s *Stage) At(at time.Duration, do func(now time.Time)) {
	s.p.due.push(int64(at), asideDue, len(s.p.asides))
	s.p.asides = append(s.p.asides, do)
}
