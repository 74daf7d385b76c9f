// Package client writes to the client of one request, and limits how long it may take to read its answer and to send
// its body.
//
// It owns the deadlines of the client's connection while the request is served.
//
// It promises that a client which does not take a write in time is cut once, that a connection which serves further
// requests is left without a deadline, and that a client's delays can be told from the engine's.
//
// It never decides what is written, and knows no engine. The caller calls Check, GiveUp and StopReading under one lock.
package client

import (
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/instant"
)

// slowWrite is the duration of a write from which on the router counts as waiting for the client and not for the
// engine.
const slowWrite = 50 * time.Millisecond

// cutGrace is how long a client may take for the last bytes after its answer has been given up.
const cutGrace = time.Second

// Client is the client of one request. Start must be called first.
type Client struct {
	w    http.ResponseWriter
	r    *http.Request
	id   string        // of the request, for the log
	idle time.Duration // longest time that a write may take
	log  *slog.Logger

	writing atomic.Int64 // instant at which the current write to the client began, 0 for none
	cut     bool         // the client did not read. Guarded by the caller's lock
	limited bool         // writes to the client have a deadline. Guarded by the caller's lock
	// instant until which the client may send its body, 0 when the router does not wait for it
	reading atomic.Int64
}

// Start starts a client that may take idle for each write.
func (c *Client) Start(w http.ResponseWriter, r *http.Request, id string, idle time.Duration, log *slog.Logger) {
	c.w, c.r, c.id, c.idle, c.log = w, r, id, idle, log
}

// Writer is the ResponseWriter for the header of the answer and for upgrades.
func (c *Client) Writer() http.ResponseWriter { return c.w }

// Header is the answer's header.
func (c *Client) Header() http.Header { return c.w.Header() }

// WriteHeader sends the header with a status.
func (c *Client) WriteHeader(status int) { c.w.WriteHeader(status) }

// Send writes a part of the answer to the client, flushes it if told to, and returns how long that took. If the client
// does not take it within its idle time, Check cuts the client and Send returns an error.
func (c *Client) Send(part []byte, flush bool) (took time.Duration, err error) {
	began := time.Now()
	c.writing.Store(instant.Of(began))
	if _, err = c.w.Write(part); err == nil && flush {
		switch f := c.w.(type) {
		case interface{ FlushError() error }:
			err = f.FlushError()
		case http.Flusher:
			f.Flush()
		}
	}
	c.writing.Store(0)
	if took = time.Since(began); err != nil && took >= c.idle {
		c.log.Info("client does not read its answer", "request", c.id, "waited", took)
	}
	return took, err
}

// WriteWaits notes that another writer than Send now waits for the client.
func (c *Client) WriteWaits() { c.writing.Store(instant.Now()) }

// WriteDone notes the end of that wait.
func (c *Client) WriteDone() { c.writing.Store(0) }

// ReadsUntil sets the time until which the client may send its body; the zero time means that the router does not wait
// for it.
func (c *Client) ReadsUntil(until time.Time) {
	if until.IsZero() {
		c.reading.Store(0)
		return
	}
	c.reading.Store(instant.Of(until))
}

// Check cuts a client that has not sent its body in time, or has not taken a write within its idle time.
func (c *Client) Check(now time.Time) {
	if until := c.reading.Load(); until != 0 && instant.Of(now) >= until {
		c.stopReading()
	}
	since := c.writing.Load()
	if since == 0 || c.cut || instant.Of(now)-since < int64(c.idle) {
		return
	}
	c.limitWrites(time.Unix(1, 0))
	c.cut = true
}

// Skip lets a time that has just passed not count.
func (c *Client) Skip(passed time.Duration) {
	instant.Skip(&c.reading, passed)
	instant.Skip(&c.writing, passed)
}

// StopReading ends the wait for a body, if there is one.
func (c *Client) StopReading() {
	if c.reading.Load() != 0 {
		c.stopReading()
	}
}

func (c *Client) stopReading() { _ = http.NewResponseController(c.w).SetReadDeadline(time.Unix(1, 0)) }

// Waits reports whether the client holds up a write, so that the router does not read from the engine.
func (c *Client) Waits(now time.Time) bool {
	since := c.writing.Load()
	return since != 0 && instant.Of(now)-since >= int64(slowWrite)
}

// Writing reports whether a write is in progress.
func (c *Client) Writing() bool { return c.writing.Load() != 0 }

// GiveUp limits further writes to one second: the answer has been given up.
func (c *Client) GiveUp() { c.limitWrites(time.Now().Add(cutGrace)) }

// limitWrites sets the deadline of all further writes to the client, unless it has been cut.
func (c *Client) limitWrites(until time.Time) {
	if c.cut {
		return
	}
	c.limited = true
	_ = http.NewResponseController(c.w).SetWriteDeadline(until)
}

// HandOver leaves the rest of the answer to net/http, which flushes it when the handler has returned and Send cannot
// see it. An HTTP/1.1 connection serves further requests, and its listener bounds each write (package h1).
func (c *Client) HandOver() {
	if c.limited && c.r.ProtoMajor == 1 {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{})
	}
	BoundFlush(c.w, c.r, c.idle)
}

// BoundFlush bounds the flush of a handler's answer over HTTP/2, which waits for the client's window. The deadline ends
// with the stream. A stream that has ended is left alone, since a deadline would reset it again.
func BoundFlush(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.ProtoMajor > 1 && r.Context().Err() == nil {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	}
}

// How long a client that still sends when its answer is complete is listened to: for each piece, and as a whole.
const (
	lingerPiece = 64 << 10
	lingerPause = 2 * time.Second
	lingerWhole = 10 * time.Second
)

// Linger sends the answer over HTTP/1.1, and drops what the client still sends. Closed on bytes that were not read, a
// connection is reset: many clients read only when they have sent everything, and would lose the answer. over is asked
// before each piece whether to end that.
func (c *Client) Linger(over func() bool) {
	control := http.NewResponseController(c.w)
	if control.Flush() != nil {
		return
	}
	for end := time.Now().Add(lingerWhole); time.Now().Before(end) && !over(); {
		until := time.Now().Add(lingerPause)
		if until.After(end) {
			until = end
		}
		if control.SetReadDeadline(until) != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c.r.Body, lingerPiece); err != nil {
			return
		}
	}
}

// PassOver limits how long a client may take to send a body that the router does not read: over HTTP/1.1 net/http waits
// for it before it sends the answer, by default without limit. Over HTTP/2 it resets the stream instead; there a
// deadline on a stream that the client has reset meanwhile would stand until it passes, with all of the stream.
func PassOver(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit))
	}
}
