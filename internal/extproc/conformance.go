package extproc

import "net/http"

// The conformance suite of the Gateway API inference extension tests gateways, and needs a picker that does as requests
// say (conformance/testing-epp of its repository). A gateway's own tests can be run with this picker so.
const (
	selection  = "Test-Epp-Endpoint-Selection"        // of a request: the endpoints to name, in this order
	servedTold = "X-Conformance-Test-Served-Endpoint" // of an answer: the endpoint that the gateway says has served it
)

// selected are the endpoints that a request of the suite wants named, "" where it leaves the choice.
func (s *Server) selected(h http.Header) string {
	if !s.cfg.Conformant {
		return ""
	}
	return h.Get(selection)
}

// tells adds to an answer which endpoint the proxy says has served it.
func (s *Server) tells(h http.Header, served string) {
	if s.cfg.Conformant && served != "" {
		h[servedTold] = []string{served}
	}
}
