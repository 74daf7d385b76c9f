package fault

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

// ErrNoConnector means that the prefiller's kind of engine has no known way of handing its KV cache over.
var ErrNoConnector = errors.New(
	"no known connector can hand this request's KV cache over from the prefiller's kind of engine",
)

// Unfit reports whether a leg cannot be sent because of what the request asks for: no engine is at fault.
func Unfit(err error) bool {
	return errors.Is(err, ErrNoConnector) || errors.Is(err, handover.ErrUnfit)
}

// Types of errors that name the failed leg, as in production-stack.
const (
	prefillerError = "prefiller_error"
	decoderError   = "decoder_error"
)

// legError is the failure of one leg of a request.
type legError struct {
	leg        fleet.Leg
	status     int    // the engine's; 0 for none
	said       string // by the engine
	err        error  // without an answer of the engine
	retryAfter time.Duration
}

func (e *legError) Error() string { return e.text(error.Error) }

// text is the message, with the cause in the words of say.
func (e *legError) text(say func(error) string) string {
	what := "Prefill error: "
	if e.leg == fleet.LegDecode {
		what = "Decoder error: "
	}
	switch {
	case e.said != "":
		return what + e.said
	case e.err != nil:
		if inner := (*legError)(nil); errors.As(e.err, &inner) {
			return inner.text(say)
		}
		return what + say(e.err)
	default:
		return what + http.StatusText(e.status)
	}
}

func (e *legError) Unwrap() error { return e.err }

// Unsaid is an error for the log: without the engine's message, which often repeats a part of the prompt.
func Unsaid(err error) error {
	if leg := (*legError)(nil); errors.As(err, &leg) && leg.said != "" {
		return &legError{leg: leg.leg, status: leg.status}
	}
	return err
}

// Answered is an engine's error to a leg, with status and message.
func Answered(leg fleet.Leg, status int, said string, retryAfter time.Duration) error {
	return &legError{leg: leg, status: status, said: said, retryAfter: retryAfter}
}

// Failed is a leg's failure without an answer of the engine.
func Failed(leg fleet.Leg, why error) error { return &legError{leg: leg, err: why} }

// IsOfLeg reports whether an error is the failure of a leg.
func IsOfLeg(err error) bool {
	leg := (*legError)(nil)
	return errors.As(err, &leg)
}

// fault is the client's view of the error.
func (e *legError) fault() Fault {
	f := Fault{http.StatusBadGateway, prefillerError, prefillerError, e.retryAfter}
	if e.leg == fleet.LegDecode {
		f.kind, f.Code = decoderError, decoderError
	}
	inner := (*legError)(nil)
	switch {
	case e.status != 0:
		f.Status = e.status
	case errors.As(e.err, &inner):
		return inner.fault()
	case errors.Is(e.err, handover.ErrUnfit):
		return Of(e.err)
	default:
		if of := Of(e.err); of.Code != "internal_error" {
			f.Status, f.RetryAfter = of.Status, of.RetryAfter
		}
	}
	return f
}

// Text is the message in an engine's error body: OpenAI's object, SGLang's flat one, FastAPI's detail, or plain text.
func Text(body []byte) string {
	const longest = 500
	var v struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	text := ""
	if json.Unmarshal(body, &v) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(v.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case json.Unmarshal(v.Error, &text) == nil && text != "":
		case v.Message != "":
			text = v.Message
		case json.Unmarshal(v.Detail, &text) == nil && text != "":
		}
	}
	if text == "" {
		text = strings.TrimSpace(string(body[:min(len(body), longest)]))
	}
	if len(text) > longest {
		text = text[:longest]
	}
	return strings.ToValidUTF8(text, "")
}
