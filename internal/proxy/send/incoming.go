package send

import (
	"net/http"
	"sync/atomic"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Incoming is the request of a client, as its attempts see it. The caller fills it in before anything is sent.
type Incoming struct {
	R        *http.Request // as received
	API      prompt.API
	ID       string // of the request, in headers and logs
	EngineID string // the same towards engines, where tenants' ids are kept apart; "" for ID
	From     forwarded.Origin
	Prompt   prompt.Prompt
	Body     *body.Payload  // nil while the body is passed on as it streams in
	Upload   *body.Upload   // the body, while it is passed on as it streams in
	Request  fleet.Request  // what the fleet is asked
	inForm   namedModel     // of a form in Body
	withheld withheldFields // the same
	inQuery  namedModel     // of the query
	InFields Fields         // of both
	Media    prompt.Media   // where the body names what engines keep, see prompt.Refers
	Computes bool           // an engine computes for it, and may keep a prompt in its cache
	Repeats  bool           // of an API without a name here: its work leaves nothing behind
	// the client has got the header of an answer, and comments or white space: the answer must continue it, so that it
	// must not be compressed
	Opened atomic.Bool
	// the answer may name what the engine keeps for the tenant from now on, so that it must be readable
	Keeps        bool
	CapsPriority bool // the client may not ask for a high priority, of engines neither
	OurKey       bool // the client's API key names its tenant, and is not the engine's

	// exchanges the request in the place of the transport; nil for the transport. A prefill leg is never carried
	Transport external.Transport
}

// Repeatable reports whether an engine may get the request twice: it only computes, or its method is idempotent.
func (c *Incoming) Repeatable() bool {
	switch c.R.Method {
	case http.MethodPost, http.MethodPatch:
		return c.Known()
	default:
		return true
	}
}

// Known reports whether it is known what the request asks for: work that leaves nothing behind, and has an answer.
func (c *Incoming) Known() bool { return c.API != prompt.Other || c.Repeats }

// member is the JSON value of a top-level member of the body that the prompt's scan records; nil when it is absent.
func (c *Incoming) member(name string) []byte {
	at := c.Prompt.Field(name)
	if at == (jsonscan.Span{}) {
		return nil
	}
	return c.Body.Bytes[at.Start:at.End]
}

// Detached reports whether a response is to go on in the background.
func (c *Incoming) Detached() bool {
	return c.API == prompt.Responses && c.Body != nil && string(c.member("background")) == "true"
}

// Text is the body of a request that is in memory; nil for another.
func (c *Incoming) Text() []byte {
	if c.Body == nil {
		return nil
	}
	return c.Body.Bytes
}
