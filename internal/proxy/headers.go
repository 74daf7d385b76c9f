package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
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

// head sets the header of the answer: the engine's, the request id, the conversation, and on request the decision.
func (a *attempt) head(from http.Header) {
	c := a.c
	h, named := c.w.Header(), from["Connection"]
	for k, v := range from {
		if len(named) > 0 && namedByConnection(named, k) {
			continue
		}
		if !hopByHop(k) && k != "X-Request-Id" && !strings.HasPrefix(k, "X-Warmpath-") { // what a router behind this one chose is not ours to tell
			h[k] = v
		}
	}
	if c.upload.Unread() {
		h["Connection"] = []string{"close"} // what is left of the body must not be taken for a request
	}
	if _, ok := from["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	if id := a.d.Session; id != "" && c.req.Class == fleet.Turn && httpguts.ValidHeaderFieldValue(id) {
		h["X-Session-Id"] = []string{id}
	}
	if t := c.p.cfg.Token; t != nil && c.req.Class == fleet.Turn {
		t.Tell(h, a.d.Endpoint.Name)
	}
	c.explain(h, a.d)
}

// explain tells the endpoint's name, never its address, and why it was chosen, where that is asked for.
func (c *call) explain(h http.Header, d *route.Decision) {
	if d.Endpoint.Name != "" && (c.p.cfg.Explain || c.r.Header.Get("X-Warmpath-Explain") == "1") {
		h["X-Warmpath-Endpoint"] = []string{d.Endpoint.Name}
		h["X-Warmpath-Reason"] = []string{string(d.Reason)}
		if p := &c.served.Prefill; d.Leg == fleet.LegDecode && p.Endpoint.Name != "" {
			h["X-Warmpath-Prefill"] = []string{p.Endpoint.Name}
		}
	}
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

// retryAfter reads the delay form of Retry-After (RFC 9110, section 10.2.3); 0 when there is none.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(s, 3600)) * time.Second
}
