package route

import (
	"fmt"
	"math"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// Idle reports what is left on the books although no lease is open.
func (r *Router) Idle() error {
	if r.open != 0 || r.standing != 0 || len(r.free) != len(r.flights) {
		return fmt.Errorf("%d leases are open, %d of %d flights free", r.open, len(r.free), len(r.flights))
	}
	used := map[int]bool{}
	for _, ep := range r.endpoints {
		s := &ep.speed
		switch {
		case ep.gone:
			return fmt.Errorf("%s is gone and still there", ep.spec.Name)
		case ep.load != (fleet.Load{}), r.health.Reader().Trials(ep.id()) != 0, s.ahead != 0, s.prompts != 0, s.head != 0:
			return fmt.Errorf("%s: load %+v, trials %d, %d tokens of %d prompts ahead", ep.spec.Name, ep.load, r.health.Reader().Trials(ep.id()), s.ahead, s.prompts)
		case len(ep.line.flights) != 0 || ep.line.tokens != 0:
			return fmt.Errorf("%s: %+v stand in line", ep.spec.Name, ep.line)
		case r.cache.Reader().Idle(ep.slot) != nil:
			return fmt.Errorf("%s: %w", ep.spec.Name, r.cache.Reader().Idle(ep.slot))
		case len(ep.coming) != 0:
			return fmt.Errorf("%s: decode legs %v are still to come", ep.spec.Name, ep.coming)
		case r.arrivals.Active(ep.slot, ep.key) != 0:
			return fmt.Errorf("%s: %d conversations are busy", ep.spec.Name, r.arrivals.Active(ep.slot, ep.key))
		case s.early != (fit.Whole{}):
			return fmt.Errorf("%s: %+v is left of batches that have ended", ep.spec.Name, s.early)
		case used[ep.slot]:
			return fmt.Errorf("slot %d is used twice", ep.slot)
		}
		used[ep.slot] = true
		for _, x := range []float64{s.perToken, float64(s.fixed), float64(s.perAnswer), float64(s.hold), s.known, s.like, ep.transfer.shared.perToken, float64(ep.transfer.shared.fixed), ep.transfer.alone.perToken, float64(ep.transfer.alone.fixed), ep.link.area} {
			if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
				return fmt.Errorf("%s has learnt %+v, %+v", ep.spec.Name, *s, ep.transfer)
			}
		}
	}
	for _, slot := range r.freeSlots {
		if used[slot] || !r.cache.Reader().Empty(slot) {
			return fmt.Errorf("slot %d is free and in use, or not empty", slot)
		}
		used[slot] = true
	}
	if len(used) != r.slots {
		return fmt.Errorf("%d of %d slots are accounted for", len(used), r.slots)
	}
	return nil
}

// InTurn reports whether an endpoint is known to compute one prompt after the other.
func (r *Router) InTurn(name string) bool { return r.byName[name].speed.inTurn() }
