package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// Running is a request, or a leg of one, that is placed and has not ended.
type Running struct {
	Request, Endpoint string
	Tenant, Pool      string
	Leg               fleet.Leg
	Routed            time.Time
	Sent              time.Time // zero while it waits in the router's queue
	Answers           bool      // its first byte has come
}

// Running lists what runs of a request of this router, by its X-Request-Id, bound.Few at most.
func (r *Router) Running(request string) (out []Running) {
	for i := range r.reservations {
		res := &r.reservations[i]
		if !res.open || res.request != request || res.peer.peer != 0 || len(out) == bound.Few {
			continue
		}
		x := Running{
			Request: res.request, Endpoint: res.ep.Name(), Tenant: res.tenant, Pool: res.decision.Pool, Leg: res.leg,
			Routed: res.routed, Answers: res.prefilled,
		}
		if j := r.backlog.Reader().Job(res.index); !j.Queued {
			x.Sent = j.Sent
		}
		out = append(out, x)
	}
	return out
}
