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

// Status is the status that an answer stands for. Azure ML's endpoints answer 424 for whatever the server behind them
// says but 200, whose own status is in a header.
func Status(res *http.Response) int {
	if res.StatusCode == http.StatusFailedDependency {
		own, err := strconv.Atoi(res.Header.Get("Ms-Azureml-Model-Error-Statuscode"))
		if err == nil && own >= http.StatusBadRequest {
			return own
		}
	}
	return res.StatusCode
}

// OutcomeOf is the outcome of an attempt by the status that its answer stands for.
func OutcomeOf(status int) fleet.Outcome {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == overloaded:
		return fleet.Busy
	case status >= 500 && status != http.StatusNotImplemented,
		// Hugging Face's servers, where their backend failed (text-generation-inference, text-embeddings-inference:
		// From<InferError>, From<&ErrorType> for StatusCode)
		status == http.StatusFailedDependency:
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

// RetryAfter reads Retry-After, a delay or a date (RFC 9110, section 10.2.3), an hour at most; 0 when there is none. A
// date counts from that of the answer, by the same clock.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value, wait := strings.TrimSpace(h.Get("Retry-After")), time.Duration(0)
	if s, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(max(s, 0), 3600)) * time.Second
	} else if until, err := http.ParseTime(value); err == nil {
		if said, err := http.ParseTime(h.Get("Date")); err == nil {
			now = said
		}
		wait = until.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
