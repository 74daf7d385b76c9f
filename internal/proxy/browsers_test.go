package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestStreamsAreNotBuffered: nginx in front passes on at once what says so: streams of events and lines, not whole answers.
func TestStreamsAreNotBuffered(t *testing.T) {
	for _, c := range []struct{ media, engine, want string }{
		{"text/event-stream", "", "no"},
		{"text/event-stream; charset=utf-8", "", "no"},
		{"Text/Event-Stream", "", "no"},
		{"application/x-ndjson", "", "no"},
		{"application/jsonl", "", "no"},
		{"text/event-stream", "yes", "yes"},
		{"application/json", "", ""},
		{"audio/mpeg", "", ""},
	} {
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			if c.engine != "" {
				w.Header().Set("X-Accel-Buffering", c.engine)
			}
			_, _ = io.WriteString(w, "data: {}\n\ndata: [DONE]\n\n")
		})
		res, err := r.client.Post(r.url+"/v1/audio/speech", "application/json", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if got := res.Header.Get("X-Accel-Buffering"); got != c.want {
			t.Errorf("%s, the engine says %q: %q, want %q", c.media, c.engine, got, c.want)
		}
	}
}
