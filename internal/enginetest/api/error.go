package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Error is an error that is the client's fault.
type Error struct {
	Status int
	Kind   string // the "type" of the error
	Msg    string

	PromptTokens int // of a prompt that is too long, else 0

	Invalid bool // the body does not have the API's form: TensorRT-LLM says so in another shape
}

func (e *Error) Error() string { return e.Msg }

// Bad is an invalid request, answered with 400.
func Bad(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Kind: "BadRequestError", Msg: fmt.Sprintf(format, args...)}
}

// Invalid is a body that does not have the API's form, in the words of FastAPI's RequestValidationError, which also
// repeats what is wrong. member is "" for what is wrong with the whole.
func Invalid(kind, member, msg string) *Error {
	at := "('body',)"
	if member != "" {
		at = "('body', '" + member + "')"
	}
	e := Bad("[{'type': '%s', 'loc': %s, 'msg': '%s'}]", kind, at, msg)
	e.Invalid = true
	return e
}

// ClientFault makes an error of reading a prompt a 400, unless it already is an Error.
func ClientFault(err error) error {
	var b *Error
	if errors.As(err, &b) {
		return err
	}
	return Bad("%v", err)
}

// ErrorObject is an error in OpenAI's shape.
func ErrorObject(status int, kind, msg string) map[string]any {
	return map[string]any{"error": map[string]any{"message": msg, "type": kind, "param": nil, "code": status}}
}

// AnthropicKind is Anthropic's error type for a status.
func AnthropicKind(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusInternalServerError:
		return "api_error"
	default:
		return "invalid_request_error"
	}
}

// WriteJSON writes a whole answer.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values only
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
