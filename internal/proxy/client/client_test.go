package client_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/client"
)

// deadline is a ResponseWriter that notes the deadline on reading.
type deadline struct {
	http.ResponseWriter
	at time.Time
}

func (d *deadline) SetReadDeadline(t time.Time) error {
	d.at = t
	return nil
}

func (*deadline) FlushError() error { return nil }

// endless is a body of a client that goes on sending.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	e.sent += len(p)
	return len(p), nil
}

// TestLingerEnds: what a client sends after its answer is read for so long only, and no longer once the router ends.
func TestLingerEnds(t *testing.T) {
	from := new(endless)
	r := httptest.NewRequest(http.MethodPost, "/", from)
	w := new(deadline)
	var c client.Client
	c.Start(w, r, "id", time.Minute, slog.New(slog.DiscardHandler))
	asked := 0
	c.Linger(func() bool { asked++; return asked > 3 })
	if from.sent != 3*64<<10 || w.at.IsZero() {
		t.Errorf("%d bytes were read, until %v", from.sent, w.at)
	}
}

// TestUnreadBodies: net/http waits for an unread body over HTTP/1.1 alone. Over HTTP/2 a deadline would outlive a
// stream that its client has reset.
func TestUnreadBodies(t *testing.T) {
	for _, tt := range []struct {
		proto int
		body  string
		want  bool
	}{{1, "abc", true}, {1, "", false}, {2, "abc", false}} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body))
		r.ProtoMajor = tt.proto
		w := new(deadline)
		client.PassOver(w, r, time.Minute)
		if got := !w.at.IsZero(); got != tt.want {
			t.Errorf("HTTP/%d with the body %q has a deadline: %v", tt.proto, tt.body, got)
		}
	}
}
