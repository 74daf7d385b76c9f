package discovery

import (
	"github.com/warmpath/warmpath/fleet"
)

// checkHandover reports the faults of the settings for KV cache transfer.
func (c EndpointConfig) checkHandover() []error {
	var faults []error
	if c.BootstrapPort < 0 || c.BootstrapPort > 65535 {
		faults = append(faults, fault("bootstrap_port", "is %d, must be a port between 1 and 65535, or 0",
			c.BootstrapPort))
	}
	if c.BootstrapPort > 0 && c.Role == string(fleet.RoleDecode) {
		faults = append(faults, fault("bootstrap_port", "is for prefillers; an endpoint with the role decode has none"))
	}
	if c.KVAddress != "" {
		if _, err := fleet.ParseKVAddress(c.KVAddress); err != nil {
			faults = append(faults, fault("kv_address", "%w", err))
		}
	}
	if c.TPSize < 0 || c.TPSize > MaxParts {
		faults = append(faults, fault("tp_size", "is %d, must be between 1 and %d, or 0", c.TPSize, MaxParts))
	}
	return faults
}
