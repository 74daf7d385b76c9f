// Package httpclient is the HTTP client of the router's own requests: probes, token look-ups, discovery, the admin API.
//
// It promises that a request reaches the address that it was made for and no other: whoever answers there cannot send
// it on, to a metadata service or to a listener on loopback. It knows nothing of what is asked.
package httpclient

import "net/http"

// New returns a client that follows no redirects: an answer with a status of 3xx is returned as it came. A nil
// transport is http.DefaultTransport.
func New(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
