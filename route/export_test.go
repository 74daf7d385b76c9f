package route

import (
	"errors"
	"fmt"
)

// Idle reports what remains on the accounts without open leases.
func (r *Router) Idle() error {
	if queued := r.backlog.Queued(); r.Stats().Leases != 0 || queued != 0 || len(r.free) != len(r.reservations) {
		return fmt.Errorf("%d leases are open, %d queued, %d of %d reservations are free",
			r.Stats().Leases, queued, len(r.free), len(r.reservations))
	}
	if n := len(r.replicas.leases); n != 0 {
		return fmt.Errorf("%d leases of other routers are kept", n)
	}
	if err := r.registry.Audit(); err != nil {
		return err
	}
	for ep := range r.registry.All() {
		switch {
		case r.health.Trials(ep.Slot()) != 0:
			return fmt.Errorf("%s: trials %d", ep.Name(), r.health.Trials(ep.Slot()))
		case r.arrivals.Active(ep.Slot()) != 0:
			return fmt.Errorf("%s: %d conversations are busy", ep.Name(), r.arrivals.Active(ep.Slot()))
		}
		if err := errors.Join(r.cache.Idle(ep.Slot()), r.backlog.Audit(ep.Slot()),
			r.speed.Audit(ep.Slot())); err != nil {
			return fmt.Errorf("%s: %w", ep.Name(), err)
		}
	}
	slot := 0
	for ep := range r.registry.Slots() {
		if !ep.Exists() && !r.cache.Empty(slot) {
			return fmt.Errorf("slot %d is free and not empty", slot)
		}
		slot++
	}
	return nil
}
