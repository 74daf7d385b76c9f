package newconns

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/instant"
)

// tellAgain is the least time between two log lines.
const tellAgain = 10 * time.Second

// Plain returns l, which has no certificate, with connections that tell the log when a client speaks TLS: the server
// answers such a client with a 400 that it cannot read, and says nothing. They look for lengths for CloseAmbiguous.
func Plain(l net.Listener, name string, log *slog.Logger) net.Listener {
	return &plain{Listener: l, name: name, log: log}
}

type plain struct {
	net.Listener
	name string
	log  *slog.Logger
	told atomic.Int64 // when it was last logged
}

// Accept waits for the next connection. It reads nothing.
func (l *plain) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainConn{Conn: c, on: l}, nil
}

type plainConn struct {
	net.Conn
	on     *plain
	read   bool // its first byte has been. A server reads in one goroutine after the other
	length length
}

// handshake is the first byte of what a client of TLS says, and of no request.
const handshake = 22

// Read implements net.Conn.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.read {
		if c.read = true; p[0] == handshake {
			c.on.tell(c.Conn)
		}
	}
	c.length.look(p[:n])
	return n, err
}

func (l *plain) tell(c net.Conn) {
	now := instant.Now()
	if last := l.told.Load(); now-last >= int64(tellAgain) && l.told.CompareAndSwap(last, now) {
		l.log.Warn("a client speaks TLS to a listener without a certificate: it must write http:// in its URL",
			"listener", l.name, "from", c.RemoteAddr().String())
	}
}
