package fault

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/warmpath/warmpath/prompt"
)

// Event is the body of an error as a server-sent event of an API's streams. Anthropic names it "error" (Anthropic API,
// "Streaming messages"); so does OpenAI for responses, where the members of the error stand beside its type and a
// number (ResponseErrorEvent). The libraries of both raise an error for data with "error", which is kept.
func Event(api prompt.API, body []byte) []byte {
	event := make([]byte, 0, len(body)+128)
	switch api {
	case prompt.Messages:
		event = append(event, "event: error\ndata: "...)
	case prompt.Responses:
		event = append(event, "event: error\ndata: "...)
		body = responseError(body)
	default:
		event = append(event, "data: "...)
	}
	return append(append(event, body...), "\n\n"...)
}

// responseError is OpenAI's event of a response that failed, for the body of an error.
func responseError(body []byte) []byte {
	var of struct {
		Error json.RawMessage `json:"error"`
	}
	var event struct {
		Type     string          `json:"type"`
		Number   int             `json:"sequence_number"`
		Code     json.RawMessage `json:"code"`
		Message  json.RawMessage `json:"message"`
		Param    json.RawMessage `json:"param"`
		Original json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &of) != nil || json.Unmarshal(of.Error, &event) != nil {
		return body
	}
	event.Type, event.Original = "error", of.Error
	b, err := json.Marshal(event)
	if err != nil {
		return body
	}
	return b
}

// Restated is an engine's error in the form of Body and on one line: what the engine said, if it has that form, else
// its message in it.
func Restated(api prompt.API, status int, said []byte) []byte {
	var v struct {
		Type  string          `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(said, &v) == nil && bytes.HasPrefix(v.Error, []byte("{")) &&
		(api != prompt.Messages || v.Type == "error") {
		var line bytes.Buffer
		if json.Compact(&line, said) == nil {
			return line.Bytes()
		}
	}
	return Body(api, ofStatus(status), Text(said))
}

// ofStatus is an engine's error without a form of its own.
func ofStatus(status int) Fault {
	f := Fault{Status: status, kind: "api_error", Code: "engine_error"}
	switch {
	case status == http.StatusTooManyRequests:
		f.kind = "rate_limit_error"
	case status == http.StatusServiceUnavailable:
		f.kind = "service_unavailable"
	case status == overloaded:
		f.kind = "overloaded_error"
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		f.kind = "invalid_request_error"
	}
	return f
}
