package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/internal/newconns"
	"github.com/warmpath/warmpath/internal/proxy/quota"
)

// crowdedEvery is the least interval between two log lines about refused connections.
const crowdedEvery = 10 * time.Second

// connections counts those of clients to the traffic listener.
type connections struct {
	limits  *quota.Table
	trusted func() *forwarded.Proxies
	log     *slog.Logger
	told    atomic.Int64 // when the log last said that some are refused
}

// connect counts a connection, or refuses it.
func (n *connections) connect(c net.Conn) (newconns.Place, error) {
	now := time.Now()
	place, err := n.limits.Connect(now, n.clientOf(c))
	if err == nil {
		return place, nil
	}
	var limit *quota.Error
	at, last := instant.Of(now), n.told.Load()
	if errors.As(err, &limit) && at-last >= int64(crowdedEvery) && n.told.CompareAndSwap(last, at) {
		n.log.Warn("connections of clients are refused", "limit", limit.Setting, "most", limit.Most,
			"client", below(c).RemoteAddr().String())
	}
	return nil, err
}

// below is the connection below TLS and the PROXY protocol. This is called where connections are accepted: asking for
// the address of one whose PROXY header has not come would have all others wait for it.
func below(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return forwarded.Unwrap(c)
}

// clientOf is the address that a new connection counts for: none for a trusted proxy, or while only the header of the
// PROXY protocol will tell it.
func (n *connections) clientOf(c net.Conn) netip.Addr {
	if !n.limits.Clients() {
		return netip.Addr{}
	}
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if below(c) != c {
		return netip.Addr{}
	}
	client := guard.SourceOf(c.RemoteAddr().String())
	if n.trusted().Trusts(client) {
		return netip.Addr{}
	}
	return client
}
