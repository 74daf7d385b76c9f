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
	var places, taken sync.Map // of Place by net.Conn; those that a handler has taken over
	var awaiting, takings atomic.Int64
	end := func(c net.Conn) {
		if place, ok := places.LoadAndDelete(c); ok {
			place.(interface{ Close() }).Close()
		}
	}
	tell, state, next := server.ConnContext, server.ConnState, server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tell != nil {
			ctx = tell(ctx, c)
		}
		place, err := connect(c)
		if err == nil {
			places.Store(c, place)
			return context.WithValue(place.Context(ctx), connKey{}, c)
		}
		// nothing can be said before the handshake
		if _, encrypted := c.(*tls.Conn); encrypted || awaiting.Load() >= mostAwaits {
			_ = c.Close()
			return ctx
		}
		awaiting.Add(1)
		late := time.AfterFunc(askWithin, func() { _ = c.Close() })
		places.Store(c, refused{late, &awaiting})
		return context.WithValue(ctx, refusedKey{}, err)
	}
	server.ConnState = func(c net.Conn, to http.ConnState) {
		switch to {
		case http.StateClosed:
			end(c)
		case http.StateHijacked:
			takings.Add(1)
			taken.Store(c, nil)
		default:
		}
		if state != nil {
			state(c, to)
		}
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if awaiting.Load() > 0 {
			if err, ok := r.Context().Value(refusedKey{}).(error); ok {
				refuse(w, err)
				return
			}
		}
		defer func() {
			if takings.Load() == 0 {
				return
			}
			c, _ := r.Context().Value(connKey{}).(net.Conn)
			if _, ok := taken.LoadAndDelete(c); ok {
				takings.Add(-1)
				end(c)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

type (
	refusedKey struct{}
	connKey    struct{}
)

// refused is a connection without a place.
type refused struct {
	late     *time.Timer
	awaiting *atomic.Int64
}

func (r refused) Close() {
	r.late.Stop()
	r.awaiting.Add(-1)
}

func refuse(w http.ResponseWriter, err error) {
	status, kind := http.StatusServiceUnavailable, "service_unavailable"
	var told Refusal
	if errors.As(err, &told) && told.Status() == http.StatusTooManyRequests {
		status, kind = http.StatusTooManyRequests, "requests"
	}
	body := fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":"too_many_connections","param":null}}`, err.Error(), kind)
	h := w.Header()
	h.Set("Retry-After", "1")
	h.Set("Connection", "close")
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
