package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/prompt"
)

// incoming is the request of a client, as its attempts see it.
type incoming struct {
	r      *http.Request
	api    prompt.API
	id     string // of the request, in headers and logs
	prompt prompt.Prompt
	body   *body.Payload // nil while the body is passed on as it streams in
	upload *body.Upload  // the body, while it is passed on as it streams in
	req    fleet.Request
	ourKey bool // the client's API key names its tenant, and is not the engine's
}

// repeatable reports whether an engine may get the request twice: what only computes, and methods that say so.
func (c *incoming) repeatable() bool {
	switch c.r.Method {
	case http.MethodPost, http.MethodPatch:
		return c.api != prompt.Other
	default:
		return true
	}
}

// text is the body of a request that is held, nil for another.
func (c *incoming) text() []byte {
	if c.body == nil {
		return nil
	}
	return c.body.Bytes
}
