package fault

import (
	"net/http"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

func TestOutcomeOf(t *testing.T) {
	for status, want := range map[int]fleet.Outcome{
		200: fleet.OK, 307: fleet.OK, 400: fleet.ClientError, 413: fleet.ClientError, 422: fleet.ClientError,
		424: fleet.EngineError, 429: fleet.Busy, 500: fleet.EngineError, 501: fleet.ClientError, 502: fleet.EngineError,
		503: fleet.Busy, 529: fleet.Busy,
	} {
		if got := OutcomeOf(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		status int
		own    string
		want   int
	}{
		{424, "", 424}, {424, "400", 400}, {424, "503", 503}, {424, "200", 424}, {424, "none", 424}, {500, "400", 500},
	} {
		h := http.Header{}
		if tt.own != "" {
			h.Set("ms-azureml-model-error-statuscode", tt.own)
		}
		if got := Status(&http.Response{StatusCode: tt.status, Header: h}); got != tt.want {
			t.Errorf("%d with %q: %d, want %d", tt.status, tt.own, got, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, tt := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"20", "", 20 * time.Second},
		{" 20 ", "", 20 * time.Second},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"9999999999999999999999", "", 0},
		{"7200", "", time.Hour},
		{at(30 * time.Second), "", 30 * time.Second},
		{at(-30 * time.Second), "", 0},
		{at(48 * time.Hour), "", time.Hour},
		{at(10*time.Minute + 30*time.Second), at(10 * time.Minute), 30 * time.Second}, // the engine's clock is fast
		{at(30 * time.Second), "no date", 30 * time.Second},
	} {
		h := http.Header{"Retry-After": {tt.after}, "Date": {tt.date}}
		if got := RetryAfter(h, now); got != tt.want {
			t.Errorf("Retry-After %q, Date %q: %v, want %v", tt.after, tt.date, got, tt.want)
		}
	}
}
