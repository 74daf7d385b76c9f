package config

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
)

// StackConditional is the preset of production-stack PR 890; its settings have these values.
const (
	StackConditional = "stack.conditional"

	stackRoundRobin  = "round_robin"
	stackLeastLoaded = "least_loaded"
	connectorNixl    = "nixl"
	connectorLMCache = "lmcache"
)

// Effective is the configuration with a preset's settings translated to ours. preset reports whether there is a preset.
func (d Disaggregation) Effective() (e Disaggregation, preset bool) {
	if e = d; d.Preset != StackConditional {
		return e, false
	}
	e.When, e.Threshold = string(fleet.WhenTokens), d.RoutingThreshold
	if d.RoutingThreshold == 0 {
		e.When = string(fleet.WhenAlways)
	}
	e.PrefillPolicy = "stack.round_robin"
	if d.LoadBalancingStrategy == stackLeastLoaded {
		e.PrefillPolicy = "stack.least_loaded"
	}
	e.DecodePolicy = e.PrefillPolicy
	if e.Connector = d.DisaggConnectorType; e.Connector == "" {
		e.Connector = connectorNixl
	}
	return e, true
}

// checkPreset reports faults in the settings of a preset, and settings that belong to another.
func (d *Disaggregation) checkPreset() []error {
	var faults []error
	wrong := func(bad bool, name, format string, args ...any) {
		if bad {
			faults = append(faults, fault("disaggregation."+name, format, args...))
		}
	}
	one := func(name, value string, of ...string) {
		wrong(value != "" && !slices.Contains(of, value), name, "is %q, must be one of %s",
			value, strings.Join(of, ", "))
	}
	preset := d.Preset != ""
	one("preset", d.Preset, StackConditional)
	wrong(d.RoutingThreshold < 0, "routing_threshold", "is %d tokens, must not be negative; 0 splits every request",
		d.RoutingThreshold)
	one("load_balancing_strategy", d.LoadBalancingStrategy, stackRoundRobin, stackLeastLoaded)
	one("disagg_connector_type", d.DisaggConnectorType, connectorNixl, connectorLMCache)
	const without = "says nothing without preset: " + StackConditional
	wrong(!preset && d.RoutingThreshold > 0, "routing_threshold", without)
	wrong(!preset && d.LoadBalancingStrategy != "", "load_balancing_strategy", without)
	wrong(!preset && d.DisaggConnectorType != "", "disagg_connector_type", without)
	const by = "is given by the preset %s: leave it out, or the preset"
	own := defaultDisaggregation()
	wrong(preset && d.When != own.When, "when", by, d.Preset)
	wrong(preset && d.Threshold != 0, "threshold", by, d.Preset)
	wrong(preset && d.PrefillPolicy != "", "prefill_policy", by, d.Preset)
	wrong(preset && d.DecodePolicy != "", "decode_policy", by, d.Preset)
	wrong(preset && d.Connector != "", "connector", by, d.Preset)
	return append(faults, d.checkLMCache()...)
}

// checkLMCache reports faults in the addresses at which decoders receive.
func (d *Disaggregation) checkLMCache() []error {
	var faults []error
	e, _ := d.Effective()
	for _, of := range []struct {
		name string
		set  bool
	}{
		{"decoder_host", d.DecoderHost != ""},
		{"decoder_init_port", len(d.DecoderInitPort) > 0},
		{"decoder_alloc_port", len(d.DecoderAllocPort) > 0},
		{"decoder_registry", d.DecoderRegistry != ""},
		{"decoder_ranks", d.DecoderRanks != 0},
		{"notify_listen", d.NotifyListen != ""},
	} {
		if of.set && e.Connector != connectorLMCache {
			faults = append(faults, fault("disaggregation."+of.name, "is for the connector lmcache"))
		}
	}
	if d.DecoderRanks < 0 || d.DecoderRanks > 1024 {
		faults = append(faults, fault("disaggregation.decoder_ranks", "is %d, must be 0 to 1024", d.DecoderRanks))
	}
	if d.NotifyTimeout <= 0 {
		faults = append(faults, fault("disaggregation.notify_timeout", "is %v, must be above 0", d.NotifyTimeout))
	}
	if a := d.NotifyAddress(); a != "" {
		if _, port, err := net.SplitHostPort(a); err != nil || port == "" {
			faults = append(faults, fault("disaggregation.notify_listen", "is %q, must be HOST:PORT or off", a))
		}
	}
	if e.Connector != connectorLMCache {
		return faults
	}
	fixed, err := d.Receivers()
	switch ports := len(fixed.InitPorts) + len(fixed.AllocPorts); {
	case err != nil:
		faults = append(faults, err)
	case ports == 0 && d.DecoderRegistry == "":
		faults = append(faults, fault("disaggregation.connector", "lmcache must be told where decoders receive: "+
			"give decoder_init_port and decoder_alloc_port, or decoder_registry"))
	case ports == 0 && d.DecoderHost != "":
		faults = append(faults, fault("disaggregation.decoder_host", "needs decoder_init_port and decoder_alloc_port"))
	case ports > 0:
		r := handover.Receiver{InitPorts: fixed.InitPorts, AllocPorts: fixed.AllocPorts}
		if err := r.Check(max(0, d.DecoderRanks)); err != nil {
			faults = append(faults, fault("disaggregation.decoder_init_port", "of all decoders: %w", err))
		}
	}
	return faults
}

// NotifyAddress is the address for prefillers' notifications of pushed KV cache; "" for none.
func (d *Disaggregation) NotifyAddress() string {
	e, _ := d.Effective()
	switch {
	case e.Connector != connectorLMCache || d.NotifyListen == "off":
		return ""
	case d.NotifyListen == "":
		return defaultNotify
	}
	return d.NotifyListen
}

// defaultNotify is the port of LMCache's disagg_proxy_server (--proxy-port).
const defaultNotify = "0.0.0.0:8500"

// Receivers are the addresses at which decoders outside the registry receive.
func (d *Disaggregation) Receivers() (r handover.Receivers, err error) {
	r.Host = d.DecoderHost
	if r.InitPorts, err = ports("decoder_init_port", d.DecoderInitPort); err == nil {
		r.AllocPorts, err = ports("decoder_alloc_port", d.DecoderAllocPort)
	}
	return r, err
}

func ports(name string, list []string) (out []int, err error) {
	for _, text := range list {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fault("disaggregation."+name, "%q is not a port", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// checkDecoders reads the registry and compares it with the decoders, if all of them are known.
func (c Config) checkDecoders(keys discovery.Keys) []error {
	d := &c.Disaggregation
	if e, _ := d.Effective(); e.Connector != connectorLMCache {
		return nil
	}
	r, err := d.Receivers()
	if err != nil {
		return nil // reported
	}
	if d.DecoderRegistry != "" {
		if r.Registry, err = handover.ReadReceivers(d.DecoderRegistry, max(0, d.DecoderRanks), readFile); err != nil {
			return []error{fault("disaggregation.decoder_registry", "%w", err)}
		}
	}
	endpoints, err := discovery.Endpoints(c.Endpoints, keys)
	if c.Discovery.follows() || err != nil {
		return nil
	}
	var faults []error
	decoders, fixed := 0, 0
	registered := map[string]bool{}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Role == fleet.RolePrefill {
			continue
		}
		decoders++
		known := false
		for _, key := range []string{e.Name, e.URL, e.URL + "/"} {
			if _, ok := r.Registry[key]; ok {
				registered[key], known = true, true
			}
		}
		if _, ok := r.Of(*e); !ok {
			faults = append(faults, fault("disaggregation.decoder_registry", "does not say where the decoder %s (%s) "+
				"receives, and no decoder_init_port and decoder_alloc_port are given", e.Name, e.URL))
		}
		if !known {
			fixed++
		}
	}
	for name := range r.Registry {
		if !registered[name] {
			faults = append(faults, fault("disaggregation.decoder_registry",
				"names %q, which is neither name nor URL of an endpoint that decodes", name))
		}
	}
	if d.DecoderHost != "" && fixed > 1 {
		faults = append(faults, fault("disaggregation.decoder_host", "names one decoder, and %d of %d are in no "+
			"registry: leave it out, so that each receives at the host of its URL", fixed, decoders))
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return faults
}
