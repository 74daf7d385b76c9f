//go:build !linux

package h1

import (
	"errors"
	"net"
	"time"
)

// leanConn is for Linux only.
type leanConn struct{ net.Conn }

func lean(c net.Conn, _ bool) net.Conn { return c }

func serve(c net.Conn, stall time.Duration) net.Conn { return bound(c, stall) }

func (l *leanConn) gather(_, _ []byte) (int, error) { return 0, errors.ErrUnsupported }

func (l *leanConn) sendAndReceive(_, _ []byte, _ *outgoing, _ memory) (int, bool, error, error) {
	return 0, true, errors.ErrUnsupported, nil
}
