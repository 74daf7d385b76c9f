package newconns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Place is a counted connection.
type Place interface {
	Context(context.Context) context.Context // for its requests
	Close()                                  // once it has ended
}

// Refusal is an error that a client is told before it is closed, where it speaks plain HTTP/1.1.
type Refusal interface {
	error
	Status() int
}

// Bound has a server ask connect about each new connection, and close those for which it returns an error. It is called before
// the server starts, after Watch and after ConnContext is set. A connection that becomes something else (WebSocket) ends its place.
func Bound(server *http.Server, connect func(net.Conn) (Place, error)) {
	var places sync.Map // of Place by net.Conn
	tell, state := server.ConnContext, server.ConnState
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tell != nil {
			ctx = tell(ctx, c)
		}
		place, err := connect(c)
		if err != nil {
			refuse(c, err)
			return ctx
		}
		places.Store(c, place)
		return place.Context(ctx)
	}
	server.ConnState = func(c net.Conn, to http.ConnState) {
		if to == http.StateClosed || to == http.StateHijacked {
			if place, ok := places.LoadAndDelete(c); ok {
				place.(Place).Close()
			}
		}
		if state != nil {
			state(c, to)
		}
	}
}

func refuse(c net.Conn, err error) {
	if _, encrypted := c.(*tls.Conn); !encrypted { // there nothing can be said before the handshake
		status, kind := http.StatusServiceUnavailable, "service_unavailable"
		var told Refusal
		if errors.As(err, &told) && told.Status() == http.StatusTooManyRequests {
			status, kind = http.StatusTooManyRequests, "requests"
		}
		body := fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":"too_many_connections","param":null}}`, err.Error(), kind)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			status, http.StatusText(status), len(body), body)
	}
	_ = c.Close()
}
