// Package external lets another program exchange a request with the endpoint that the door chose: Envoy, which asks an
// external processor where to send a request and shows it what came of it, or one that sends requests itself, and says
// what came of them.
//
// It owns the link between such an exchange and the context of its request, and what such exchanges share: the body of
// the answer (Feed) and whether the body of the request was changed (Digest). It promises that a request without a
// transport is not changed by it. It never sends anything itself.
package external

import (
	"context"
	"errors"
	"net/http"

	"github.com/warmpath/warmpath/fleet"
)

// ErrLeft is what an exchange fails with whose proxy has ended it: its client has left, or it does not tell how
// requests end.
var ErrLeft = errors.New("the proxy ended the request")

// Transport exchanges one request with the endpoint that was chosen.
type Transport interface {
	// Carry hands over what the endpoint is to be sent and returns the header of its answer. It is called at most once.
	Carry(r *http.Request, to fleet.Endpoint) (*http.Response, error)
	// Excluded are the names of endpoints that the request may not be sent to.
	Excluded() []string
	// AnswerUnseen says that the body of the answer goes to the client without passing the router, so that nothing may
	// be added to it.
	AnswerUnseen() bool
	// Elsewhere reports, after Carry, whether another endpoint than the chosen one answered.
	Elsewhere() bool

	// Prompt is the prompt where the body does not have it: its hashes, and its tokens. nil where the body does.
	Prompt() (*fleet.Content, int)
	// Usage is what the answer has used, where its body does not pass the router and the transport is told.
	Usage() (u fleet.Usage, known bool)
	// Timed says that the transport ends the request when its time is up, so that the limits on engines' silence mean
	// nothing.
	Timed() bool
}

// Seen is the part of a transport that shows the door requests and answers.
type Seen struct{}

// Prompt is nil: the body has the prompt.
func (Seen) Prompt() (*fleet.Content, int) { return nil, 0 }

// Usage is not told: the answer has it.
func (Seen) Usage() (fleet.Usage, bool) { return fleet.Usage{}, false }

// Timed is false: the door's limits hold.
func (Seen) Timed() bool { return false }

type key struct{}

// With is a context whose request is exchanged by c.
func With(ctx context.Context, c Transport) context.Context { return context.WithValue(ctx, key{}, c) }

// Of is the transport of a request, nil when the door exchanges it itself.
func Of(ctx context.Context) Transport {
	c, _ := ctx.Value(key{}).(Transport)
	return c
}
