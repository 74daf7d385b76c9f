package shortage_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/shortage"
)

func TestIs(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	full := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	for err, want := range map[error]bool{
		refused: false, full: true, fmt.Errorf("a: %w", full): true, errors.New("too many open files"): false,
	} {
		if shortage.Is(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
	if shortage.Is(nil) {
		t.Error("nil is one")
	}
}

// script is a listener that answers what it was told to.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, err
}

// TestListener: a shortage is told once, and its end once; other errors are the server's.
func TestListener(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	var log bytes.Buffer
	errs := []error{nil, full, full, net.ErrClosed, full, nil, nil, full, net.ErrClosed}
	l := shortage.Listener(&script{errs: errs}, "traffic", slog.New(slog.NewTextHandler(&log, nil)))
	for i, want := range errs {
		if _, err := l.Accept(); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", i, err, want)
		}
	}
	if said := log.String(); strings.Count(said, "cannot be accepted") != 2 ||
		strings.Count(said, "accepted again") != 1 {
		t.Errorf("the log says\n%s", said)
	}
}
