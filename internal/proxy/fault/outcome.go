package fault

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// overloaded is the status of Anthropic's overloaded_error (Anthropic API, "Errors").
const overloaded = 529

// OutcomeOf is the outcome of an attempt by the status of its answer.
func OutcomeOf(status int) fleet.Outcome {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == overloaded:
		return fleet.Busy
	case status >= 500 && status != http.StatusNotImplemented:
		return fleet.EngineError
	case status >= 400:
		return fleet.ClientError
	default:
		return fleet.OK
	}
}

// OutcomeOfError is the outcome of an answer with status 200 that has an error, by the error's own status.
func OutcomeOfError(code int) fleet.Outcome {
	if code >= http.StatusBadRequest {
		return OutcomeOf(code)
	}
	return fleet.EngineError
}

// RetryAfter reads the delay form of Retry-After (RFC 9110, section 10.2.3); 0 when there is none.
func RetryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(s, 3600)) * time.Second
}
