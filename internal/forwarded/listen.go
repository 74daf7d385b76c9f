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
			return proxyproto.NewConn(c, proxyproto.WithPolicy(proxyproto.REQUIRE),
				proxyproto.SetReadHeaderTimeout(l.within)), nil
		}
		now := instant.Now()
		if last := l.told.Load(); now-last >= int64(tellAgain) && l.told.CompareAndSwap(last, now) {
			l.log.Warn("a connection was refused: proxy_protocol takes them from trusted_proxies only",
				"from", c.RemoteAddr().String())
		}
		_ = c.Close()
	}
}

// Unwrap is the connection below one of a Listener; another one as it is.
func Unwrap(c net.Conn) net.Conn {
	if p, ok := c.(*proxyproto.Conn); ok {
		return p.Raw()
	}
	return c
}
