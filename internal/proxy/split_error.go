package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/patience"
)

var (
	errNoConnector   = errors.New("the prefiller's kind of engine hands its KV cache over by no protocol that is known, or the request does not fit it")
	errEncodedAnswer = errors.New("the decoder's answer is compressed although it was not asked to be")
	errLongReply     = errors.New("the prefiller's reply is longer than 16 MB")
)

// The types of errors that say which leg failed (production-stack PR 890 for the decoder's).
const (
	prefillError = "prefill_error"
	decoderError = "decoder_error"
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

// unsaid is an error as it may stand in a log: without what an engine said, which often repeats a part of the prompt.
func unsaid(err error) error {
	if leg := (*legError)(nil); errors.As(err, &leg) && leg.said != "" {
		return &legError{leg: leg.leg, status: leg.status}
	}
	return err
}

// fault is what the client is told.
func (e *legError) fault() fault {
	f := fault{http.StatusBadGateway, prefillError, prefillError, e.retryAfter}
	if e.leg == fleet.LegDecode {
		f.kind, f.code = decoderError, decoderError
	}
	inner := (*legError)(nil)
	switch {
	case e.status != 0:
		f.status = e.status
	case errors.As(e.err, &inner):
		return inner.fault()
	default:
		if of := faultOf(e.err); of.code != "internal_error" {
			f.status, f.retryAfter = of.status, of.retryAfter
		}
	}
	return f
}

// legged says which leg an error is of.
func (a *attempt) legged(err error) error {
	if leg := (*legError)(nil); a.d.Leg == fleet.LegWhole || errors.Is(err, patience.ErrShutdown) || a.fin.Outcome == fleet.ClientError || errors.As(err, &leg) {
		return err
	}
	return &legError{leg: a.d.Leg, err: err}
}

// errorText is what an engine says in the body of an error: OpenAI's object, SGLang's flat one, FastAPI's detail, or text.
func errorText(body []byte) string {
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
