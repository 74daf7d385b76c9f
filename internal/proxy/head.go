package proxy

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/route"
	"golang.org/x/net/http/httpguts"
)

// head sets the header of the answer: the engine's, the request id, the conversation, and on request the decision.
func (a *attempt) head(from http.Header) {
	c := a.c
	h, named := c.w.Header(), from["Connection"]
	for k, v := range from {
		if len(named) > 0 && send.NamedByConnection(named, k) {
			continue
		}
		if !send.HopByHop(k) && k != "X-Request-Id" && !strings.HasPrefix(k, "X-Warmpath-") { // what a router behind this one chose is not ours to tell
			h[k] = v
		}
	}
	if c.Upload.Unread() {
		h["Connection"] = []string{"close"} // what is left of the body must not be taken for a request
	}
	if _, ok := from["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	if id := a.d.Session; id != "" && c.Request.Class == fleet.Turn && httpguts.ValidHeaderFieldValue(id) {
		h["X-Session-Id"] = []string{id}
	}
	if t := c.p.cfg.Token; t != nil && c.Request.Class == fleet.Turn {
		t.Tell(h, a.d.Endpoint.Name)
	}
	c.explain(h, a.d)
}

// explain tells the endpoint's name, never its address, and why it was chosen, where that is asked for.
func (c *call) explain(h http.Header, d *route.Decision) {
	if d.Endpoint.Name != "" && (c.p.cfg.Explain || c.R.Header.Get("X-Warmpath-Explain") == "1") {
		h["X-Warmpath-Endpoint"] = []string{d.Endpoint.Name}
		h["X-Warmpath-Reason"] = []string{string(d.Reason)}
		if p := &c.served.Prefill; d.Leg == fleet.LegDecode && p.Endpoint.Name != "" {
			h["X-Warmpath-Prefill"] = []string{p.Endpoint.Name}
		}
	}
}
