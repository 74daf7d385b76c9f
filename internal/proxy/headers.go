package proxy

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
)

// hopByHop are the headers that end at a proxy (RFC 9110, section 7.6.1), in canonical form.
func hopByHop(name string) bool {
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
		if hopByHop(k) || strings.HasPrefix(k, "X-Warmpath-") || len(named) > 0 && namedByConnection(named, k) {
			continue
		}
		to[k] = v
	}
	delete(to, "Expect")
}

func namedByConnection(values []string, name string) bool {
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

// named looks headers up by names that are in canonical form already, as a prompt.Parser's are: it looks for twenty in each request,
// and http.Header.Get looks at every letter of each first.
type named http.Header

func (h named) get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
