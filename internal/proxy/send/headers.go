package send

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
)

// HopByHop are the headers that end at a proxy (RFC 9110, section 7.6.1), in canonical form.
func HopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// copyEndToEnd copies the headers that are meant for the other end. The router's own are not.
func copyEndToEnd(to, from http.Header) {
	named := from["Connection"]
	for k, v := range from {
		if HopByHop(k) || strings.HasPrefix(k, "X-Warmpath-") || len(named) > 0 && NamedByConnection(named, k) {
			continue
		}
		to[k] = v
	}
	delete(to, "Expect")
}

// NamedByConnection reports whether a Connection header names another one, which then ends at a proxy too.
func NamedByConnection(values []string, name string) bool {
	for _, v := range values {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// setHeader sets a header of a leg, or takes it out.
func setHeader(h http.Header, to handover.Header) {
	name := http.CanonicalHeaderKey(to.Name)
	if to.Value == "" {
		delete(h, name)
		return
	}
	h[name] = []string{to.Value}
}

// dropOverrides takes out the headers by which SGLang (0.5.23, request_headers.py) is told the same as by members of the body: where KV
// cache is handed over a client could pose as a router by them.
func dropOverrides(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Override-") {
			delete(h, name)
		}
	}
}

// Named looks headers up by names that are in canonical form already, as a prompt.Parser's are: it looks for twenty in each request,
// and http.Header.Get looks at every letter of each first.
type Named http.Header

// Get is the first value of a header, "" for none.
func (h Named) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
