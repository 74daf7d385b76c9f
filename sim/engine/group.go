package engine

import "time"

// group is engines whose steps begin together and take as long as the slowest of them.
type group struct{ engines []*Engine }

// InStep couples idle engines like the attention data-parallel ranks of one model instance. Each step starts at all of
// them at once and ends when the slowest has computed its part; a job submitted during a step starts with the next.
// Advance must be called for every engine at the end of a step. Clear is not supported.
func InStep(engines []*Engine) {
	g := &group{engines: engines}
	for _, e := range engines {
		e.group = g
	}
}

// begin starts the next step, unless one is under way.
func (g *group) begin(now time.Time) {
	for _, e := range g.engines {
		if e.stepping {
			return
		}
	}
	end := now
	for _, e := range g.engines {
		e.startStep(now)
		if e.stepping && e.stepEnd.After(end) {
			end = e.stepEnd
		}
	}
	for _, e := range g.engines {
		if e.stepping {
			e.stepEnd = end
		}
	}
}

// next starts an engine's next step.
func (e *Engine) next(now time.Time) {
	if e.group != nil {
		e.group.begin(now)
		return
	}
	e.startStep(now)
}
