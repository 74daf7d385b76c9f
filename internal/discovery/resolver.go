package discovery

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// Resolver is the part of net.Resolver that the DNS source uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// System is the resolver of this machine. It says that there is no such name only if no name server has failed: a name
// is looked up in each domain of the search list, and package net reports what the last of them said. So a name whose
// own server fails would be one that does not exist, as it does not in the other domains.
func System() Resolver {
	return checked{usual: net.DefaultResolver, strict: &net.Resolver{PreferGo: true, StrictErrors: true}}
}

// checked looks up again, with a resolver that a failing name server ends, what the usual one does not find.
type checked struct{ usual, strict Resolver }

// LookupNetIP implements Resolver.
func (c checked) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	found, err := c.usual.LookupNetIP(ctx, network, host)
	if isNotFound(err) {
		return c.strict.LookupNetIP(ctx, network, host)
	}
	return found, err
}

// LookupSRV implements Resolver.
func (c checked) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	at, found, err := c.usual.LookupSRV(ctx, service, proto, name)
	if isNotFound(err) {
		return c.strict.LookupSRV(ctx, service, proto, name)
	}
	return at, found, err
}

// isNotFound reports whether an error says that there is no such name, or (in a file of hosts) only one of the other
// family.
func isNotFound(err error) bool {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.IsNotFound
	}
	_, other := errors.AsType[*net.AddrError](err)
	return other
}
