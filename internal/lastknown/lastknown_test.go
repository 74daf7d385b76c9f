package lastknown_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/lastknown"
)

// conn is a connection to somewhere.
type conn struct {
	net.Conn
	at string
}

func (c conn) RemoteAddr() net.Addr { return address(c.at) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// TestDialer follows a name through look-ups that work, fail, work again, and say that it is gone.
func TestDialer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused, servfail := errors.New("refused"), &net.DNSError{Err: "server misbehaving", IsTemporary: true}
		gone := &net.DNSError{Err: "no such host", IsNotFound: true}
		var fault error
		var asked []string
		var log bytes.Buffer
		dial := lastknown.Dialer(func(_ context.Context, _, a string) (net.Conn, error) {
			asked = append(asked, a)
			if strings.HasPrefix(a, "10.") {
				return conn{at: a}, nil
			}
			if fault != nil {
				return nil, &net.OpError{Op: "dial", Err: fault}
			}
			return conn{at: "10.0.0.1:80"}, nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		try := func(a string, want error, dialled ...string) {
			t.Helper()
			asked = nil
			if _, err := dial(t.Context(), "tcp", a); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", a, err, want)
			}
			if strings.Join(asked, " ") != strings.Join(dialled, " ") {
				t.Errorf("%s: connected to %v, want %v", a, asked, dialled)
			}
		}
		fault = servfail
		try("new:80", servfail, "new:80") // never connected to before
		fault = nil
		try("e:80", nil, "e:80")
		try("10.0.0.9:80", nil, "10.0.0.9:80")
		fault = refused
		try("e:80", refused, "e:80") // the engine's fault
		fault = servfail
		try("e:80", nil, "e:80", "10.0.0.1:80")
		try("e:80", nil, "10.0.0.1:80") // at once: a resolver that hangs takes its time
		time.Sleep(11 * time.Second)
		try("e:80", nil, "e:80", "10.0.0.1:80")
		if n := strings.Count(log.String(), "cannot be looked up"); n != 1 {
			t.Errorf("said %d times", n)
		}
		fault = nil
		time.Sleep(11 * time.Second)
		try("e:80", nil, "e:80")
		if !strings.Contains(log.String(), "looked up again") {
			t.Errorf("the log says %s", log.String())
		}
		fault = gone
		try("e:80", gone, "e:80")
		fault = servfail
		try("e:80", servfail, "e:80") // it was gone
	})
}
