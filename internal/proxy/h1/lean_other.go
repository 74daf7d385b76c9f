//go:build !linux

package h1

import (
	"errors"
	"net"
)

// leanConn is for Linux; elsewhere there is none.
type leanConn struct{ net.Conn }

func lean(c net.Conn, _ bool) net.Conn { return c }

func (l *leanConn) gather(_, _ []byte) (int, error) { return 0, errors.ErrUnsupported }
