package route

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// UnknownModelError means that no endpoint serves the model. Frontends answer 404.
type UnknownModelError struct {
	Model string
	Known []string // sorted; of many some
	Alias []string // the models that it is an alias of; nil if it is none
}

func (e *UnknownModelError) Error() string {
	model := shortened(e.Model)
	if len(e.Known) == 0 {
		return fmt.Sprintf("the model %q does not exist; no engine lists any model", model)
	}
	if e.Alias != nil {
		return fmt.Sprintf("%q is an alias of %s, which no engine serves; known models: %s",
			model, listed(e.Alias), models(e.Known))
	}
	return fmt.Sprintf("the model %q does not exist; known models: %s", model, models(e.Known))
}

// ModelRequiredError means that the request names no model and the fleet serves several. Frontends answer 400.
type ModelRequiredError struct{ Known []string }

func (e *ModelRequiredError) Error() string {
	return "the request names no model and more than one is served; known models: " + models(e.Known)
}

// KindError means that all endpoints of the pool are of kinds that may not take the request (Request.Kinds). Frontends
// answer 400.
type KindError struct {
	Pool  string
	Kinds []fleet.Kind // that may take it
}

func (e *KindError) Error() string {
	names := make([]string, len(e.Kinds))
	for i, k := range e.Kinds {
		names[i] = string(k)
	}
	return fmt.Sprintf("tenants' caches have to be kept apart, which only %s can do in this API, and no endpoint for "+
		"%q is one", listed(names), e.Pool)
}

// PinError means that the request is pinned to an endpoint that cannot take it. Frontends answer 400.
type PinError struct{ Endpoint, Why string }

func (e *PinError) Error() string {
	return fmt.Sprintf("cannot pin to endpoint %q: %s", e.Endpoint, e.Why)
}

// NoEndpointError means that no endpoint can take the request now. Frontends answer 503 with Retry-After.
type NoEndpointError struct {
	Pool       string
	Why        string        // the cause, for display
	RetryAfter time.Duration // when to try again
	Departed   bool          // no endpoint serves the model: the last one has left
}

func (e *NoEndpointError) Error() string {
	if e.Pool == "" {
		return "no endpoint can take the request: " + e.Why
	}
	return fmt.Sprintf("no endpoint can take a request for %q: %s", e.Pool, e.Why)
}

// Brief is the error without Why, which names endpoints and addresses.
func (e *NoEndpointError) Brief() string {
	if e.Pool == "" {
		return "no endpoint can take the request now"
	}
	return fmt.Sprintf("no endpoint can take a request for %q now", e.Pool)
}

// UnknownIDError means that the tenant has no object with an id of Request.Owned. Frontends answer 404.
type UnknownIDError struct{ ID string }

func (e *UnknownIDError) Error() string {
	return fmt.Sprintf("there is nothing with the id %q", shortened(e.ID))
}

// shortened is the beginning of what a client calls something.
func shortened(name string) string {
	if len(name) > 100 {
		return name[:100] + "..."
	}
	return name
}

// QueueFullError means that a request would have to be queued and the queue is full. Frontends answer 429 with
// Retry-After.
type QueueFullError struct {
	Tenant     bool          // the tenant's limit is reached, not the total one
	Waiting    int           // requests in the queue
	RetryAfter time.Duration // predicted wait
}

func (e *QueueFullError) Error() string {
	if e.Tenant {
		return fmt.Sprintf("the queue is full: %d requests of the tenant are waiting for an engine", e.Waiting)
	}
	return fmt.Sprintf("the queue is full: %d requests are waiting for an engine", e.Waiting)
}

// listed joins the first of many names.
func listed(names []string) string {
	if rest := len(names) - pool.MostNames + 1; rest > 0 {
		return strings.Join(names[:len(names)-rest], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(names, ", ")
}

// models joins the names of models, which may be a part of all.
func models(names []string) string {
	if len(names) >= pool.MostNames {
		return strings.Join(names[:pool.MostNames-1], ", ") + " and more"
	}
	return strings.Join(names, ", ")
}

// ErrRetryBudget means that a retry is refused because retries are too large a share of the traffic. The frontend then
// returns the previous endpoint's answer.
var ErrRetryBudget = errors.New("the retry budget is used up")

// noEndpoint returns the error that says why no endpoint can take the request.
func (r *readers) noEndpoint(q *asked, s *search, model string) error {
	p := q.pool
	e := &NoEndpointError{Pool: p.Name(), RetryAfter: time.Second}
	if p.Name() == pool.Any && q.req.Model != "" {
		e.Pool = q.req.Model // the client's word
	}
	if p.Len() == 0 {
		e.Why = "no endpoint is declared"
		return e
	}
	never := true // will an endpoint fit
	for i := range p.Len() {
		ep := p.Member(i).Endpoint()
		never = never && ep.Kind() != fleet.KindUnknown && !fits(q.req, ep)
	}
	if never {
		return &KindError{Pool: e.Pool, Kinds: q.req.Kinds}
	}
	const most = 5
	var why []string
	for i := range p.Len() {
		m := p.Member(i)
		switch ep := m.Endpoint(); {
		case !q.takes(m, s):
		case model != "" && !r.pools.Serves(m, model):
			why = append(why, ep.Name()+" does not serve "+model)
		default:
			why = append(why, r.unavailableReason(q.now, ep, q.req, s.leg))
		}
	}
	if len(why) == 0 {
		e.Why = "all of its endpoints only compute prompts (role prefill)"
		if s.leg == fleet.LegPrefill {
			e.Why = "none of its endpoints computes prompts for others (role prefill or both)"
		} else if p.SplitsAlways() {
			e.Why = "none of its endpoints serves whole requests (SGLang's decode servers do not, role both would)"
		}
		return e
	}
	if n := len(why); n > most {
		why = append(why[:most], fmt.Sprintf("and %d more", n-most))
	}
	e.Why = listed(why)
	return e
}

// unavailableReason says why an endpoint cannot take a leg of a request.
func (r *readers) unavailableReason(now time.Time, e registry.Endpoint, req *fleet.Request, l fleet.Leg) string {
	name := e.Name()
	why, asleep := e.Asleep()
	switch s := r.health.State(now, e.Slot()); {
	case slices.Contains(tried(req, l), name):
		return name + " was tried and failed (" + r.health.Cause(e.Slot()) + ")"
	case slices.Contains(req.Exclude, name):
		return name + " is excluded by the request"
	case !fits(req, e):
		kind := cmp.Or(string(e.Kind()), "of a kind that is not known yet")
		return name + " is " + kind + ", which may not take the request"
	case asleep:
		return name + " is " + why
	case e.Draining():
		return name + " is draining"
	case e.Weight() <= 0:
		return name + " has weight 0"
	case s == fleet.StateDown && r.health.Why(e.Slot(), s) != "":
		return name + " is down (" + r.health.Why(e.Slot(), s) + ")"
	default:
		return name + " is " + string(s)
	}
}

// mayQueue reports whether a request that is no trial can be queued: it computes a prompt, its caller can wait, and no
// endpoint has been tried that it is to avoid now. A decode leg waits for its prefill leg anyway.
func mayQueue(req *fleet.Request, leg fleet.Leg, ep registry.Endpoint) bool {
	return req.MayQueue && req.Class == fleet.Turn && leg != fleet.LegDecode && !req.Fails &&
		req.Pin == "" && len(req.Tried) == 0 && len(req.TriedPrefill) == 0 && !ep.IsSlot()
}

// queueFull is the error of a request that would have to be queued when as many wait as may, else nil.
func (r *readers) queueFull(q *asked, c *chosen) error {
	full := r.full(q)
	if full == nil {
		return nil
	}
	for _, p := range [...]*placement{&c.compute, &c.answer} {
		if p.view == nil {
			continue
		}
		row := p.row()
		if r.backlog.WouldQueue(q.now, r.work(q, p, r.registry.At(row.Slot))) {
			full.RetryAfter = retryAfter(fleet.Duration(row.WaitMs))
			return full
		}
	}
	return nil
}

// retryAfter is when a client that would wait so long is asked to come again: after a second to a minute.
func retryAfter(wait time.Duration) time.Duration { return min(max(wait, time.Second), time.Minute) }

// full says how many wait if no more may, queued or held; nil if more may.
func (r *readers) full(q *asked) *QueueFullError {
	held, ownHeld := r.admission.Held(), r.admission.HeldOf(q.asker.Tenant)
	if !r.admission.Since(q.req.Hold).IsZero() { // the request itself
		held, ownHeld = held-1, ownHeld-1
	}
	full, own, waiting := r.backlog.Full(q.asker, held, ownHeld)
	if !full {
		return nil
	}
	return &QueueFullError{Tenant: own, Waiting: waiting}
}
