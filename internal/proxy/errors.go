package proxy

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/proxy/patience"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
	"github.com/warmpath/warmpath/route"
)

var errConnect = errors.New("CONNECT is not for this server: warmpath is no forward proxy")

var errDraining = errors.New("the router is shutting down and takes no new requests")

var errPinningOff = errors.New("X-Warmpath-Pin and X-Warmpath-Exclude are switched off; set pinning: true in the configuration to allow them")

type encodingError struct{ encoding string }

func (e *encodingError) Error() string {
	return "the request body is encoded as " + strconv.Quote(e.encoding) + "; send it without Content-Encoding"
}

// fault is an error as a client sees it.
type fault struct {
	status     int
	kind, code string // "type" and "code" of the OpenAI error body
	retryAfter time.Duration
}

// faults is the one table from the router's own errors to what clients see.
var faults = []struct {
	err error
	fault
}{
	{prompt.ErrEmpty, fault{400, "invalid_request_error", "empty_body", 0}},
	{jsonscan.ErrNotJSON, fault{400, "invalid_request_error", "invalid_json", 0}},
	{prompt.ErrNotObject, fault{400, "invalid_request_error", "invalid_body", 0}},
	{prompt.ErrRepeated, fault{400, "invalid_request_error", "invalid_body", 0}},
	{prompt.ErrField, fault{400, "invalid_request_error", "invalid_field", 0}},
	{h1.ErrBadRequest, fault{400, "invalid_request_error", "bad_request", 0}},
	{guard.ErrForeignHost, fault{403, "permission_error", "foreign_host", 0}},
	{guard.ErrForeignOrigin, fault{403, "permission_error", "foreign_origin", 0}},
	{errBadPath, fault{400, "invalid_request_error", "bad_path", 0}},
	{errConnect, fault{405, "invalid_request_error", "method_not_allowed", 0}},
	{errNoTenant, fault{401, "authentication_error", "unknown_tenant", 0}},
	{errBadTenant, fault{400, "invalid_request_error", "bad_tenant", 0}},
	{errPinningOff, fault{400, "invalid_request_error", "pinning_off", 0}},
	{body.ErrBadBody, fault{400, "invalid_request_error", "incomplete_body", 0}},
	{body.ErrSlowBody, fault{408, "invalid_request_error", "request_timeout", 0}},
	{body.ErrTooLarge, fault{413, "invalid_request_error", "request_too_large", 0}},
	{body.ErrNoRoom, fault{503, "service_unavailable", "overloaded", time.Second}},
	{errDraining, fault{503, "service_unavailable", "shutting_down", time.Second}},
	{patience.ErrShutdown, fault{503, "service_unavailable", "shutting_down", time.Second}},
	{patience.ErrNoFirstByte, fault{504, "api_error", "endpoint_timeout", 0}},
	{patience.ErrIdle, fault{504, "api_error", "endpoint_timeout", 0}},
	{patience.ErrSilent, fault{504, "api_error", "endpoint_timeout", 0}},
	{patience.ErrRefusing, fault{502, "api_error", "endpoint_gone", 0}},
	{patience.ErrDown, fault{502, "api_error", "endpoint_gone", 0}},
	{errUnreachable, fault{503, "service_unavailable", "endpoint_unreachable", time.Second}},
	{errBroken, fault{502, "api_error", "endpoint_failed", 0}},
	{errCut, fault{502, "api_error", "endpoint_failed", 0}},
	{errTruncated, fault{502, "api_error", "endpoint_failed", 0}},
}

// faultOf finds what a client is told about an error.
func faultOf(err error) fault {
	var (
		unknown  *route.UnknownModelError
		required *route.ModelRequiredError
		pin      *route.PinError
		none     *route.NoEndpointError
		encoding *encodingError
		path     *pathError
		leg      *legError
	)
	switch {
	case errors.As(err, &leg):
		return leg.fault()
	case errors.As(err, &unknown):
		return fault{404, "invalid_request_error", "model_not_found", 0}
	case errors.As(err, &path):
		return fault{404, "invalid_request_error", "path_not_allowed", 0}
	case errors.As(err, &required):
		return fault{400, "invalid_request_error", "model_required", 0}
	case errors.As(err, &pin):
		return fault{400, "invalid_request_error", "bad_pin", 0}
	case errors.As(err, &none):
		return fault{503, "service_unavailable", "no_endpoint", max(none.RetryAfter, time.Second)}
	case errors.As(err, &encoding):
		return fault{415, "invalid_request_error", "unsupported_encoding", 0}
	}
	for i := range faults {
		if errors.Is(err, faults[i].err) {
			return faults[i].fault
		}
	}
	return fault{500, "api_error", "internal_error", 0}
}

// errorBody is an error in the shape of the API that was called: OpenAI's, which Anthropic's clients read too when "type" says
// "error" (Anthropic API, "Errors"), or the string that Ollama's clients expect (ollama docs/api.md).
func errorBody(api prompt.API, f fault, message string) []byte {
	inner := map[string]any{"message": message, "type": f.kind, "code": f.code, "param": nil}
	var outer any = map[string]any{"error": inner}
	if f.kind == prefillError || f.kind == decoderError {
		inner["code"] = f.status
		delete(inner, "param")
	}
	switch api {
	case prompt.Messages, prompt.CountTokens:
		inner["type"] = anthropicType(f)
		outer = map[string]any{"type": "error", "error": inner}
	case prompt.OllamaChat, prompt.OllamaGenerate:
		outer = map[string]any{"error": message}
	default:
	}
	b, err := json.Marshal(outer)
	if err != nil {
		return []byte(`{"error":{"message":"internal error","type":"api_error","code":"internal_error"}}`)
	}
	return b
}

func anthropicType(f fault) string {
	switch f.status {
	case 400, 408, 415:
		return "invalid_request_error"
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	default:
		return "api_error"
	}
}

// refuse answers with an error of the router's own.
func (c *call) refuse(err error) {
	f := faultOf(err)
	c.served.Error = f.code
	c.served.Status = f.status
	if c.served.Attempts == 0 {
		c.served.Outcome = fleet.ClientError
		if f.status >= http.StatusInternalServerError {
			c.served.Outcome = fleet.Abandoned
		}
	}
	h := c.w.Header()
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
	}
	if f.status == http.StatusRequestEntityTooLarge || f.status == http.StatusRequestTimeout || errors.Is(err, body.ErrNoRoom) || c.upload.Unread() {
		h.Set("Connection", "close") // the rest of the body is not read
	}
	if c.body == nil && c.upload == nil && f.status != http.StatusRequestTimeout && !c.shutdown.Load() { // of these two the deadline is over
		c.p.passOver(c.w, c.r)
	}
	c.explain(h, &c.served.Decision) // of the last attempt; none when nobody was asked
	body := errorBody(c.shape(), f, err.Error())
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(f.status)
	_, _ = c.send(body, false)
	c.sent.Store(true)
	c.served.BytesOut += int64(len(body))
}
