package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Engines compute prompts in order of arrival, and nothing can be taken back from their queues: behind one prompt of 100,000 tokens a
// hundred short ones wait for seconds. So an endpoint is given no more prompts than keep it busy; the others wait in a line of the router's,
// and the shortest goes first. Smith's rule, which Dynamo offers for its router's queue too (--router-queue-policy wspt): it makes the mean
// wait as short as it can be. None is overtaken any more once it has waited for Queue.Patience times its own time.

// Queue says how the router keeps an endpoint's prompts in line. The zero value keeps none: all are handed on as they come.
type Queue struct {
	Ahead    time.Duration // work of prompts that an endpoint is given in advance; 0 for no line
	Patience float64       // times its own time that a prompt lets shorter ones go first at most; default DefaultPatience
}

// The defaults of those who keep a line.
const (
	DefaultAhead    = 500 * time.Millisecond
	DefaultPatience = 5
)

// line is the flights that wait at the router for their turn at an endpoint.
type line struct {
	flights []uint32
	tokens  int64     // uncached ones of their prompts
	called  time.Time // when it was somebody's turn last
}

// onItsWay is how long a request may take to the engine once it is its turn.
const onItsWay = 10 * time.Millisecond

// sent is how many of the endpoint's requests it has been sent: the others stand in line.
func (ep *endpoint) sent() int { return ep.load.Requests - len(ep.line.flights) }

// books is the endpoint's load as others are told it.
func (ep *endpoint) books() fleet.Load {
	l := ep.load
	l.InLine = len(ep.line.flights)
	return l
}

// lines reports whether a flight that has just been reserved stands in line: who computes a prompt, at a door that can wait, and nothing has
// happened to it yet. A decode leg waits for its prefill leg as it is.
func (r *Router) lines(now time.Time, req *fleet.Request, f *flight) bool {
	ep := f.ep
	return r.cfg.Queue.Ahead > 0 && req.Waits && req.Class == fleet.Turn && f.leg != fleet.LegDecode && !f.trial && !req.Fails &&
		req.Pin == "" && len(req.Tried) == 0 && len(req.TriedPrefill) == 0 && ep.spec.Part.Kind != fleet.Slot && (len(ep.line.flights) > 0 || r.supplied(now, ep))
}

// supplied reports whether an endpoint that computes in turn has as much to compute as it is to be given in advance. One step's worth of
// tokens it always is: short prompts are computed together.
func (r *Router) supplied(now time.Time, ep *endpoint) bool {
	s := &ep.speed
	perToken, _ := r.speedOf(ep)
	if !s.inTurn() {
		return false
	}
	sure := float64(float64(s.ahead) * perToken)
	left := min(max(sure, ms(s.until.Sub(now))), float64(float64(s.ahead+s.wholes.tokens)*perToken))
	return left > max(ms(r.cfg.Queue.Ahead), float64(stepLeast*perToken))
}

// stand puts a flight in line.
func (r *Router) stand(ep *endpoint, f *flight) {
	f.waits = true
	r.standing++
	ep.line.flights = append(ep.line.flights, f.index)
	ep.line.tokens += f.prefill
}

// leaveLine takes it out.
func (r *Router) leaveLine(ep *endpoint, f *flight) {
	r.standing--
	i := slices.Index(ep.line.flights, f.index)
	ep.line.flights = slices.Delete(ep.line.flights, i, i+1)
	ep.line.tokens -= f.prefill
	f.waits = false
}

// turn is by what a prompt of so many ms that has waited so long goes before others: the least first.
func (r *Router) turn(prefillMs float64, waited time.Duration) float64 {
	return prefillMs - ms(waited)/r.cfg.Queue.Patience
}

// callUp hands on whose turn it is, and returns their leases.
func (r *Router) callUp(now time.Time) []fleet.Lease {
	r.called = r.called[:0]
	if r.standing == 0 {
		return nil
	}
	for _, ep := range r.endpoints {
		for len(ep.line.flights) > 0 {
			f := r.next(now, ep)
			if f == nil {
				break
			}
			r.leaveLine(ep, f)
			ep.line.called = now
			r.handOn(now, f)
			r.called = append(r.called, f.decision.Lease)
		}
	}
	return r.called
}

// next is whose turn it is at an endpoint; nil while it is nobody's.
func (r *Router) next(now time.Time, ep *endpoint) (first *flight) {
	if r.supplied(now, ep) {
		return nil
	}
	perToken, _ := r.speedOf(ep)
	least := 0.0
	for _, i := range ep.line.flights {
		f := &r.flights[i]
		if t := r.turn(float64(float64(f.prefill)*perToken), now.Sub(f.routed)); first == nil || t < least {
			first, least = f, t
		}
	}
	if s := &ep.speed; float64(float64(first.prefill)*perToken) > ms(r.cfg.Queue.Ahead) && now.Sub(ep.line.called) < onItsWay && s.prompts+len(s.wholes.open) > 0 {
		return nil // those in front of a long prompt must not arrive after it
	}
	return first
}

// before is who stands in line in front of a new prompt of so many ms: how many, and for how many ms. The others are behind it.
func (r *Router) before(now time.Time, ep *endpoint, own, perToken float64) (n int, time float64, behind int) {
	for _, i := range ep.line.flights {
		f := &r.flights[i]
		took := float64(float64(f.prefill) * perToken)
		if r.turn(took, now.Sub(f.routed)) > own {
			continue
		}
		n, time = n+1, time+took
	}
	return n, time, len(ep.line.flights) - n
}
