package guard

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// What Names refuses.
var (
	ErrForeignHost   = errors.New("the request came under a host name that is not one of the listener's")
	ErrForeignOrigin = errors.New("the request came from a page of another site")
)

// Names are the names under which clients reach a listener that has no other protection against pages in the browsers of those who may reach
// it: a page whose name was rebound to the listener's address shows in Host, one that calls across origins in Origin. A nil *Names refuses
// nothing.
type Names struct{ Hosts Hosts } // beside loopback names and, in Host, all addresses: those cannot be rebound

// Check returns ErrForeignHost or ErrForeignOrigin, nil when the request may go on.
func (n *Names) Check(r *http.Request) error {
	if n == nil {
		return nil
	}
	host := Hostname(r.Host)
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !n.contain(host) {
		return ErrForeignHost
	}
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method != http.MethodGet && r.Method != http.MethodHead {
			return ErrForeignOrigin
		}
	case !n.mayCall(origin, r.Host):
		return ErrForeignOrigin
	}
	return nil
}

// mayCall judges an origin: pages under the listener's own names may call, and what is no page of the web, as extensions and desktop
// applications. "null" is what a page in a sandbox says, which may be anybody's.
func (n *Names) mayCall(origin, host string) bool {
	u, err := url.Parse(origin)
	switch {
	case err != nil || u.Scheme == "":
		return false
	case u.Scheme != "http" && u.Scheme != "https":
		return true
	}
	return strings.EqualFold(u.Host, host) || n.contain(u.Hostname())
}

func (n *Names) contain(host string) bool { return IsLoopback(host) || n.Hosts.Contain(host) }
