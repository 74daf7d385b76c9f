package guard

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// What Names refuses.
var (
	ErrForeignHost   = errors.New("a browser sends the request under a host name that is not one of the listener's")
	ErrForeignOrigin = errors.New("the request came from a page of another site")
)

// ForeignError is what Names refuses: ErrForeignHost or ErrForeignOrigin, and the unknown name.
type ForeignError struct {
	Why  error
	Name string // the host, without its port; the origin where that has no host, as "null"
}

// Error says what to do.
func (e *ForeignError) Error() string {
	name := strings.ToLower(e.Name)
	if _, err := netip.ParseAddr(name); err != nil && !IsName(name) || name == "null" {
		return e.Why.Error() +
			"; only hosts: [\"*\"] in the router's configuration (WARMPATH_HOSTS=*) allows that, and then any page may"
	}
	return e.Why.Error() + " (\"" + name + "\"); add hosts: [\"" + name +
		"\"] to the router's configuration (WARMPATH_HOSTS=" + name + ") if its pages may use the engines"
}

// Unwrap is Why.
func (e *ForeignError) Unwrap() error { return e.Why }

// Names are the names under which browsers reach a listener that has no other protection against pages in the browsers
// of those who may reach it: a page whose name was rebound to the listener's address shows in Host, one that calls
// across origins in Origin or Referer. Who is no browser may use any name, as a proxy in front does that passes on the
// name of its upstream or its clients'. A nil *Names refuses nothing.
type Names struct {
	Hosts   Hosts    // beside loopback names and, in Host, all addresses: those cannot be rebound
	Origins []string // of pages that may call beside those under Hosts, as browsers write them
}

// Check returns a *ForeignError, nil when the request may go on.
func (n *Names) Check(r *http.Request) error {
	if n == nil {
		return nil
	}
	host := Hostname(r.Host)
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !n.contain(host) && fromBrowser(r.Header) {
		return &ForeignError{ErrForeignHost, host}
	}
	from, told := r.Header.Get("Origin"), true
	if from == "" {
		told, from = false, r.Header.Get("Referer")
	}
	switch safe := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case told && !n.mayCall(from, r.Host), // a WebSocket is a GET, and always tells
		// browsers before 2020 send no Origin with forms
		!told && !safe && from != "" && strings.HasPrefix(from, "http") && !n.mayCall(from, r.Host),
		!told && !safe && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		return &ForeignError{ErrForeignOrigin, nameOf(from)}
	}
	return nil
}

// nameOf is the host of an origin or address of a page, the text itself where it has none.
func nameOf(page string) string {
	if u, err := url.Parse(page); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return page
}

// fromBrowser reports whether a browser may have made the request for a page.
//
// Every browser tells the languages of its user, and a page can change that header but not remove it. Over plain http
// to a foreign name that may be all: Sec-Fetch-* is sent to trustworthy addresses only (W3C Fetch Metadata, section 2),
// Origin not with GET, Referer not if the page says so, and some browsers let it choose the User-Agent. Node's fetch
// tells "*" and, beyond a page's reach, Sec-Fetch-Mode (undici, lib/web/fetch). PowerShell calls itself Mozilla.
func fromBrowser(h http.Header) bool {
	for _, mark := range [...]string{
		"Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Dest", "Sec-Fetch-User", "Sec-Gpc", "Sec-Ch-Ua",
		"Upgrade-Insecure-Requests",
	} {
		if h[mark] != nil {
			return true
		}
	}
	mode := h.Get("Sec-Fetch-Mode")
	languages := h["Accept-Language"]
	node := mode == "cors" && len(languages) == 1 && languages[0] == "*"
	agent := h.Get("User-Agent")
	return mode != "" && mode != "cors" || languages != nil && !node || strings.Contains(h.Get("Accept"),
		"text/html") || strings.HasPrefix(agent, "Mozilla/") && !strings.Contains(agent, "PowerShell/")
}

// mayCall judges an origin: pages under the listener's own names may call, and what is no page of the web, as
// extensions and desktop applications. "null" is what a page in a sandbox says, which may be anybody's.
func (n *Names) mayCall(origin, host string) bool {
	u, err := url.Parse(origin)
	switch {
	case err != nil || u.Scheme == "":
		return false
	case u.Scheme != "http" && u.Scheme != "https":
		return true
	}
	return strings.EqualFold(u.Host, host) || n.contain(u.Hostname()) ||
		slices.Contains(n.Origins, strings.ToLower(u.Scheme+"://"+u.Host))
}

func (n *Names) contain(host string) bool { return IsLoopback(host) || n.Hosts.Contain(host) }
