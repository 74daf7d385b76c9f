package fault

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// ErrNoConnector says that a prompt cannot be computed elsewhere.
var ErrNoConnector = errors.New("the prefiller's kind of engine hands its KV cache over by no protocol that is known, or the request does not fit it")

// The types of errors that say which leg failed, as production-stack has them.
const (
	prefillerError = "prefiller_error"
	decoderError   = "decoder_error"
)

// legError says that one leg of a request failed.
type legError struct {
	leg        fleet.Leg
	status     int    // the engine's, 0 when it gave none
	said       string // by the engine
	err        error  // when the engine said nothing
	retryAfter time.Duration
}

func (e *legError) Error() string {
	what := "Prefill error: "
	if e.leg == fleet.LegDecode {
		what = "Decoder error: "
	}
	switch {
	case e.said != "":
		return what + e.said
	case e.err != nil:
		if inner := (*legError)(nil); errors.As(e.err, &inner) {
			return inner.Error()
		}
		return what + e.err.Error()
	default:
		return what + http.StatusText(e.status)
	}
}

func (e *legError) Unwrap() error { return e.err }

// Unsaid is an error as it may stand in a log: without what an engine said, which often repeats a part of the prompt.
func Unsaid(err error) error {
	if leg := (*legError)(nil); errors.As(err, &leg) && leg.said != "" {
		return &legError{leg: leg.leg, status: leg.status}
	}
	return err
}

// Answered says that an engine answered a leg with an error of that status, with what it said.
func Answered(leg fleet.Leg, status int, said string, retryAfter time.Duration) error {
	return &legError{leg: leg, status: status, said: said, retryAfter: retryAfter}
}

// Failed says that a leg failed without an answer of the engine.
func Failed(leg fleet.Leg, why error) error { return &legError{leg: leg, err: why} }

// IsOfLeg reports whether an error says which leg it is of.
func IsOfLeg(err error) bool {
	leg := (*legError)(nil)
	return errors.As(err, &leg)
}

// fault is what the client is told.
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
	default:
		if of := Of(e.err); of.Code != "internal_error" {
			f.Status, f.RetryAfter = of.Status, of.RetryAfter
		}
	}
	return f
}

// Text is what an engine says in the body of an error: OpenAI's object, SGLang's flat one, FastAPI's detail, or text.
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
