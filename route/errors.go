package route

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// UnknownModelError says that no endpoint serves the model. Doors answer 404.
type UnknownModelError struct {
	Model string
	Known []string // sorted
}

func (e *UnknownModelError) Error() string {
	model := e.Model
	if len(model) > 100 {
		model = model[:100] + "..."
	}
	if len(e.Known) == 0 {
		return fmt.Sprintf("the model %q does not exist; no endpoint has reported its models yet", model)
	}
	return fmt.Sprintf("the model %q does not exist; known models: %s", model, listed(e.Known))
}

// ModelRequiredError says that the request names no model and the fleet serves several. Doors answer 400.
type ModelRequiredError struct{ Known []string }

func (e *ModelRequiredError) Error() string {
	return "the request names no model and more than one is served; known models: " + listed(e.Known)
}

// PinError says that the endpoint a request is pinned to cannot be what it asks for. Doors answer 400.
type PinError struct{ Endpoint, Why string }

func (e *PinError) Error() string {
	return fmt.Sprintf("cannot pin to endpoint %q: %s", e.Endpoint, e.Why)
}

// NoEndpointError says that no endpoint can take the request now. Doors answer 503 with Retry-After.
type NoEndpointError struct {
	Pool       string
	Why        string        // what is wrong, for people
	RetryAfter time.Duration // when it may be better
}

func (e *NoEndpointError) Error() string {
	if e.Pool == "" {
		return "no endpoint can take the request: " + e.Why
	}
	return fmt.Sprintf("no endpoint can take a request for %q: %s", e.Pool, e.Why)
}

// listed joins at most 20 names.
func listed(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// ErrRetryBudget says that a request may not be tried again now: too large a share of the traffic is retries already. The door passes on
// what the endpoint before answered.
var ErrRetryBudget = errors.New("the retry budget is used up")
