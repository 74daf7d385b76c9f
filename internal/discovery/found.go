package discovery

import (
	"errors"
	"net"
	"strings"
)

// ownHost is the prefix of an address at each engine's own host.
const ownHost = "tcp://*:"

// At applies the settings to an engine at an address (host:port). In kv_events and kv_replay it replaces * with the
// engine's host. An empty address changes nothing.
func (c EndpointConfig) At(scheme, address string) EndpointConfig {
	if address == "" {
		return c
	}
	if scheme == "" {
		scheme = "http"
	}
	c.URL, c.Name = scheme+"://"+address, address
	c.KVEvents, c.KVReplay = ownKV(c.KVEvents, address), ownKV(c.KVReplay, address)
	return c
}

// ownKV replaces the * of a KV address with the host of an engine at an address (host:port).
func ownKV(declared, address string) string {
	port, own := strings.CutPrefix(declared, ownHost)
	if !own {
		return declared
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return "tcp://" + net.JoinHostPort(host, port)
}

// ownAddresses reports fixed addresses in settings that apply to several engines.
func ownAddresses(under string, c EndpointConfig) []error {
	var faults []error
	for _, at := range []struct{ field, address string }{{"kv_events", c.KVEvents}, {"kv_replay", c.KVReplay}} {
		if strings.HasPrefix(at.address, "tcp://") && !strings.HasPrefix(at.address, ownHost) {
			faults = append(faults, fault(under+at.field,
				"is %q, the same address for all engines; write tcp://*:PORT for each engine's own host", at.address))
		}
	}
	return faults
}

// checkTemplate reports the faults of settings, under the key engine, that apply to each engine of a source.
func (c EndpointConfig) checkTemplate() []error {
	var faults []error
	for _, own := range []struct{ field, value string }{{"engine.url", c.URL}, {"engine.name", c.Name}} {
		if own.value != "" {
			faults = append(faults, fault(own.field, "comes from the source; leave it out"))
		}
	}
	faults = append(faults, ownAddresses("engine.", c)...)
	for _, err := range c.At("", "host:1").checkTraits() {
		if fe := (*FieldError)(nil); errors.As(err, &fe) {
			err = &FieldError{Field: "engine." + fe.Field, Err: fe.Err}
		}
		faults = append(faults, err)
	}
	return faults
}

// WithKey is the declaration with its API key read from the environment variable or file.
func (c EndpointConfig) WithKey(keys Keys) (EndpointConfig, error) {
	key, err := keys.of(c)
	if err != nil {
		return c, err
	}
	c.APIKey, c.APIKeyEnv, c.APIKeyFile = key, "", ""
	return c, nil
}
