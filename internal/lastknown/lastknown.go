// Package lastknown is the address that a host name had when it was connected to last. It owns these addresses, and
// uses them while names cannot be looked up. It promises that a name that does not exist any more is not connected to.
// It never looks a name up itself.
package lastknown

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Dial connects to an address.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

const (
	most  = 20_000           // names kept
	trust = 10 * time.Second // how long a last address is used before the name is looked up again
)

// place is what is known of a host and port.
type place struct {
	at     string
	since  time.Time // that look-ups fail; zero while they do not
	asking time.Time // when to look up again
}

// names is where hosts were last.
type names struct {
	dial Dial
	log  *slog.Logger

	mu     sync.Mutex
	places map[string]place
}

// Dialer is dial, which connects to the address of last time while a host name cannot be looked up (the resolver does
// not answer, or says that it failed). The log is told when that begins and ends.
func Dialer(dial Dial, log *slog.Logger) Dial {
	n := &names{dial: dial, log: log, places: map[string]place{}}
	return n.connect
}

func (n *names) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return n.dial(ctx, network, address)
	}
	if _, err := netip.ParseAddr(host); err == nil { // it needs no look-up
		return n.dial(ctx, network, address)
	}
	n.mu.Lock()
	last, known := n.places[address]
	n.mu.Unlock()
	if known && time.Now().Before(last.asking) {
		return n.dial(ctx, network, last.at)
	}
	c, err := n.dial(ctx, network, address)
	if err == nil {
		n.found(address, c.RemoteAddr().String())
		return c, nil
	}
	failed := (*net.DNSError)(nil)
	if !errors.As(err, &failed) {
		return nil, err
	}
	if failed.IsNotFound { // the resolver knows that there is none
		n.mu.Lock()
		delete(n.places, address)
		n.mu.Unlock()
		return nil, err
	}
	if !known || errors.Is(ctx.Err(), context.Canceled) {
		return nil, err
	}
	n.lost(address, err)
	if ctx.Err() != nil { // the resolver took all the time; the next attempt does not ask it
		return nil, err
	}
	return n.dial(ctx, network, last.at)
}

// found notes where a name is.
func (n *names) found(address, at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.places[address]
	if before.at == "" && len(n.places) >= most {
		clear(n.places)
	}
	n.places[address] = place{at: at}
	if !before.since.IsZero() {
		n.log.Info("a name can be looked up again",
			"name", address, "after", time.Since(before.since).Round(time.Second))
	}
}

// lost notes that a name cannot be looked up.
func (n *names) lost(address string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.places[address]
	if !known {
		return
	}
	if p.since.IsZero() {
		p.since = time.Now()
		n.log.Warn("a name cannot be looked up; its last address is used", "name", address, "last", p.at, "error", err)
	}
	p.asking = time.Now().Add(trust)
	n.places[address] = p
}
