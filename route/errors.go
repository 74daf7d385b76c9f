package route

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/pool"
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
