package route

import (
	"errors"
	"fmt"
)

// Idle reports what remains on the accounts without open leases.
func (r *Router) Idle() error {
	if queued := r.backlog.Reader().Queued(); r.open != 0 || queued != 0 || len(r.free) != len(r.flights) {
		return fmt.Errorf("%d leases are open, %d queued, %d of %d flights free", r.open, queued, len(r.free), len(r.flights))
	}
	used := map[int]bool{}
	for _, ep := range r.endpoints {
		switch {
		case ep.gone:
			return fmt.Errorf("%s is gone and still there", ep.spec.Name)
		case r.health.Reader().Trials(ep.slot) != 0:
			return fmt.Errorf("%s: trials %d", ep.spec.Name, r.health.Reader().Trials(ep.slot))
		case r.arrivals.Reader().Active(ep.slot) != 0:
			return fmt.Errorf("%s: %d conversations are busy", ep.spec.Name, r.arrivals.Reader().Active(ep.slot))
		case used[ep.slot]:
			return fmt.Errorf("slot %d is used twice", ep.slot)
		}
		used[ep.slot] = true
		if err := errors.Join(r.cache.Reader().Idle(ep.slot), r.backlog.Reader().Audit(ep.slot), r.speed.Reader().Audit(ep.slot)); err != nil {
			return fmt.Errorf("%s: %w", ep.spec.Name, err)
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

// InTurn reports whether an endpoint is known to compute prompts one after another.
func (r *Router) InTurn(name string) bool { return r.speed.Reader().InOrder(r.byName[name].slot) }
