package kvevents

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/panics"
)

// hosts are the addresses of endpoints whose URL has a host name, for the publishers that name them. A publisher is
// believed for an endpoint only from that endpoint's address.
type hosts map[string]host // by name, in lower case

type host struct {
	at     []netip.Addr
	looked time.Time // zero until it was looked up
}

const (
	lookAgain  = 10 * time.Second // between look-ups of a name
	lookWithin = time.Second      // one look-up
	mostHosts  = 4096
)

// urlHost is the host of an endpoint's URL in lower case; "" for a Unix socket.
func urlHost(e *fleet.Endpoint) string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// from is the verdict on a publisher's address.
type from int

const (
	itsOwn from = iota
	another
	pending // the name has not been looked up yet
)

// judge reports whether an address is that of an endpoint: its URL's, or this machine's if the endpoint is a Unix
// socket. names notes a name that must be looked up.
func (f *Follower) judge(e *fleet.Endpoint, at netip.Addr, names map[string]bool) from {
	name := urlHost(e)
	if name == "" {
		return verdict(at.IsLoopback())
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return verdict(a.Unmap().WithZone("") == at)
	}
	h := f.hosts[name]
	if len(names) < mostHosts {
		names[name] = true
	}
	if h.looked.IsZero() && len(names) < mostHosts {
		return pending
	}
	return verdict(slices.Contains(h.at, at))
}

func verdict(own bool) from {
	if own {
		return itsOwn
	}
	return another
}

// lookUp looks up the names of endpoints that publishers name, now and then, until ctx ends.
func (f *Follower) lookUp(ctx context.Context) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.unknown:
		case <-ticker.C:
		}
		panics.Catch(f.log, panics.KVEvents, func() { f.lookUpAll(ctx) })
	}
}

func (f *Follower) lookUpAll(ctx context.Context) {
	f.mu.Lock()
	var names []string
	for name, h := range f.hosts {
		if time.Since(h.looked) >= lookAgain/2 {
			names = append(names, name)
		}
	}
	f.mu.Unlock()
	for _, name := range names {
		at, err := f.addresses(ctx, name)
		f.mu.Lock()
		had, used := f.hosts[name]
		if err != nil && len(had.at) > 0 {
			at = had.at // what was true may still be
		}
		if used {
			f.hosts[name] = host{at, time.Now()}
		}
		if used && (had.looked.IsZero() || !slices.Equal(at, had.at)) {
			wake(f.poke)
		}
		f.mu.Unlock()
	}
}

// keepHosts keeps the names that are needed, and has new ones looked up; mu is held.
func (f *Follower) keepHosts(names map[string]bool) {
	for name := range f.hosts {
		if !names[name] {
			delete(f.hosts, name)
		}
	}
	for name := range names {
		if h, ok := f.hosts[name]; !ok {
			f.hosts[name] = h
			wake(f.unknown)
		}
	}
}

// addresses are those of a name, in order.
func (f *Follower) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	limit, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	at, err := f.resolve(limit, "ip", name)
	for i := range at {
		at[i] = at[i].Unmap().WithZone("")
	}
	slices.SortFunc(at, netip.Addr.Compare)
	return at, err
}

var errMoved = errors.New("the name of its host stands for other addresses now")

// moved waits until the host of a dialled address, if that is a name, is no longer at the address that is connected:
// a connection lasts as long as the engine there, which may be none of ours any more. It looks twice, since some
// servers tell a part of the addresses at a time. The result is nil when ctx ends.
func (f *Follower) moved(ctx context.Context, dialled string, connected net.Addr) error {
	name, _, err := net.SplitHostPort(strings.TrimPrefix(dialled, "tcp://"))
	at, ok := connected.(*net.TCPAddr)
	if _, fixed := netip.ParseAddr(name); err != nil || fixed == nil || !ok {
		return nil
	}
	here := at.AddrPort().Addr().Unmap().WithZone("")
	ticker := time.NewTicker(f.lookEvery)
	defer ticker.Stop()
	for elsewhere := 0; elsewhere < 2; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		switch all, err := f.addresses(ctx, name); {
		case err != nil || len(all) == 0: // what was true may still be
		case slices.Contains(all, here):
			elsewhere = 0
		default:
			elsewhere++
		}
	}
	return errMoved
}
