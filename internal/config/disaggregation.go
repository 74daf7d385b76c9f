package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// Disaggregation says how models are served of which some endpoints have a role (prefill, decode): a request may be split in two,
// its prompt computed by one engine and its answer made by another. In place of the mapping a text stands for when.
type Disaggregation struct {
	// When says which requests are split: time (those that are predicted to cost less in two legs, the transfer and what others
	// wait for it included), always, never, tokens (those whose prompt has at least threshold tokens), or uncached (those of
	// whose prompt more than threshold tokens, or all, are not cached where they would be decoded).
	When string `yaml:"when"`
	// Threshold in tokens, for tokens and uncached.
	Threshold int `yaml:"threshold"`
	// PrefillPolicy is the policy that chooses who computes a prompt. Empty means that of policy. Options are those under policy.
	PrefillPolicy string `yaml:"prefill_policy"`
	// DecodePolicy is the policy that chooses who decodes, requests that are not split included. Empty means that of policy.
	DecodePolicy string `yaml:"decode_policy"`
	// Connector is how engines hand their KV cache over: nixl (vLLM). Empty goes by the kind of engine.
	Connector string `yaml:"connector"`
	// Fallback lets the decoder compute a prompt that nobody else can, or whose prefill failed. Otherwise that is an error.
	Fallback bool `yaml:"fallback"`
}

func defaultDisaggregation() Disaggregation {
	return Disaggregation{When: string(route.WhenTime), Fallback: true}
}

func (d *Disaggregation) check() []error {
	var faults []error
	if !slices.Contains(route.Whens(), route.When(d.When)) {
		var names []string
		for _, w := range route.Whens() {
			names = append(names, string(w))
		}
		faults = append(faults, fault("disaggregation.when", "is %q, must be one of %s", d.When, strings.Join(names, ", ")))
	}
	if d.Threshold < 0 {
		faults = append(faults, fault("disaggregation.threshold", "is %d tokens, must not be negative", d.Threshold))
	}
	if d.Threshold > 0 && (d.When == string(route.WhenTime) || d.When == string(route.WhenAlways) || d.When == string(route.WhenNever)) {
		faults = append(faults, fault("disaggregation.threshold", "says nothing with when: %s; it is for tokens and uncached", d.When))
	}
	for path, name := range map[string]string{"disaggregation.prefill_policy": d.PrefillPolicy, "disaggregation.decode_policy": d.DecodePolicy} {
		if err := (policy.Config{Name: name}).Validate(); err != nil {
			faults = append(faults, fault(path, "%w", errors.New(strings.TrimPrefix(err.Error(), "policy: name "))))
		}
	}
	if d.Connector != "" {
		if _, err := engine.ConnectorByName(d.Connector); err != nil {
			faults = append(faults, fault("disaggregation.connector", "is %q, must be one of %s", d.Connector, strings.Join(engine.ConnectorNames(), ", ")))
		}
	}
	return faults
}

// checkRoles reports roles without peers, when all endpoints are known.
func (c Config) checkRoles() []error {
	if c.Discovery.File != "" || len(c.Discovery.DNS) > 0 {
		return nil
	}
	return rolesOf(c.Endpoints)
}

func rolesOf(declared []discovery.EndpointConfig) []error {
	var endpoints []route.Endpoint
	for _, e := range declared {
		role, _ := route.ParseRole(e.Role)
		endpoints = append(endpoints, route.Endpoint{Role: role})
	}
	if err := route.CheckRoles(endpoints); err != nil {
		return []error{fault("endpoints", "%w", err)}
	}
	return nil
}

// PolicyNamed is the configuration of a policy by name, with the options under policy; that of policy itself for "".
func (c Config) PolicyNamed(name string) policy.Config {
	out := c.Policy
	if name != "" {
		out.Name = name
	}
	return out.WithDefaults()
}
