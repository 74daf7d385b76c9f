// Package forwarded says who a request came from where proxies stand between: by X-Forwarded-For, Forwarded or another
// header, and by the PROXY protocol. It owns the set of trusted proxies. It promises that only trusted proxies are
// believed, that headers are read from the right, where trusted proxies wrote, and that engines get no such header that
// a client made up.
package forwarded

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
)

// Unix is the word for the peers of a Unix socket in a list of proxies: they have no address.
const Unix = "unix"

// DefaultHeader is the header of nearly every proxy.
const DefaultHeader = "X-Forwarded-For"

const (
	standard = "Forwarded" // RFC 7239
	realIP   = "X-Real-Ip" // nginx's own word
)

// ErrProxy means that a text is not a proxy.
var ErrProxy = errors.New("is not an IP address, a network such as 10.0.0.0/8, or unix")

// Proxies are the trusted proxies, whose statements about their clients count. A nil *Proxies trusts none.
type Proxies struct {
	networks guard.Networks
	unix     bool
	header   string // in canonical form
}

// Parse parses addresses, networks in CIDR notation and the word unix. header is where they name their client:
// Forwarded, or one that lists addresses; "" is X-Forwarded-For. Other headers are ignored: a client could send them
// through a proxy that does not know them.
func Parse(trusted []string, header string) (*Proxies, error) {
	if len(trusted) == 0 {
		return nil, nil
	}
	if header == "" {
		header = DefaultHeader
	}
	p := &Proxies{header: http.CanonicalHeaderKey(header)}
	for _, text := range trusted {
		if text == Unix {
			p.unix = true
			continue
		}
		n, err := guard.ParseNetworks([]string{text})
		if err != nil {
			return nil, fmt.Errorf("%q %w", text, ErrProxy)
		}
		p.networks = append(p.networks, n...)
	}
	return p, nil
}

// Trusts reports whether a connection's other end is a trusted proxy.
func (p *Proxies) Trusts(at netip.Addr) bool {
	if p == nil {
		return false
	}
	return at.IsValid() && p.networks.Contain(at) || !at.IsValid() && p.unix
}

// Origin is the source of a request, as far as trusted proxies report it.
type Origin struct {
	// Client is its address, with its port if it is connected directly; "" if unknown.
	Client string
	// Peer is the address and port of the trusted proxy that sent the request; "" without one.
	Peer string

	by          *Proxies // the proxies that it belongs to; nil without one
	proto, host string   // as in Forwarded
	drop        string   // the proxies' header, to be removed if there is no proxy
}

// Of finds the source of a request.
func (p *Proxies) Of(r *http.Request) Origin {
	if p == nil {
		return Origin{Client: r.RemoteAddr}
	}
	peer := guard.Source(r)
	if !p.Trusts(peer) {
		return Origin{Client: r.RemoteAddr, drop: p.header}
	}
	o := Origin{Peer: r.RemoteAddr, by: p}
	if o.Peer == "" {
		o.Peer = "@" // as package net calls an end of a Unix socket without a name
	}
	client := peer
	if p.header == standard {
		client = p.walk(r.Header[standard], client, o.element)
	} else {
		client = p.walk(r.Header[p.header], client, address)
	}
	if client.IsValid() {
		o.Client = client.String()
	}
	return o
}

// walk reads a list of addresses from the right, each written by the peer to its right, up to the first that is not
// trusted. Anything but an address ends the walk.
func (p *Proxies) walk(values []string, client netip.Addr, read func(string) (netip.Addr, bool)) netip.Addr {
	for i := len(values) - 1; i >= 0; i-- {
		for rest, more := values[i], true; more; {
			entry := rest
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, entry = rest[:at], rest[at+1:]
			} else {
				more = false
			}
			if entry = strings.Trim(entry, " \t"); entry == "" { // RFC 9110, section 5.6.1.2
				continue
			}
			a, ok := read(entry)
			if !ok {
				return client
			}
			if client = a; !p.networks.Contain(a) {
				return client
			}
		}
	}
	return client
}

// address reads an address, with a port or without.
func address(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err == nil
}

// element reads one of RFC 7239 (section 4) and notes what it says beside the address.
func (o *Origin) element(text string) (netip.Addr, bool) {
	var at, proto, host string
	for pair := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if inner, quoted := strings.CutPrefix(value, `"`); quoted {
			var whole bool
			if value, whole = strings.CutSuffix(inner, `"`); !whole || strings.ContainsAny(value, `"\`) {
				return netip.Addr{}, false
			}
		}
		into := &at
		switch strings.ToLower(name) {
		case "for":
		case "proto":
			into = &proto
		case "host":
			into = &host
		default:
			continue
		}
		if *into != "" { // once in an element at most
			return netip.Addr{}, false
		}
		*into = value
	}
	a, ok := address(at)
	if ok {
		o.proto, o.host = cmp.Or(proto, o.proto), cmp.Or(host, o.host)
	}
	return a, ok
}

// Addr is the client's address; the zero Addr if unknown.
func (o *Origin) Addr() netip.Addr {
	if o.by == nil {
		return guard.SourceOf(o.Client)
	}
	a, _ := netip.ParseAddr(o.Client)
	return a
}

var (
	plain  = []string{"http"}  // immutable
	secure = []string{"https"} // immutable
)

// Tell adds the client, host and protocol to the headers for an engine. A trusted proxy's statements are kept, with the
// proxy added; all others are removed.
func (o *Origin) Tell(h http.Header, r *http.Request) {
	peer, proto, host := bare(r.RemoteAddr), plain, r.Host
	if r.TLS != nil {
		proto = secure
	}
	chain := peer
	if o.by == nil {
		for name := range h {
			if strings.HasPrefix(name, "X-Forwarded-") {
				delete(h, name)
			}
		}
		delete(h, standard)
		delete(h, realIP)
		delete(h, o.drop)
	} else {
		proto, host, chain = o.told(h, peer, proto, host)
	}
	values := []string{chain, host} // one allocation for both
	if delete(h, DefaultHeader); chain != "" {
		h[DefaultHeader] = values[:1:1]
	}
	if len(h["X-Forwarded-Proto"]) == 0 {
		h["X-Forwarded-Proto"] = proto
	}
	if len(h["X-Forwarded-Host"]) == 0 && host != "" {
		h["X-Forwarded-Host"] = values[1:]
	}
}

// told is Tell for requests through a trusted proxy: its header is extended with the proxy, and other headers are
// rewritten to match.
func (o *Origin) told(h http.Header, peer string, proto []string, host string) (_ []string, _, chain string) {
	if o.by.header == DefaultHeader {
		chain = join(strings.Join(h[DefaultHeader], ", "), peer)
	} else if chain = o.Client; o.Client != peer {
		chain = join(o.Client, peer)
	}
	if o.by.header == standard {
		h[standard] = []string{join(strings.Join(h[standard], ", "), "for="+node(peer))}
		delete(h, "X-Forwarded-Proto")
		delete(h, "X-Forwarded-Host")
		if o.proto != "" {
			proto = []string{o.proto}
		}
		host = cmp.Or(o.host, host)
	} else {
		delete(h, standard)
	}
	if len(h[realIP]) > 0 && o.by.header != realIP {
		if delete(h, realIP); o.Client != "" {
			h[realIP] = []string{o.Client}
		}
	}
	return proto, host, chain
}

func join(before, next string) string {
	if before == "" {
		return next
	}
	if next == "" {
		return before
	}
	return before + ", " + next
}

// bare is the address of "address:port", "" where there is none.
func bare(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return ""
	}
	host, _, _ = strings.Cut(host, "%") // the zone means something on this machine alone
	return host
}

// node is an address as RFC 7239 writes it (section 6).
func node(at string) string {
	switch {
	case at == "":
		return "unknown"
	case strings.Contains(at, ":"):
		return `"[` + at + `]"`
	}
	return at
}
