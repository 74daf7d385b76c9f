package extproc

import (
	"net"
	"net/http"
	"strconv"
)

// objective are the headers that name a request's objective, the newer one first.
var objective = [...]string{"X-Llm-D-Inference-Objective", "X-Gateway-Inference-Objective"}

// meanings are the door's own headers, and those of llm-d and of the inference extension that mean the same, the newer
// one first.
var meanings = [...]struct {
	own    string
	theirs []string
}{
	{"X-Warmpath-Model", []string{"X-Llm-D-Model-Name-Rewrite", "X-Gateway-Model-Name-Rewrite"}},
	{"X-Warmpath-Wait", []string{"X-Llm-D-Inference-Ttl"}},
	{"X-Warmpath-Ttft-Ms", []string{"X-Llm-D-Slo-Ttft-Ms", "X-Slo-Ttft-Ms"}},
	{"X-Warmpath-Tpot-Ms", []string{"X-Llm-D-Slo-Tpot-Ms", "X-Slo-Tpot-Ms"}},
}

// translate adds the door's own headers that mean the same as those of llm-d. What a request says in the door's own
// words counts.
func (s *Server) translate(h http.Header) {
	if h.Get("X-Warmpath-Priority") == "" {
		for _, name := range objective {
			if p := s.cfg.Objectives[h.Get(name)]; p != "" {
				h["X-Warmpath-Priority"] = []string{p}
				break
			}
		}
	}
	for _, m := range &meanings {
		if _, said := h[m.own]; said {
			continue
		}
		for _, name := range m.theirs {
			if v := h[name]; len(v) > 0 {
				h[m.own] = v[:1]
				break
			}
		}
	}
}

// sidecar is the address by which the proxy reaches an endpoint: where a sidecar takes the requests for all ranks of a
// pod it is the sidecar's, and the sidecar is told the rank's.
func (s *Server) sidecar(h http.Header, address string) string {
	host, port, err := net.SplitHostPort(address)
	if sidecars := strconv.Itoa(s.cfg.Sidecar); s.cfg.Sidecar > 0 && err == nil && port != sidecars {
		h["X-Data-Parallel-Host-Port"] = []string{address}
		return net.JoinHostPort(host, sidecars)
	}
	return address
}
