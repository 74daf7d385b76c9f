package h1

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one connection and the memory that its exchanges share. It belongs to one exchange at a time, or to the pool;
// only close (and abort, its alias) may be called by others.
type conn struct {
	client *Client
	addr   string // host:port
	nc     net.Conn
	lean   *leanConn // nc, when it is one
	abort  func()    // close as a function value, made once

	in      reader
	vec     [2][]byte   // head and body of a request, for one gathered write
	rest    net.Buffers // the bytes not written yet; points into vec
	reused  bool
	takenAt time.Time // when the pool gave it out; valid when reused
	renewAt time.Time // from then on it takes no more requests; zero for any time

	idleSince time.Time // guarded by the pool's lock
	probe     probe     // looks for bytes or an end on an unused connection

	closed atomic.Bool
}

func newConn(c *Client, addr string, nc net.Conn) *conn {
	cn := &conn{client: c, addr: addr, nc: lean(nc, false)}
	cn.lean, _ = cn.nc.(*leanConn)
	cn.in.src = cn.nc
	cn.in.lent, _ = cn.nc.(lateReader)
	cn.abort = cn.close
	if sc, ok := nc.(syscall.Conn); ok {
		cn.probe.init(sc)
	}
	c.open.Add(1)
	return cn
}

// alive reports whether an unused connection can take a request: it is open, and silent since its last answer.
// Unrequested bytes (a 408 before closing, or an extra answer) would be taken for the answer to the next request.
func (cn *conn) alive(out *outgoing) bool {
	return !cn.closed.Load() && cn.in.buffered() == 0 && (cn.checksSilence(out) || cn.probe.quiet())
}

func (cn *conn) tooOld(now time.Time) bool { return !cn.renewAt.IsZero() && !now.Before(cn.renewAt) }

// checksSilence reports whether sending out itself checks that the connection is silent.
func (cn *conn) checksSilence(out *outgoing) bool { return cn.lean != nil && out.short() }

// errLoud means that a kept connection was closed or had unrequested bytes before anything was sent.
var errLoud = errors.New("h1: the kept connection is unusable")

// sendAndReceive sends a short request on a kept connection and reads the beginning of its answer.
func (cn *conn) sendAndReceive(out *outgoing, head, body []byte) error {
	n, quiet, sendErr, err := cn.lean.sendAndReceive(head, body, out, &cn.in)
	if !quiet {
		return errLoud
	}
	cn.in.took(n, err)
	return sendErr
}

// close closes the connection; calls after the first do nothing.
func (cn *conn) close() {
	if cn.closed.CompareAndSwap(false, true) {
		cn.client.open.Add(-1)
		_ = cn.nc.Close()
	}
}

// release gives the connection back to the pool. All bytes of its buffer have been read.
func (cn *conn) release() {
	cn.in.give()
	cn.client.pool.put(cn, time.Now())
}
