package forwarded

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/instant"
)

// tellAgain is the least interval between logged refusals.
const tellAgain = 10 * time.Second

// Listener returns l with connections that begin with a header of the PROXY protocol, version 1 or 2, and whose
// RemoteAddr is the client named there. A connection from an untrusted peer is closed. One whose header is missing,
// invalid or late fails at its first Read.
func Listener(l net.Listener, trusted func() *Proxies, within time.Duration, log *slog.Logger) net.Listener {
	return &listener{Listener: l, trusted: trusted, within: within, log: log}
}

type listener struct {
	net.Listener
	trusted func() *Proxies
	within  time.Duration
	log     *slog.Logger
	told    atomic.Int64 // when a refusal was last logged, in seconds
}

// Accept waits for the next connection of a trusted proxy. It reads nothing: the header is read with the first use of
// the connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.trusted().Trusts(guard.SourceOf(c.RemoteAddr().String())) {
			below := &below{Conn: c}
			return &conn{
				Conn: proxyproto.NewConn(below, proxyproto.WithPolicy(proxyproto.REQUIRE),
					proxyproto.SetReadHeaderTimeout(l.within)),
				below: below, tell: l.tell,
			}, nil
		}
		l.tell(c, "a connection was refused: proxy_protocol takes them from trusted_proxies only")
		_ = c.Close()
	}
}

// tell logs why a connection ends, once in a while.
func (l *listener) tell(c net.Conn, why string) {
	now := instant.Now()
	if last := l.told.Load(); now-last >= int64(tellAgain) && l.told.CompareAndSwap(last, now) {
		l.log.Warn(why, "from", c.RemoteAddr().String())
	}
}

// conn is a connection of a trusted proxy.
type conn struct {
	*proxyproto.Conn
	below *below
	tell  func(net.Conn, string)
}

// Read logs that a proxy has sent something that is no PROXY header. A connection without a byte is a check whether the
// port is open, and is not logged.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.ProxyHeader() == nil && c.below.said.Load() {
		c.tell(c.below.Conn, "a connection was closed: proxy_protocol is set, and it does not begin with a header of "+
			"the PROXY protocol (in HAProxy: send-proxy-v2, and check-send-proxy for its checks)")
	}
	return n, err
}

// below is the connection itself, and knows whether anything has come.
type below struct {
	net.Conn
	said atomic.Bool
}

func (c *below) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.said.Load() {
		c.said.Store(true)
	}
	return n, err
}

// Unwrap is the connection below one of a Listener; another one as it is.
func Unwrap(c net.Conn) net.Conn {
	if p, ok := c.(*conn); ok {
		return p.below.Conn
	}
	return c
}
