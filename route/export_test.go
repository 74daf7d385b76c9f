package route

import (
	"errors"
	"fmt"
	"math"
	"time"
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
	taken := 0
	for ep := range r.registry.Slots() {
		if ep.Exists() {
			taken++
		}
	}
	if taken != r.registry.Len() {
		return fmt.Errorf("%d slots are taken by %d endpoints", taken, r.registry.Len())
	}
	for ep := range r.registry.All() {
		learnt := r.speed.Export(time.Time{}, ep.Slot())
		for _, x := range []float64{
			learnt.Prefill.PerToken, float64(learnt.Prefill.Fixed), float64(learnt.Prefill.PerAnswer),
			float64(learnt.Prefill.Hold), learnt.Shared.PerToken, float64(learnt.Shared.Fixed),
		} {
			if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
				return fmt.Errorf("%s: it has learnt %+v", ep.Name(), learnt)
			}
		}
		settled, now := r.speed.OwnMsPerToken(ep.Slot()), r.speed.MsPerToken(ep.Slot())
		switch {
		case ep.Gone():
			return fmt.Errorf("%s is gone and still listed", ep.Name())
		case r.registry.At(ep.Slot()) != ep:
			return fmt.Errorf("%s does not have its slot", ep.Name())
		case learnt.Prefill.Samples > 0 && settled != now:
			return fmt.Errorf("%s: %v ms a token besides %v, of batches that have ended", ep.Name(), now, settled)
		case r.health.Trials(ep.Slot()) != 0:
			return fmt.Errorf("%s: trials %d", ep.Name(), r.health.Trials(ep.Slot()))
		case r.arrivals.Active(ep.Slot()) != 0:
			return fmt.Errorf("%s: %d conversations are busy", ep.Name(), r.arrivals.Active(ep.Slot()))
		}
		if err := errors.Join(r.cache.Audit(ep.Slot()), r.backlog.Audit(ep.Slot())); err != nil {
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
