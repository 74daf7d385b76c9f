package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

const stackFleet = "endpoints: [{url: 10.0.0.1:1, role: prefill}, {url: 10.0.0.2:1, role: decode, name: d}, {url: " +
	"10.0.0.3:1}]\n"

// TestStackConditional: the settings of production-stack PR 890 by their own names.
func TestStackConditional(t *testing.T) {
	for _, c := range []struct{ text, when, policy, connector string }{
		{"disaggregation: stack.conditional", "always", "stack.round_robin", "nixl"},
		{
			"disaggregation: {preset: stack.conditional, routing_threshold: 4096, load_balancing_strategy: " +
				"least_loaded}", "tokens", "stack.least_loaded", "nixl",
		},
		{
			"disaggregation: {preset: stack.conditional, disagg_connector_type: lmcache, decoder_init_port: [8300, " +
				"8301], decoder_alloc_port: \"8400,8401\"}", "always", "stack.round_robin", "lmcache",
		},
		{
			"disaggregation: {preset: stack.conditional, disagg_connector_type: lmcache, decoder_host: " +
				"h, decoder_init_port: 8300, decoder_alloc_port: 8400, notify_listen: off}", "always",
			"stack.round_robin", "lmcache",
		},
	} {
		cfg, err := config.Parse("f", []byte(stackFleet+c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		d, tokens := cfg.Disaggregation.Effective()
		if d.When != c.when || d.PrefillPolicy != c.policy || d.DecodePolicy != c.policy ||
			d.Connector != c.connector || !tokens || d.Threshold != cfg.Disaggregation.RoutingThreshold {
			t.Errorf("%s: %+v", c.text, d)
		}
	}
	cfg, err := config.Parse("f", []byte(stackFleet+
		"disaggregation: {connector: lmcache, decoder_init_port: [8300, 8301], decoder_alloc_port: [8400, 8401]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cfg.Disaggregation.Receivers()
	if diff := cmp.Diff(handover.Receivers{InitPorts: []int{8300, 8301}, AllocPorts: []int{8400, 8401}},
		got); err != nil || diff != "" || cfg.Disaggregation.NotifyAddress() != "0.0.0.0:8500" {
		t.Errorf("%v %s %q", err, diff, cfg.Disaggregation.NotifyAddress())
	}
}

func TestStackConditionalFaults(t *testing.T) {
	for text, want := range map[string]string{
		"preset: stack": `disaggregation.preset: is "stack", must be one of stack.conditional`,
		"preset: stack.conditional, " +
			"routing_threshold: -1": "disaggregation.routing_threshold: " +
			"is -1 tokens, must not be negative",
		"preset: stack.conditional, load_balancing_strategy: best":   `must be one of round_robin, least_loaded`,
		"preset: stack.conditional, disagg_connector_type: mooncake": `must be one of nixl, lmcache`,
		"preset: stack.conditional, when: always":                    "disaggregation.when: is given by the preset",
		"preset: stack.conditional, connector: nixl": "disaggregation.connector: " +
			"is given by the preset",
		"routing_threshold: 5": "says nothing without preset",
		"decoder_host: h":      "decoder_host: is for the connector lmcache",
		"connector: lmcache":   "must be told where decoders receive",
		"connector: lmcache, decoder_host: h, decoder_registry: f": "decoder_host: needs decoder_init_port",
		"connector: lmcache, decoder_init_port: [1, 2], " +
			"decoder_alloc_port: 3": "alloc_port has too few ports: 1 for 2",
		"connector: lmcache, decoder_init_port: 1, decoder_alloc_port: 2, " +
			"decoder_ranks: 2": "init_port has too few ports: 1 for 2",
		"connector: lmcache, decoder_init_port: x, decoder_alloc_port: 2": `"x" is not a port`,
		"connector: lmcache, decoder_init_port: 0, decoder_alloc_port: 2": `0 is not a port`,
		"connector: lmcache, decoder_init_port: 1, decoder_alloc_port: 2, " +
			"notify_listen: nowhere": "must be HOST:PORT or off",
		"connector: lmcache, decoder_init_port: 1, decoder_alloc_port: 2, notify_timeout: 0s": "must be above 0",
	} {
		if _, err := config.Parse("f", []byte(stackFleet+"disaggregation: {"+text+"}"), nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestDecoderRegistry: it is held against the endpoints at the start.
func TestDecoderRegistry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decoders.json")
	for _, c := range []struct{ registry, settings, want string }{
		{`{"d": {"init_port": 1, "alloc_port": 2}, "http://10.0.0.3:1": {"init_port": 1, "alloc_port": 2}}`, "", ""},
		{
			`{"d": {"init_port": 1, "alloc_port": 2}}`, "",
			"does not say where the decoder 10.0.0.3:1 (http://10.0.0.3:1) receives",
		},
		{
			`{"d": {"init_port": 1, "alloc_port": 2}}`,
			"decoder_host: h, decoder_init_port: 1, decoder_alloc_port: 1, ", "",
		},
		{
			`{"x": {"init_port": 1, "alloc_port": 2}}`, "decoder_init_port: 1, decoder_alloc_port: 1, ",
			`names "x", which is neither`,
		},
		{
			`{"10.0.0.1:1": {"init_port": 1, "alloc_port": 2}}`, "decoder_init_port: 1, decoder_alloc_port: 1, ",
			`names "10.0.0.1:1", which is neither name nor URL of an endpoint that decodes`,
		},
		{`{"d": {"init_port": [1, 2], "alloc_port": [2, 3]}, "http://10.0.0.3:1": {"init_port": 1, "alloc_port": 2}}`, "decoder_ranks: 2, ", "too few ports: 1 for 2"},
		{`{`, "", "not a JSON object"},
	} {
		if err := os.WriteFile(file, []byte(c.registry), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse("f",
			[]byte(stackFleet+"disaggregation: {connector: lmcache, "+c.settings+"decoder_registry: "+file+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = cfg.CheckFiles(discovery.None())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.registry, err, c.want)
		}
	}
	for _, c := range []struct{ registry, want string }{ // the JSON itself, or what is neither
		{` {"d": {"init_port": 1, "alloc_port": 2}, "http://10.0.0.3:1": {"init_port": 1, "alloc_port": 2}}`, ""},
		{`{"d": {"init_port": 1, "alloc_port": 2}}`, "does not say where the decoder 10.0.0.3:1"},
		{`{"d": {"init_port": 1}}`, `the JSON given: decoder "d": alloc_port is missing`},
		{`{"d": `, "the JSON given: is not a JSON object of decoders"},
		{`["d"]`, "is neither a JSON object of decoders nor a file that can be read"},
		{
			filepath.Join(t.TempDir(), "no", "such.json"),
			"is neither a JSON object of decoders nor a file that can be read",
		},
	} {
		set := config.Override{
			Path: []string{"disaggregation", "decoder_registry"}, Text: c.registry, From: "--decoder-registry",
		}
		cfg, err := config.Parse("f", []byte(stackFleet+"disaggregation: {connector: lmcache}"), nil, set)
		if file := !strings.HasPrefix(strings.TrimSpace(c.registry), "{"); file {
			if err != nil {
				t.Fatal(err)
			}
			err = cfg.CheckFiles(discovery.None())
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.registry, err, c.want)
		}
	}
	cfg, err := config.Parse("f", []byte(stackFleet+
		"disaggregation: {connector: lmcache, decoder_host: h, decoder_init_port: 1, decoder_alloc_port: 1}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.CheckFiles(discovery.None()); err == nil ||
		!strings.Contains(err.Error(), "2 of 2 are in no registry") {
		t.Errorf("one host for two decoders: %v", err)
	}
}

// PR 890's estimate and its form of errors come with its preset; each can be had without it, and left out with it.
func TestStackConditionalSwitches(t *testing.T) {
	for text, want := range map[string]struct{ characters, wraps bool }{
		"{preset: stack.conditional, routing_threshold: 9}":                                       {true, true},
		"{preset: stack.conditional, routing_threshold: 9, estimate: router, wrap_errors: false}": {false, false},
		// all are split, and nobody counts
		"{preset: stack.conditional}":                                       {false, true},
		"{when: tokens, threshold: 9}":                                      {false, false},
		"{when: tokens, threshold: 9, estimate: characters}":                {true, false},
		"{when: uncached, threshold: 9, wrap_errors: true}":                 {false, true},
		"{when: time, estimate: characters}":                                {false, false},
		"{when: tokens, threshold: 9, estimate: router, wrap_errors: true}": {false, true},
	} {
		cfg, err := config.Parse("f", []byte(stackFleet+"disaggregation: "+text), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c, w := cfg.Disaggregation.CountsCharacters(), cfg.Disaggregation.WrapsErrors(); c != want.characters ||
			w != want.wraps {
			t.Errorf("%s: characters %t, wraps %t", text, c, w)
		}
	}
	if _, err := config.Parse("f", []byte(stackFleet+"disaggregation: {estimate: letters}"), nil); err == nil ||
		!strings.Contains(err.Error(), "disaggregation.estimate") {
		t.Errorf("estimate: letters: %v", err)
	}
}
