package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/patience"
)

// judge notes what the status of an answer means for the endpoint's books.
func (a *attempt) judge(res *http.Response) {
	a.fin.Outcome = outcomeOf(res.StatusCode)
	if a.fin.Outcome == fleet.Busy {
		a.fin.RetryAfter, a.fin.Limited = retryAfter(res.Header), res.StatusCode == http.StatusTooManyRequests
	}
}

// outcomeOf is what the status of an answer means for the endpoint's books.
func outcomeOf(status int) fleet.Outcome {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return fleet.Busy
	case status >= 500 && status != http.StatusNotImplemented:
		return fleet.EngineError
	case status >= 400:
		return fleet.ClientError
	default:
		return fleet.OK
	}
}

// computed reports whether an engine that works may have spent something on the attempt, so that another one is further load: the retry
// budget is charged for it. It is not for what the router takes away from engines that hang or are gone.
func (a *attempt) computed() bool {
	if a.waits || a.fin.Outcome == fleet.ConnectFailed {
		return false
	}
	cause := a.watch.Cause()
	return !errors.Is(cause, patience.ErrSilent) && !errors.Is(cause, patience.ErrDown) && !errors.Is(cause, patience.ErrRefusing)
}

// alike reports whether the call has failed so before: a request that fails at one engine after another may be at fault itself, and only
// the first of them is blamed.
func (c *call) alike(o fleet.Outcome) bool {
	if o != fleet.EngineError && o != fleet.TimedOut {
		return false
	}
	was := c.failures&(1<<o) != 0
	c.failures |= 1 << o
	return was
}

// retryAfter reads the delay form of Retry-After (RFC 9110, section 10.2.3); 0 when there is none.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(s, 3600)) * time.Second
}
