// Package shortage is the shortage of file descriptors in this process or on this machine. It owns which errors say so,
// and what the log is told when connections cannot be accepted for want of them. It promises that such an error is
// never taken for one of the other side. It never frees anything.
package shortage

import (
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
)

// Is reports whether an error says that this process, or this machine, had no file descriptor or no buffer left for a
// connection. It says nothing about who was to be connected to.
func Is(err error) bool {
	for _, short := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS} {
		if errors.Is(err, short) {
			return true
		}
	}
	return false
}

// listener tells the log of shortages.
type listener struct {
	net.Listener
	name  string
	log   *slog.Logger
	short atomic.Bool
}

// Listener is l, which tells the log when connections cannot be accepted for want of file descriptors, and when they
// can again, once each. http.Server tries again by itself; clients wait until then.
func Listener(l net.Listener, name string, log *slog.Logger) net.Listener {
	return &listener{Listener: l, name: name, log: log}
}

// Accept is l's.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	switch {
	case err == nil && l.short.Load() && l.short.Swap(false):
		l.log.Warn("connections are accepted again", "listener", l.name)
	case err != nil && Is(err) && !l.short.Swap(true):
		l.log.Error("connections cannot be accepted: no file descriptors are left; raise the limit of open files, "+
			"or set limits.connections below half of it", "listener", l.name, "error", err)
	}
	return c, err
}
