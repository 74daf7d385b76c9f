package enginetest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// took is the duration of a request, to the microsecond. Time is the bubble's, so it is exact.
func took(t *testing.T, s *enginetest.Server, body string) time.Duration {
	t.Helper()
	begin := time.Now()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec,
		httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(body)))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return time.Since(begin).Round(time.Microsecond)
}

func TestTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := enginetest.New(enginetest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		body := func(salt string) string {
			return `{"model":"simulated","prompt":` + quote(longText) +
				`,"max_tokens":11,"ignore_eos":true,"cache_salt":"` + salt + `"}`
		}
		step := 4100 * time.Microsecond
		cold := 11*step + 44444*time.Microsecond
		if got := took(t, s, body("a")); got != cold {
			t.Errorf("cold: %v, want %v", got, cold)
		}
		warm := 11*step + 1777*time.Microsecond
		if got := took(t, s, body("a")).Truncate(10 * time.Microsecond); got != warm.Truncate(10*time.Microsecond) {
			t.Errorf("warm: %v, want %v", got, warm)
		}
		if err := s.SetFault(enginetest.Fault{Kind: enginetest.FaultSlow, Factor: 3}); err != nil {
			t.Fatal(err)
		}
		if got := took(t, s, body("b")).Truncate(10 * time.Microsecond); got != (3 * cold).Truncate(
			10*time.Microsecond) {
			t.Errorf("slow: %v, want %v", got, 3*cold)
		}
		if err := s.SetFault(enginetest.Fault{Kind: enginetest.Fault503, Seconds: 5}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second) // of the bubble
		if got := took(t, s, body("c")); got != cold {
			t.Errorf("after the faults: %v, want %v", got, cold)
		}
	})
}

// headerTimes is a ResponseWriter that records when the status was sent.
type headerTimes struct {
	*httptest.ResponseRecorder
	at time.Time
}

func (h *headerTimes) note() {
	if h.at.IsZero() {
		h.at = time.Now()
	}
}

func (h *headerTimes) WriteHeader(status int)      { h.note(); h.ResponseRecorder.WriteHeader(status) }
func (h *headerTimes) Write(b []byte) (int, error) { h.note(); return h.ResponseRecorder.Write(b) }

// vLLM sends a stream's headers at once; SGLang sends them with the first token.
func TestHeadersComeWhenTheDialectSendsThem(t *testing.T) {
	for kind, early := range map[fleet.Kind]bool{fleet.KindVLLM: true, fleet.KindSGLang: false} {
		synctest.Test(t, func(t *testing.T) {
			s, err := enginetest.New(enginetest.Options{Dialect: kind, Models: []string{"m"}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			begin := time.Now()
			w := &headerTimes{ResponseRecorder: httptest.NewRecorder()}
			body := strings.NewReader(chatBody(longText, `,"stream":true`))
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", body))
			if got := w.at.Equal(begin); got != early {
				t.Errorf("%s: the headers came %v after the request", kind, w.at.Sub(begin))
			}
		})
	}
}

// SGLang's health takes a second, and stops when its client leaves.
func TestSGLangHealthTakesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := enginetest.New(enginetest.Options{Dialect: fleet.KindSGLang})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begin := time.Now()
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health", nil))
		if got := time.Since(begin); got != time.Second {
			t.Errorf("health took %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin = time.Now()
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/health", nil))
		if got := time.Since(begin); got != 100*time.Millisecond {
			t.Errorf("health of a client that left took %v", got)
		}
	})
}
