package h1

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// writeDeadline is the write deadline of a connection with two sources: the connection's user, and the bound on a Write
// that the client does not take. The earlier one applies.
type writeDeadline struct {
	set func(time.Time) error // the connection's own SetWriteDeadline

	mu    sync.Mutex
	asked time.Time // by the user; zero for never. Guarded by mu
	stall time.Time // of Writes; zero for never. Guarded by mu
}

// ask sets the user's deadline.
func (d *writeDeadline) ask(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = t
	return d.apply()
}

// bound sets the deadline of a Write.
func (d *writeDeadline) bound(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stall = t
	_ = d.apply() // fails for a closed connection, as the Write does
}

// apply sets the earlier deadline. The caller holds mu.
func (d *writeDeadline) apply() error {
	if d.asked.IsZero() || !d.stall.IsZero() && d.stall.Before(d.asked) {
		return d.set(d.stall)
	}
	return d.set(d.asked)
}

// boundConn is a server's connection with a limit on each Write, where leanConn is not available.
type boundConn struct {
	net.Conn
	limit time.Duration
	made  time.Time
	// ns after made at which a Write in progress ends, 0 for none so far. The clock of the wall may be set back
	until    atomic.Int64
	deadline writeDeadline
}

// bound limits each Write of c; a limit of 0 is none.
func bound(c net.Conn, limit time.Duration) net.Conn {
	if limit <= 0 {
		return c
	}
	return &boundConn{Conn: c, limit: limit, made: time.Now(), deadline: writeDeadline{set: c.SetWriteDeadline}}
}

// Write writes all of p, or fails between one and 5/4 of the limit. To move a deadline costs more than a short Write,
// so one serves all Writes until less than the limit is left of it.
func (b *boundConn) Write(p []byte) (int, error) {
	if age := time.Since(b.made); time.Duration(b.until.Load())-age < b.limit {
		until := age + b.limit + b.limit/4
		b.deadline.bound(b.made.Add(until))
		b.until.Store(int64(until)) // now that other Writes may go by it
	}
	return b.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn.
func (b *boundConn) SetWriteDeadline(t time.Time) error { return b.deadline.ask(t) }

// SetDeadline implements net.Conn.
func (b *boundConn) SetDeadline(t time.Time) error {
	if err := b.SetReadDeadline(t); err != nil {
		return err
	}
	return b.deadline.ask(t)
}
