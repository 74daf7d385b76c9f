package config

import (
	"maps"
	"net"
	"slices"
)

// ExtProc is the endpoint picker for Envoy and for gateways that speak the Gateway API inference extension's protocol
// (Envoy's external processing over gRPC). Requests that it places are decided, counted and limited as those of the
// traffic listener.
type ExtProc struct {
	// Listen is its address (host:port); off, or an empty text, for none.
	Listen string `yaml:"listen"`
	// TLS serves it over TLS, by the certificate in tls, and its client_ca, or, without one, by one made at each start,
	// as gateways that do not verify it accept.
	TLS bool `yaml:"tls"`
	// Fallbacks is how many further endpoints are named after the chosen one, for gateways that try them in order; at
	// most 8.
	Fallbacks int `yaml:"fallbacks"`
	// Objectives are the priorities (low, normal, high) of requests that name an objective (X-Llm-D-Inference-Objective
	// or X-Gateway-Inference-Objective).
	Objectives map[string]string `yaml:"objectives"`
	// SidecarPort is the port at which llm-d's sidecar takes requests for all ranks of its pod: an endpoint at another
	// port of the pod is named by this one, and by the header X-Data-Parallel-Host-Port. 0 names endpoints themselves.
	SidecarPort int `yaml:"sidecar_port"`
	// Conformance obeys the headers by which the inference extension's conformance suite tells a picker what to choose.
	// Leave it off where clients are not trusted.
	Conformance bool `yaml:"conformance"`
}

// On reports whether there is to be one.
func (e ExtProc) On() bool { return e.Listen != "" && e.Listen != "off" }

func (e ExtProc) check() (faults []error) {
	if e.On() {
		if _, _, err := net.SplitHostPort(e.Listen); err != nil {
			faults = append(faults, fault("extproc.listen", "is %q, must be host:port, such as 0.0.0.0:9002", e.Listen))
		}
	}
	if e.Fallbacks < 0 || e.Fallbacks > 8 {
		faults = append(faults, fault("extproc.fallbacks", "is %d, must be 0 to 8", e.Fallbacks))
	}
	if e.SidecarPort < 0 || e.SidecarPort > 65535 {
		faults = append(faults, fault("extproc.sidecar_port", "is %d, must be a port, or 0", e.SidecarPort))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Objectives)) {
		if p := e.Objectives[name]; !slices.Contains([]string{"low", "normal", "high"}, p) {
			faults = append(faults, fault("extproc.objectives."+name, "is %q, must be low, normal or high", p))
		}
	}
	return faults
}
