// Package guard judges by the head of a request and its source address whether a caller may use a listener: by bearer
// token, by network, and by the names in Host and Origin, which tell a browser's foreign page from a local client. It
// resolves no names, keeps no state and answers nobody: what a refusal looks like is its caller's business.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Bearer reports whether the request carries the token.
func Bearer(r *http.Request, token string) bool {
	scheme, got, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return false
	}
	return SameSecret(strings.TrimSpace(got), token)
}

// SameSecret reports whether two texts are equal. It compares digests, so that neither the length nor the first
// differing byte shows in the time it takes.
func SameSecret(x, y string) bool {
	a, b := sha256.Sum256([]byte(x)), sha256.Sum256([]byte(y))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// IsLoopback is true of loopback addresses and of localhost, which browsers never resolve to anything else (RFC 6761
// section 6.3). Other names are not looked up: what they resolve to can change after the check.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// IsInner is true of addresses and of names that no public name server can answer for, so that no web page can be
// rebound to them: a single label, and the domains of clusters and private networks (RFC 6762, ICANN's .internal,
// Kubernetes' svc).
func IsInner(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	at := strings.LastIndexByte(name, '.')
	switch name[at+1:] {
	case "local", "internal", "svc":
		return true
	}
	return at < 0
}

// Hostname is the host of "host" or "host:port", without the brackets of an IPv6 address.
func Hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.Trim(hostport, "[]")
}

// Source is the address that a request came from; the zero Addr when it is not known.
func Source(r *http.Request) netip.Addr { return SourceOf(r.RemoteAddr) }

// SourceOf is the address of "address:port"; the zero Addr for another text.
func SourceOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return plain(at.Addr())
}

// plain is an address without its zone, as IPv4 where it is a mapped one, so that one machine has one form.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// ErrNetwork says that a text is neither an address nor a network.
var ErrNetwork = errors.New("is not an IP address or a network such as 10.0.0.0/8")

// Networks is a set of addresses.
type Networks []netip.Prefix

// ParseNetworks reads addresses and networks in CIDR notation.
func ParseNetworks(texts []string) (Networks, error) {
	var out Networks
	for _, text := range texts {
		p, ok := network(text)
		if !ok {
			return nil, fmt.Errorf("%q %w", text, ErrNetwork)
		}
		out = append(out, p)
	}
	return out, nil
}

func network(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	a = plain(a)
	return netip.PrefixFrom(a, a.BitLen()), true
}

// Contain reports whether an address is in one of the networks.
func (n Networks) Contain(a netip.Addr) bool {
	for _, p := range n {
		if p.Contains(plain(a)) {
			return true
		}
	}
	return false
}

// Hosts is a set of host names and addresses.
type Hosts struct {
	networks Networks
	names    []string // lower case; one that begins with a dot stands for all names below it
}

// ErrHost says that a text names no host.
var ErrHost = errors.New("is not a host name, *.DOMAIN, an IP address or a network such as 10.0.0.0/8")

// ParseHosts reads host names, *.DOMAIN, addresses and networks.
func ParseHosts(texts []string) (Hosts, error) {
	var out Hosts
	for _, text := range texts {
		if p, ok := network(text); ok {
			out.networks = append(out.networks, p)
			continue
		}
		name := strings.ToLower(strings.TrimPrefix(text, "*"))
		if !IsName(strings.TrimPrefix(name, ".")) || strings.HasPrefix(text, "*") != strings.HasPrefix(name, ".") {
			return Hosts{}, fmt.Errorf("%q %w", text, ErrHost)
		}
		out.names = append(out.names, name)
	}
	return out, nil
}

// Contain reports whether the host, a name or an address, is in the set.
func (h Hosts) Contain(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return h.networks.Contain(a)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, name := range h.names {
		if host == name || strings.HasPrefix(name, ".") && len(host) > len(name) && strings.HasSuffix(host, name) {
			return IsName(host)
		}
	}
	return false
}

// IsName reports whether a text can be a host's name: letters, digits, hyphens, dots and underscores only, so that it
// means nothing else in a URL.
func IsName(s string) bool {
	return s != "" && len(s) <= 253 && s[0] != '.' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == ""
}
