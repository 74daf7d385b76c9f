package newconns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Place is a counted connection.
type Place interface {
	Context(context.Context) context.Context // for its requests
	Close()                                  // once it has ended
}

// Refusal is an error that a client is told before it is closed, where it speaks plain HTTP.
type Refusal interface {
	error
	Status() int
}

// Bounds on refused connections. A client that is answered before it has asked may lose the answer: closing a
// connection with unread bytes resets it, and clients with a pool take bytes that they did not ask for as an error.
const (
	askWithin  = time.Second // time for a refused client to send its request
	mostAwaits = 256         // refused connections that wait for a request at once; further ones are closed
)

// Bound has a server ask connect about each new connection, and answer the first request of those for which it returns
// an error with the error. It is called before the server starts, after Watch and after Handler and ConnContext are
// set. A connection that becomes something else (WebSocket) keeps its place until the handler that took it over
// returns.
func Bound(server *http.Server, connect func(net.Conn) (Place, error)) {
	var seats sync.Map // of *seat by net.Conn, until it is closed or a handler takes it over
	var awaiting atomic.Int64
	tell, state, next := server.ConnContext, server.ConnState, server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tell != nil {
			ctx = tell(ctx, c)
		}
		s := &seat{}
		place, err := connect(c)
		if err == nil {
			ctx, s.leave = place.Context(ctx), place.Close
		} else {
			// nothing can be said before the handshake
			if _, encrypted := c.(*tls.Conn); encrypted || awaiting.Load() >= mostAwaits {
				_ = c.Close()
				return ctx
			}
			awaiting.Add(1)
			late := time.AfterFunc(askWithin, func() { _ = c.Close() })
			s.refused, s.leave = err, func() {
				late.Stop()
				awaiting.Add(-1)
			}
		}
		seats.Store(c, s)
		return context.WithValue(ctx, seatKey{}, s)
	}
	server.ConnState = func(c net.Conn, to http.ConnState) {
		switch to {
		case http.StateClosed:
			if s, ok := seats.LoadAndDelete(c); ok {
				s.(*seat).leave()
			}
		case http.StateHijacked:
			if s, ok := seats.LoadAndDelete(c); ok {
				s.(*seat).taken.Store(true)
			}
		default:
		}
		if state != nil {
			state(c, to)
		}
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := r.Context().Value(seatKey{}).(*seat); ok {
			if s.refused != nil {
				refuse(w, s.refused)
				return
			}
			defer func() {
				if s.taken.Load() {
					s.leave()
				}
			}()
		}
		next.ServeHTTP(w, r)
	})
}

type seatKey struct{}

// seat is what is known of a connection.
type seat struct {
	refused error       // why it has no place; nil for one that has
	leave   func()      // called once, when the place or the wait for a request ends
	taken   atomic.Bool // a handler has taken it over, and ends it
}

func refuse(w http.ResponseWriter, err error) {
	status, kind := http.StatusServiceUnavailable, "service_unavailable"
	var told Refusal
	if errors.As(err, &told) && told.Status() == http.StatusTooManyRequests {
		status, kind = http.StatusTooManyRequests, "requests"
	}
	body := fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":"too_many_connections","param":null}}`,
		err.Error(), kind)
	h := w.Header()
	h.Set("Retry-After", "1")
	h.Set("Connection", "close")
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
