package config

import (
	"fmt"
	"net/netip"

	"github.com/warmpath/warmpath/internal/forwarded"
)

// ClientLimits bounds the connections and requests of one client address; 0 is any number.
type ClientLimits struct {
	// Connections is how many may be open at one time; further ones get 429 and are closed. Those of trusted_proxies do
	// not count.
	Connections int `yaml:"connections"`
	// Requests is how many may be open at one time; further ones get 429 with Retry-After.
	Requests int `yaml:"requests"`
	// RequestsPerMinute is how many requests may begin in a minute, as a token bucket.
	RequestsPerMinute int64 `yaml:"requests_per_minute"`
	// TokensPerMinute is how many tokens of prompts and answers may be used in a minute.
	TokensPerMinute int64 `yaml:"tokens_per_minute"`
}

// Proxies are the trusted proxies.
func (c Config) Proxies() (*forwarded.Proxies, error) {
	return forwarded.Parse(c.TrustedProxies, c.ClientHeader)
}

// checkProxies reports faults of trusted_proxies and of settings that need them.
func (c Config) checkProxies() (faults []error) {
	for i, text := range c.TrustedProxies {
		if _, err := forwarded.Parse([]string{text}, ""); err != nil {
			faults = append(faults, fault(fmt.Sprintf("trusted_proxies[%d]", i), "%w", err))
		}
	}
	const need = "needs trusted_proxies: only a trusted proxy may say who a client is"
	if c.ProxyProtocol && len(c.TrustedProxies) == 0 {
		faults = append(faults, fault("proxy_protocol", need))
	}
	switch {
	case !headerName(c.ClientHeader):
		faults = append(faults, fault("client_header", "%q is not a header name", c.ClientHeader))
	case c.ClientHeader != "" && len(c.TrustedProxies) == 0:
		faults = append(faults, fault("client_header", need))
	}
	return faults
}

// proxyWarnings warns of networks that contain every address.
func (c Config) proxyWarnings() (out []string) {
	for _, text := range c.TrustedProxies {
		if p, err := netip.ParsePrefix(text); err == nil && p.Bits() == 0 {
			out = append(out, "trusted_proxies: "+text+
				" contains every address, so that any client could claim another client's address; name your proxies")
		}
	}
	return out
}
