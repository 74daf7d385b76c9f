package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/fault"
)

// longestTarget bounds the times that a request may ask for.
const longestTarget = 24 * time.Hour

// target reads a time, as a duration or as a number of units; 0 when the request does not say it.
func target(h http.Header, name string, unit time.Duration) (time.Duration, error) {
	v := h[name]
	if len(v) == 0 {
		return 0, nil
	}
	text := strings.TrimSpace(v[0])
	d, err := time.ParseDuration(text)
	if n, notNumber := strconv.ParseFloat(text, 64); notNumber == nil {
		if d, err = 0, nil; n > 0 && n <= float64(longestTarget/unit) {
			d = max(1, time.Duration(n*float64(unit)))
		}
	}
	if err != nil || d <= 0 || d > longestTarget {
		units := "seconds"
		if unit == time.Millisecond {
			units = "milliseconds"
		}
		return 0, fault.Header(name, "must be above 0 and at most 24h, in "+units+" or as a duration such as 1500ms")
	}
	return d, nil
}
