package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/h1"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/paths"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
	"github.com/warmpath/warmpath/route"
)

// Failures of endpoints.
var (
	ErrUnreachable = errors.New("could not connect to the endpoint")
	ErrShortage    = errors.New("the router had no file descriptor left to connect to the endpoint")
	ErrBroken      = errors.New("the endpoint broke off before it answered")
	ErrLethal      = errors.New("engines end under this request: the last one that got it broke off before it " +
		"answered, as one before did, which is gone since")
	ErrCut     = errors.New("the endpoint broke off within its answer")
	ErrNotHTTP = errors.New("the endpoint's answer is not valid HTTP/1.1; the router's log says what is wrong")
	// it has the path; where each engine left to ask answers so, the client may ask again
	ErrElsewhere = errors.New(
		"the endpoint has no such path now, and has answered under it: perhaps a proxy there has lost its engine")
	ErrMoved = errors.New(
		"the endpoint redirects prompts to another address, which has to be its URL in the router's configuration")
	ErrAnswerHead = errors.New("the header of the engine's answer has more than 256 fields or 64 KiB")
	ErrTruncated  = errors.New("the engine ended its answer before it was complete")
	ErrNoStream   = errors.New(
		"the engine's answer is no event stream, or no JSON, though the client has been sent the header of one")
)

// Requests that the door rejects.
var (
	ErrConnect   = errors.New("CONNECT is not supported: warmpath is not a forward proxy")
	ErrNoUpgrade = errors.New("no engine has a WebSocket at this path; send the request over HTTP")
	ErrUnread    = errors.New(
		"a WebSocket is not allowed at this path, since the router has to read each message (tenants, " +
			"models of a key, KV transfers); send requests over HTTP",
	)
	ErrHeldHead = errors.New(
		"a WebSocket does not pass external processing, in which the proxy holds its head until a body comes; " +
			"send requests over HTTP, or have the proxy send WebSockets to the router's traffic listener",
	)
	ErrDraining = errors.New("the router is shutting down and takes no new requests")
	ErrHead     = errors.New(
		"the header of the request is larger than the router accepts (limits.header in its configuration), " +
			"or has more than 256 fields",
	)
	ErrPinningOff = errors.New(
		"X-Warmpath-Pin and X-Warmpath-Exclude are switched off; set pinning: true in the configuration to allow them",
	)
)

// endpointError is the failure of an endpoint.
type endpointError struct {
	err      error
	endpoint string
}

func (e *endpointError) Error() string { return e.err.Error() + " (" + e.endpoint + ")" }

func (e *endpointError) Unwrap() error { return e.err }

// At says which endpoint an error is about.
func At(err error, endpoint string) error { return &endpointError{err, endpoint} }

// Redacted is an error in words for strangers: without endpoints, their addresses and the causes of their failures.
func Redacted(err error) string {
	var (
		leg  *legError
		at   *endpointError
		none *route.NoEndpointError
	)
	switch {
	case errors.As(err, &leg):
		return leg.text(Redacted)
	case errors.As(err, &at):
		return Redacted(at.err)
	case errors.As(err, &none):
		return none.Brief()
	}
	return err.Error()
}

// Unnamed adds to the error of an upgrade that names no model where it can, since its messages are not read.
func Unnamed(err error) error {
	return fmt.Errorf(
		"%w; name one in the query (?model=NAME) or in the header X-Warmpath-Model: "+
			"messages of a WebSocket are not read",
		err,
	)
}

// ErrLoop rejects a request that has passed this router before.
var ErrLoop = errors.New("the request has passed this router before: one of its endpoints leads back to it, " +
	"perhaps through another router; take that endpoint out of the configuration")

// ErrManyFields rejects a form in which ids of other tenants' objects, or what is for routers, could hide.
var ErrManyFields = errors.New("the query or the form has more than 256 fields, or one whose name cannot be read")

// ErrUnsalted rejects a request of a tenant whose cache an engine would share with others'.
var ErrUnsalted = errors.New(
	"no engine here can keep this request's cache apart from other tenants, as the router's configuration demands " +
		"(tenants.salt_required)",
)

// Requests of a caller that may use some models only.
var (
	ErrNoModel    = errors.New("the request names no model, and none that this API key may use is served")
	ErrUnreadName = errors.New(
		"no engine that serves the model reads its name where this request has it, and what it would compute instead " +
			"this API key may not use; name the model in the body: in the member model, for /generate in lora_path")
	ErrModelsUnread = errors.New(
		"this API key may use some models only, and the router does not read which models a batch or an evaluation " +
			"names; send single requests",
	)
)

// ErrListsAll rejects a list of what engines keep where tenants are told apart.
var ErrListsAll = errors.New(
	"the list would have what engines keep for all tenants; ask for single objects by their id",
)

type encodingError struct{ encoding string }

func (e *encodingError) Error() string {
	return "the request body is encoded as " + strconv.Quote(e.encoding) + "; send it without Content-Encoding"
}

type headerError struct{ name, must string }

func (e *headerError) Error() string { return "the header " + e.name + " " + e.must }

// Header rejects a header of the request.
func Header(name, must string) error { return &headerError{name, must} }

// Reasons for giving up a queued request, or for not queueing it.
var (
	ErrWaited = errors.New(
		"the request reached its longest wait in the router's queue, and no engine had room for it",
	)
	ErrDeadline = errors.New("the answer did not begin within X-Warmpath-Deadline")

	ErrUnattainable = errors.New(
		"no engine is expected to begin the answer within X-Warmpath-Ttft-Ms, and the request has low priority",
	)
)

// HeldError says that a request may be held for longer than its client waits.
type HeldError struct {
	Most  time.Duration // the longest hold
	Cause error         // ErrWaited or ErrDeadline: which time it would exceed
}

func (e *HeldError) Error() string {
	const why = "the conversations under way need more KV cache than the engines have"
	return fmt.Sprintf("%s: the request may be held for %v, longer than it may wait", why, e.Most.Round(time.Second))
}

func (e *HeldError) Unwrap() error { return e.Cause }

// Encoded rejects a body with that Content-Encoding.
func Encoded(encoding string) error { return &encodingError{encoding} }

// APIError says that no engine left to ask serves the client's API.
type APIError struct {
	Path    string
	Kind    fleet.Kind // of the engine that was asked last
	Meant   string     // the path that the client probably meant
	Instead string     // OpenAI's path for such requests, where the client's is another one
}

func (e *APIError) Error() string {
	says := fmt.Sprintf("the engine (%s) does not serve %.100s", e.Kind, e.Path)
	switch {
	case e.Meant != "":
		return fmt.Sprintf("%s; did you mean %q?", says, e.Meant)
	case e.Instead != "":
		return says + ", and warmpath does not translate APIs: use an API that it serves, such as OpenAI's (" +
			e.Instead + ")"
	}
	return says + ": name a model whose engine has this API"
}

// PageError is an answer to a prompt that is a page (text/html), which no API of these has: a proxy before the engine,
// or another server in its place, has answered.
type PageError struct {
	Status     int // of the page
	RetryAfter time.Duration
}

func (e *PageError) Error() string {
	says := "a web page came instead of an answer, perhaps from a proxy before the engine"
	switch {
	case e.Status < http.StatusBadRequest:
		return says
	case e.Status == http.StatusRequestEntityTooLarge:
		return says + ": that proxy takes no request as large as this one"
	}
	return fmt.Sprintf("%s (status %d %s)", says, e.Status, http.StatusText(e.Status))
}

func (e *PageError) fault() Fault {
	if e.Status < http.StatusBadRequest {
		return Of(ErrBroken)
	}
	f := ofStatus(e.Status)
	f.RetryAfter = e.RetryAfter
	return f
}

// Fault is an error as a client sees it.
type Fault struct {
	Status     int
	kind, Code string // "type" and "code" of the OpenAI error body
	RetryAfter time.Duration
}

// faults maps the router's own errors to what clients see.
var faults = []struct {
	err error
	Fault
}{
	{prompt.ErrEmpty, Fault{400, "invalid_request_error", "empty_body", 0}},
	{jsonscan.ErrNotJSON, Fault{400, "invalid_request_error", "invalid_json", 0}},
	{prompt.ErrNotObject, Fault{400, "invalid_request_error", "invalid_body", 0}},
	{prompt.ErrRepeated, Fault{400, "invalid_request_error", "invalid_body", 0}},
	{prompt.ErrNamed, Fault{400, "invalid_request_error", "invalid_body", 0}},
	{prompt.ErrField, Fault{400, "invalid_request_error", "invalid_field", 0}},
	{h1.ErrBadRequest, Fault{400, "invalid_request_error", "bad_request", 0}},
	{guard.ErrForeignHost, Fault{403, "permission_error", "foreign_host", 0}},
	{guard.ErrForeignOrigin, Fault{403, "permission_error", "foreign_origin", 0}},
	{paths.ErrBadPath, Fault{400, "invalid_request_error", "bad_path", 0}},
	{ErrNoUpgrade, Fault{426, "invalid_request_error", "no_websocket", 0}},
	{ErrManyFields, Fault{400, "invalid_request_error", "bad_body", 0}},
	{handover.ErrUnfit, Fault{400, "invalid_request_error", "not_split", 0}},
	{ErrUnsalted, Fault{400, "invalid_request_error", "cache_not_apart", 0}},
	{ErrHeldHead, Fault{426, "invalid_request_error", "no_websocket", 0}},
	{ErrUnread, Fault{426, "invalid_request_error", "no_websocket", 0}},
	{ErrHead, Fault{431, "invalid_request_error", "header_too_large", 0}},
	{ErrConnect, Fault{405, "invalid_request_error", "method_not_allowed", 0}},
	{identity.ErrNoTenant, Fault{401, "authentication_error", "unknown_tenant", 0}},
	{identity.ErrBadTenant, Fault{400, "invalid_request_error", "bad_tenant", 0}},
	{ErrNoModel, Fault{404, "invalid_request_error", "model_not_found", 0}},
	{ErrUnreadName, Fault{404, "invalid_request_error", "model_not_found", 0}},
	{ErrModelsUnread, Fault{404, "invalid_request_error", "path_not_allowed", 0}},
	{ErrListsAll, Fault{404, "invalid_request_error", "path_not_allowed", 0}},
	{ErrPinningOff, Fault{400, "invalid_request_error", "pinning_off", 0}},
	{body.ErrBadBody, Fault{400, "invalid_request_error", "incomplete_body", 0}},
	{body.ErrSlowBody, Fault{408, "invalid_request_error", "request_timeout", 0}},
	{body.ErrTooLarge, Fault{413, "invalid_request_error", "request_too_large", 0}},
	{body.ErrNoRoom, Fault{503, "service_unavailable", "overloaded", time.Second}},
	{ErrWaited, Fault{503, "service_unavailable", "queue_timeout", time.Second}},
	{ErrDeadline, Fault{504, "api_error", "deadline_exceeded", 0}},
	{ErrUnattainable, Fault{429, "rate_limit_error", "objective_unattainable", time.Second}},
	{ErrDraining, Fault{503, "service_unavailable", "shutting_down", time.Second}},
	{timeouts.ErrShutdown, Fault{503, "service_unavailable", "shutting_down", time.Second}},
	{timeouts.ErrNoFirstByte, Fault{504, "api_error", "endpoint_timeout", 0}},
	{timeouts.ErrIdle, Fault{504, "api_error", "endpoint_timeout", 0}},
	{timeouts.ErrSilent, Fault{504, "api_error", "endpoint_timeout", 0}},
	{timeouts.ErrMute, Fault{504, "api_error", "endpoint_timeout", 0}},
	{timeouts.ErrRefusing, Fault{502, "api_error", "endpoint_gone", 0}},
	{timeouts.ErrDown, Fault{502, "api_error", "endpoint_gone", 0}},
	{timeouts.ErrStalled, Fault{502, "api_error", "endpoint_gone", 0}},
	{timeouts.ErrAsleep, Fault{502, "api_error", "endpoint_gone", 0}},
	{ErrElsewhere, Fault{502, "api_error", "endpoint_gone", 0}},
	{ErrUnreachable, Fault{503, "service_unavailable", "endpoint_unreachable", time.Second}},
	{ErrShortage, Fault{503, "service_unavailable", "overloaded", time.Second}},
	{ErrLoop, Fault{508, "api_error", "loop_detected", 0}},
	{ErrBroken, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrLethal, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrCut, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrNotHTTP, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrMoved, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrAnswerHead, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrTruncated, Fault{502, "api_error", "endpoint_failed", 0}},
	{ErrNoStream, Fault{502, "api_error", "endpoint_failed", 0}},
}

// Of is the client's view of an error.
func Of(err error) Fault {
	var leg *legError
	if errors.As(err, &leg) {
		return leg.fault()
	}
	if f, ok := ofRouter(err); ok {
		return f
	}
	if f, ok := ofDoor(err); ok {
		return f
	}
	for i := range faults {
		if errors.Is(err, faults[i].err) {
			return faults[i].Fault
		}
	}
	return Fault{500, "api_error", "internal_error", 0}
}

// ofRouter is the view of an error of package route; ok is false for others.
func ofRouter(err error) (f Fault, ok bool) {
	var (
		unknown  *route.UnknownModelError
		id       *route.UnknownIDError
		required *route.ModelRequiredError
		pin      *route.PinError
		none     *route.NoEndpointError
		kind     *route.KindError
		full     *route.QueueFullError
	)
	switch {
	case errors.As(err, &unknown):
		return Fault{404, "invalid_request_error", "model_not_found", 0}, true
	case errors.As(err, &id):
		return Fault{404, "invalid_request_error", "not_found", 0}, true
	case errors.As(err, &full):
		return Fault{429, "requests", "queue_full", max(full.RetryAfter, time.Second)}, true
	case errors.As(err, &required):
		return Fault{400, "invalid_request_error", "model_required", 0}, true
	case errors.As(err, &pin):
		return Fault{400, "invalid_request_error", "bad_pin", 0}, true
	case errors.As(err, &kind):
		return Fault{400, "invalid_request_error", "cache_not_apart", 0}, true
	case errors.As(err, &none):
		return Fault{503, "service_unavailable", "no_endpoint", max(none.RetryAfter, time.Second)}, true
	}
	return Fault{}, false
}

// ofDoor is the view of an error that has more to say than its name, of the proxy itself; ok is false for others.
func ofDoor(err error) (f Fault, ok bool) {
	var (
		encoding *encodingError
		path     *paths.PathError
		api      *APIError
		page     *PageError
		header   *headerError
		limit    *quota.Error
		held     *HeldError
		ended    *identity.EndedError
	)
	switch {
	case errors.As(err, &ended):
		return Fault{401, "authentication_error", "key_ended", 0}, true
	case errors.As(err, &held):
		return Fault{429, "requests", "held_too_long", max(held.Most, time.Second)}, true
	case errors.As(err, &path) && len(path.Methods) > 0:
		return Fault{405, "invalid_request_error", "method_not_allowed", 0}, true
	case errors.As(err, &path):
		return Fault{404, "invalid_request_error", "path_not_allowed", 0}, true
	case errors.As(err, &header):
		return Fault{400, "invalid_request_error", "bad_header", 0}, true
	case errors.As(err, &limit):
		return limited(limit), true
	case errors.As(err, &api):
		return Fault{404, "invalid_request_error", "api_not_served", 0}, true
	case errors.As(err, &page):
		return page.fault(), true
	case errors.As(err, &encoding):
		return Fault{415, "invalid_request_error", "unsupported_encoding", 0}, true
	}
	return Fault{}, false
}

// Limit is the setting for all tenants, or the header of the request, that an error comes from; "" for errors that are
// no limit.
func Limit(err error) string {
	var (
		limit *quota.Error
		full  *route.QueueFullError
	)
	switch {
	case errors.As(err, &limit):
		return limit.Setting
	case errors.As(err, &full):
		return "limits.waiting"
	case errors.Is(err, ErrWaited):
		return "limits.wait"
	case errors.Is(err, ErrDeadline):
		return "X-Warmpath-Deadline"
	case errors.Is(err, ErrUnattainable):
		return "X-Warmpath-Ttft-Ms"
	case errors.Is(err, body.ErrNoRoom):
		return "limits.memory"
	case errors.Is(err, body.ErrTooLarge):
		return "limits.body"
	case errors.Is(err, ErrHead):
		return "limits.header"
	}
	return ""
}

// limited reports a limit in OpenAI's form: the type names what is limited, and the code whether it is a rate.
func limited(e *quota.Error) Fault {
	f := Fault{429, "requests", "rate_limit_exceeded", max(e.RetryAfter, time.Second)}
	switch e.Kind() {
	case "connections":
		f.Code = "too_many_connections"
	case "requests":
		f.Code = "concurrency_limit_exceeded"
	case "tokens_per_minute":
		f.kind = "tokens"
	}
	return f
}

// Body is an error in the format of the client's API: OpenAI's, which Anthropic's clients also read if "type" is
// "error" (Anthropic API, "Errors"), or the string that Ollama's clients expect (ollama docs/api.md).
func Body(api prompt.API, f Fault, message string) []byte {
	inner := map[string]any{"message": message, "type": f.kind, "code": f.Code, "param": nil}
	var outer any = map[string]any{"error": inner}
	if f.kind == prefillerError || f.kind == decoderError {
		inner["code"] = f.Status
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

func anthropicType(f Fault) string {
	switch f.Status {
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
	}
	if f.Status >= 400 && f.Status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

// Shape is the API whose error format applies to a path: its own API, or that of its family.
func Shape(api prompt.API, path string) prompt.API {
	switch {
	case api != prompt.Other:
		return api
	case strings.HasPrefix(path, "/api/"):
		return prompt.OllamaChat
	case strings.HasPrefix(path, "/v1/messages/"):
		return prompt.Messages
	}
	return api
}
