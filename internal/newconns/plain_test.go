package newconns_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/newconns"
)

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// TestPlain: that clients speak TLS to a listener without a certificate is said, once in a while; others are served.
func TestPlain(t *testing.T) {
	log := &lines{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "served")
	}))
	s.Listener = newconns.Plain(s.Listener, "traffic", slog.New(slog.NewTextHandler(log, nil)))
	s.Start()
	defer s.Close()
	ask := func() {
		t.Helper()
		res, err := http.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	said := func() int {
		log.mu.Lock()
		defer log.mu.Unlock()
		return strings.Count(log.text.String(), "a client speaks TLS")
	}
	ask()
	if said() != 0 {
		t.Errorf("said of a plain client: %s", log.text.String())
	}
	for range 3 { // each has its answer, so that it was read
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := tls.Client(c, &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS12}).Handshake(); err == nil {
			t.Error("a plain listener shook hands")
		}
		_ = c.Close()
	}
	if said() != 1 || !strings.Contains(log.text.String(), "listener=traffic from=127.0.0.1:") {
		t.Errorf("said %d times: %s", said(), log.text.String())
	}
	ask()
}
