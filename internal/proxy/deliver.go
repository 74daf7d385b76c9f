package proxy

import (
	"net/http"
	"time"
)

// slowWrite is how long a write to a client takes at least for the router to say that it waits for the client, not for the engine.
const slowWrite = 50 * time.Millisecond

// cutGrace is how long a client may take for what it is sent when its answer has been given up.
const cutGrace = time.Second

// send writes a part of the answer to the client, flushes it if told to, and returns how long that took. Proxy.Run cuts a client
// that takes Idle for it: then send returns an error.
func (c *call) send(part []byte, flush bool) (took time.Duration, err error) {
	began := time.Now()
	c.writing.Store(began.UnixNano())
	if _, err = c.w.Write(part); err == nil && flush {
		switch f := c.w.(type) {
		case interface{ FlushError() error }:
			err = f.FlushError()
		case http.Flusher:
			f.Flush()
		}
	}
	c.writing.Store(0)
	if took = time.Since(began); err != nil && took >= c.p.cfg.Idle {
		c.p.log.Info("client does not read its answer", "request", c.served.ID, "waited", took)
	}
	return took, err
}

// checkClient cuts a client that has not taken a write for Idle. It is called inside the registry's lock.
func (c *call) checkClient(now time.Time) {
	since := c.writing.Load()
	if since == 0 || c.cut || now.UnixNano()-since < int64(c.p.cfg.Idle) {
		return
	}
	c.limitWrites(time.Unix(1, 0))
	c.cut = true
}

// waitsForClient reports whether the client holds up a write, so that nobody reads from the engine.
func (c *call) waitsForClient(now time.Time) bool {
	since := c.writing.Load()
	return since != 0 && now.UnixNano()-since >= int64(slowWrite)
}

// limitWrites sets the deadline of all writes to the client that are still to come, unless it has been cut. It is called inside the
// registry's lock.
func (c *call) limitWrites(until time.Time) {
	if c.cut {
		return
	}
	c.limited = true
	_ = http.NewResponseController(c.w).SetWriteDeadline(until)
}

// handOver leaves what net/http still holds of the answer to it: it flushes that when the handler has returned, where send cannot
// see it. The connection of an HTTP/1.1 client serves further requests, and its listener bounds each write (package h1).
func (c *call) handOver() {
	if c.limited && c.R.ProtoMajor == 1 {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{})
	}
	c.p.boundFlush(c.w, c.R)
}
