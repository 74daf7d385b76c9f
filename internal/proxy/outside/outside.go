// Package outside lets another proxy exchange a request with the endpoint that the door chose: Envoy, which asks an
// external processor where to send a request and shows it what came of it.
//
// It owns the link between such an exchange and the context of its request. It promises that a request without a
// carrier is not changed by it. It never sends anything itself.
package outside

import (
	"context"
	"errors"
	"net/http"

	"github.com/warmpath/warmpath/fleet"
)

// ErrLeft is what an exchange fails with whose proxy has ended it: its client has left, or it does not tell how
// requests end.
var ErrLeft = errors.New("the proxy ended the request")

// Carrier exchanges one request with the endpoint that was chosen.
type Carrier interface {
	// Carry hands over what the endpoint is to be sent and returns the header of its answer. It is called at most once.
	Carry(r *http.Request, to fleet.Endpoint) (*http.Response, error)
	// Excluded are the names of endpoints that the request may not be sent to.
	Excluded() []string
	// AnswerUnseen says that the body of the answer goes to the client without passing the router, so that nothing may
	// be added to it.
	AnswerUnseen() bool
	// Elsewhere reports, after Carry, whether another endpoint than the chosen one answered.
	Elsewhere() bool
}

type key struct{}

// With is a context whose request is exchanged by c.
func With(ctx context.Context, c Carrier) context.Context { return context.WithValue(ctx, key{}, c) }

// Of is the carrier of a request, nil when the door exchanges it itself.
func Of(ctx context.Context) Carrier {
	c, _ := ctx.Value(key{}).(Carrier)
	return c
}
