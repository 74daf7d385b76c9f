package send

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
)

// HopByHop reports whether a header, in canonical form, ends at a proxy (RFC 9110, section 7.6.1).
func HopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// sidecars reports whether a header, in canonical form, tells llm-d's sidecar of an engine whom else to ask (llm-d-router, pd-sidecar). Only a router
// may say that: a client could have the sidecar ask any host.
func sidecars(name string) bool {
	switch name {
	case "X-Prefiller-Host-Port", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Kv-Cache-Source-Host-Port":
		return true
	}
	return false
}

// Withheld reports whether a header, in canonical form, reaches no engine: it is for this router, or only a router may send it.
func Withheld(name string) bool { return strings.HasPrefix(name, "X-Warmpath-") || sidecars(name) }

// copyEndToEnd copies the end-to-end headers, except the router's own.
func copyEndToEnd(to, from http.Header) {
	named := from["Connection"]
	for k, v := range from {
		if HopByHop(k) || Withheld(k) || len(named) > 0 && NamedByConnection(named, k) {
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

// setHeader sets or removes a header of a leg.
func setHeader(h http.Header, to handover.Header) {
	name := http.CanonicalHeaderKey(to.Name)
	if to.Value == "" {
		delete(h, name)
		return
	}
	h[name] = []string{to.Value}
}

// dropOverrides removes the headers that override members of the body in SGLang (0.5.23, request_headers.py): with them a
// client could pose as a router in a hand-over of KV cache.
func dropOverrides(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Override-") {
			delete(h, name)
		}
	}
}

// Named looks up headers by names that are already canonical, as a prompt.Parser's are. It looks up twenty for each request,
// and http.Header.Get would examine every letter of each first.
type Named http.Header

// Get is the first value of a header, "" for none.
func (h Named) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
