package newconns

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// tooMany is what a client beyond the bound is told, where it speaks plain HTTP/1.1.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 125\r\n\r\n" +
	`{"error":{"message":"too many connections are open","type":"service_unavailable","code":"too_many_connections","param":null}}`

// Bound has a server close the connections beyond so many; 0 bounds nothing. It is called before the server starts, after Watch. A connection
// that becomes something else (WebSocket) is not counted any more.
func Bound(server *http.Server, most int) {
	if most <= 0 {
		return
	}
	var open atomic.Int64
	before := server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > int64(most) {
				if _, encrypted := c.(*tls.Conn); !encrypted { // there nothing can be said before the handshake
					_ = c.SetWriteDeadline(time.Now().Add(time.Second))
					_, _ = io.WriteString(c, tooMany)
				}
				_ = c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
		if before != nil {
			before(c, state)
		}
	}
}
