package discovery

import (
	"errors"
	"net"
	"strings"
)

// ownHost begins an address that stands for each engine's own.
const ownHost = "tcp://*:"

// At is the declaration of an engine found at an address (host:port) that these settings hold for. In its kv_events and kv_replay * is the
// engine's host. An empty address leaves the settings as they are.
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

// ownKV is where the engine found at an address (host:port) publishes.
func ownKV(told, address string) string {
	port, own := strings.CutPrefix(told, ownHost)
	if !own {
		return told
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return "tcp://" + net.JoinHostPort(host, port)
}

// ownAddresses reports addresses in settings for several engines that would be one address for all of them.
func ownAddresses(under string, c EndpointConfig) []error {
	var faults []error
	for _, at := range []struct{ field, address string }{{"kv_events", c.KVEvents}, {"kv_replay", c.KVReplay}} {
		if strings.HasPrefix(at.address, "tcp://") && !strings.HasPrefix(at.address, ownHost) {
			faults = append(faults, fault(under+at.field, "is %q, which would be one address for all; write tcp://*:PORT for each engine's own", at.address))
		}
	}
	return faults
}

// checkTemplate reports the faults of settings that hold for each engine that a source finds, under the key engine.
func (c EndpointConfig) checkTemplate() []error {
	var faults []error
	for _, own := range []struct{ field, value string }{{"engine.url", c.URL}, {"engine.name", c.Name}} {
		if own.value != "" {
			faults = append(faults, fault(own.field, "is what the source says of each engine; leave it out"))
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

// WithKey is the declaration with its API key read from where it is kept.
func (c EndpointConfig) WithKey(keys Keys) (EndpointConfig, error) {
	key, err := keys.of(c)
	if err != nil {
		return c, err
	}
	c.APIKey, c.APIKeyEnv, c.APIKeyFile = key, "", ""
	return c, nil
}
