package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/policy"
)

// TestDisaggregation: what can be said of it, and what is refused with its place.
func TestDisaggregation(t *testing.T) {
	c, err := config.Parse("f", []byte(`
endpoints: [{url: a:1, role: prefill}, "b:1,role=decode", c:1]
policy: least_tokens
disaggregation: {when: tokens, threshold: 4096, prefill_policy: round_robin, connector: nixl, fallback: false}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := c.Disaggregation
	if d.When != "tokens" || d.Threshold != 4096 || d.Fallback ||
		c.PolicyNamed(d.PrefillPolicy).Name != "round_robin" || c.PolicyNamed(d.DecodePolicy).Name != "least_tokens" {
		t.Errorf("%+v", d)
	}
	if c, err = config.Parse("f", []byte("disaggregation: always"), nil); err != nil ||
		c.Disaggregation.When != "always" || !c.Disaggregation.Fallback {
		t.Errorf("%+v, %v", c.Disaggregation, err)
	}
	if c = config.Default(); c.PolicyNamed("").Name != policy.Default {
		t.Errorf("by default %q", c.PolicyNamed("").Name)
	}
	for text, want := range map[string]string{
		"endpoints: [{url: a:1, role: prefill}]": "none that decodes",
		"endpoints: [{url: a:1, role: decode}]":  "none that computes prompts",
		"endpoints: [{url: a:1, role: middle}]":  `endpoints[0].role: "middle" is not a role`,
		"disaggregation: {when: sometimes}": `disaggregation.when: is "sometimes", must be one of time, ` +
			`free, always`,
		"disaggregation: {when: tokens, threshold: -1}": "disaggregation.threshold: is -1 tokens, must not be negative",
		"disaggregation: {bidirectional: -1s}": "disaggregation.bidirectional: " +
			"is -1s, must not be negative",
		"disaggregation: {threshold: 5}":             "says nothing with when: time",
		"disaggregation: {when: free, threshold: 5}": "says nothing with when: free",
		"disaggregation: {when: free, connector: lmcache}": "disaggregation.when: is free, " +
			"which needs engines that can both send and receive",
		"disaggregation: {when: free, connector: nixl}\nendpoints: [a:1, b:1]": "",
		"disaggregation: {connector: carrier_pigeon}": `disaggregation.connector: is ` +
			`"carrier_pigeon", must be one of nixl`,
		"disaggregation: {prefill_policy: x}":                                       "disaggregation.prefill_policy",
		"endpoints: [\"a:1,role=prefill\"]\ndiscovery: {dns: [{name: e, port: 1}]}": "",
	} {
		_, err := config.Parse("f", []byte(text), nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
