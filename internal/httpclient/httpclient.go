// Package httpclient is the HTTP client of the router's own requests: probes, token look-ups, discovery, the admin API.
//
// It promises that a request reaches the address that it was made for and no other: whoever answers there cannot send
// it on, to a metadata service or to a listener on loopback. Nor can it fill the memory by the head of an answer. It
// knows nothing of what is asked.
package httpclient

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// HeadBytes is the largest head of an answer in bytes, also over gRPC. Go's own bound of 10 MiB, and gRPC's of 16 MiB,
// take hundreds of MB of memory where the head has as many fields as it can hold.
const HeadBytes = 64 << 10

// Transport is one like http.DefaultTransport, with its own connections, heads of at most HeadBytes, and without the
// environment's proxy: clients' requests do not go through it to an engine either.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes, t.Proxy = HeadBytes, nil
	return t
}

// usual carries the requests that have no transport of their own.
var usual = sync.OnceValue(Transport)

// New returns a client that follows no redirects: an answer with a status of 3xx is returned as it came. A nil
// transport is one of Transport, which all of them share.
func New(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = usual()
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Elsewhere is the server, with its scheme, to which the answer of the server at an address redirects; "" if it does
// not, or to itself. A proxy before an engine answers so that wants HTTPS, or a login. At a socket of Unix an engine
// has no name that it could be compared with.
func Elsewhere(res *http.Response, address string) string {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
	default:
		return ""
	}
	to, err := url.Parse(res.Header.Get("Location"))
	from, err2 := url.Parse(address)
	if err != nil || err2 != nil || to.Host == "" || from.Host == "" {
		return ""
	}
	if to.Scheme == "" {
		to.Scheme = from.Scheme
	}
	if to.Scheme == from.Scheme && strings.EqualFold(to.Host, from.Host) {
		return ""
	}
	return to.Scheme + "://" + to.Host
}
