package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// mayQueue reports whether a request that is no trial can be queued: it computes a prompt, its caller can wait, and it
// is a first attempt. A decode leg waits for its prefill leg anyway.
func mayQueue(req *fleet.Request, leg fleet.Leg, ep registry.Endpoint) bool {
	return req.MayQueue && req.Class == fleet.Turn && leg != fleet.LegDecode && !req.Fails &&
		req.Pin == "" && len(req.Tried) == 0 && len(req.TriedPrefill) == 0 && !ep.IsSlot()
}

// queueFull is the error of a request that would have to be queued when the queue is full, else nil.
func (r *readers) queueFull(q *asked, c *chosen) error {
	full, own, waiting := r.backlog.Full(q.asker, r.othersHeld(q))
	if !full {
		return nil
	}
	for _, p := range [...]*placement{&c.compute, &c.answer} {
		if p.view == nil {
			continue
		}
		row := p.row()
		ep := r.endpoints.At(row.Slot)
		w := backlog.Work{
			Slot: row.Slot, Class: q.req.Class, Leg: p.view.Leg, PromptTokens: p.view.PromptTokens,
			CachedTokens: row.CachedTokens,
			MayQueue:     !r.health.Tests(row.Slot) && mayQueue(q.req, p.view.Leg, ep), Asker: q.asker,
		}
		if r.backlog.WouldQueue(q.now, w, r.speed) {
			return &QueueFullError{
				Pool: q.pool.Name(), Tenant: own, Waiting: waiting,
				RetryAfter: retryAfter(time.Duration(row.WaitMs * 1e6)),
			}
		}
	}
	return nil
}

// retryAfter is when a client that would wait so long is asked to come again: after a second to a minute.
func retryAfter(wait time.Duration) time.Duration { return min(max(wait, time.Second), time.Minute) }

// holdsFull is the error of a turn that would have to be held when as many wait as may, else nil.
func (r *readers) holdsFull(q *asked, hold *admission.Turn) error {
	full, own, waiting := r.backlog.Full(q.asker, r.othersHeld(q))
	if !full {
		return nil
	}
	return &QueueFullError{
		Pool: q.pool.Name(), Tenant: own, Waiting: waiting, RetryAfter: retryAfter(r.admission.MaxHold(hold)),
	}
}

// othersHeld is how many turns are held beside the request's own.
func (r *readers) othersHeld(q *asked) backlog.Waiting {
	w := backlog.Waiting{All: r.admission.Held(), Own: r.admission.HeldOf(q.asker.Tenant)}
	if !r.admission.Since(q.req.Hold).IsZero() {
		w.All, w.Own = w.All-1, w.Own-1
	}
	return w
}
