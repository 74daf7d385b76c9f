package proxy_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestAnswerThatStops: once a plain answer has begun, silence is limited, and no longer by the time that a whole answer
// may take.
func TestAnswerThatStops(t *testing.T) {
	stops := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"choices":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, proxy.Config{Answer: time.Hour, Idle: 3 * time.Second}, stops, answers(200, chatAnswer))
		began := time.Now()
		res, body := r.post("/v1/chat/completions", chatBody)
		if took := time.Since(began); res.StatusCode != 200 || body != chatAnswer || took > time.Minute {
			t.Errorf("%d %s after %s", res.StatusCode, body, took)
		}
	})
}
