package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// Disaggregation says how models are served of which some endpoints have a role (prefill, decode): a request may be split in two,
// its prompt computed by one engine and its answer made by another. In place of the mapping a text stands for when.
type Disaggregation struct {
	// When says which requests are split: time (those that are predicted to cost less in two legs, the transfer and what others
	// wait for it included), free (the same, and endpoints need no roles: all without one compute prompts for each other where that
	// pays, which their engines must be able to), always, never, tokens (those whose prompt has at least threshold tokens), or uncached (those of
	// whose prompt more than threshold tokens, or all, are not cached where they would be decoded).
	When string `yaml:"when"`
	// Threshold in tokens, for tokens and uncached.
	Threshold int `yaml:"threshold"`
	// PrefillPolicy is the policy that chooses who computes a prompt. Empty means that of policy. Options are those under policy.
	PrefillPolicy string `yaml:"prefill_policy"`
	// DecodePolicy is the policy that chooses who decodes, requests that are not split included. Empty means that of policy.
	DecodePolicy string `yaml:"decode_policy"`
	// Connector is how engines hand their KV cache over: nixl, mooncake, moriio and moriio_read (vLLM), lmcache (vLLM with LMCache),
	// sglang, trtllm and trtllm_generation_first (TensorRT-LLM). Empty follows the kind of engine.
	Connector string `yaml:"connector"`
	// Fallback lets the decoder compute a prompt that nobody else can, or whose prefill failed. Otherwise that is an error.
	Fallback bool `yaml:"fallback"`
	// Bidirectional is for vLLM engines whose NixlConnector runs with bidirectional_kv_xfer: how long a decoder is thought to hold what
	// it has answered, for the prefiller of the conversation's next turn to fetch. It must be below their decoder_kv_blocks_ttl (480s);
	// vLLM's own proxy takes 450s. 0 is off.
	Bidirectional time.Duration `yaml:"bidirectional"`
	// Preset is stack.conditional for production-stack's conditional disaggregation (PR 890) by the names that it gives its settings:
	// routing_threshold, load_balancing_strategy and disagg_connector_type, in place of when, threshold, the policies and the connector.
	Preset string `yaml:"preset"`
	// RoutingThreshold of the preset: a prompt of so many estimated tokens or more is split (a quarter of its characters, or its
	// token ids). 0 splits all; 4096 is advised for models of 70B.
	RoutingThreshold int `yaml:"routing_threshold"`
	// LoadBalancingStrategy of the preset: round_robin, or least_loaded (the fewest requests running and queued that the engines report, by
	// turns while one of them reports none). Empty means round_robin.
	LoadBalancingStrategy string `yaml:"load_balancing_strategy"`
	// DisaggConnectorType of the preset: nixl or lmcache. Empty means nixl.
	DisaggConnectorType string `yaml:"disagg_connector_type"`
	// DecoderHost is where the one decoder that is not in decoder_registry receives KV cache, for the connector lmcache. Empty means the
	// host of the decoder's URL.
	DecoderHost string `yaml:"decoder_host"`
	// DecoderInitPort is LMCache's pd_peer_init_port of decoders that are not in decoder_registry, one for each tensor-parallel rank.
	DecoderInitPort []string `yaml:"decoder_init_port"`
	// DecoderAllocPort is LMCache's pd_peer_alloc_port of the same.
	DecoderAllocPort []string `yaml:"decoder_alloc_port"`
	// DecoderRegistry says of each decoder, by URL or name, where it receives: JSON such as {"http://d:8200": {"host": "d", "init_port":
	// [8300], "alloc_port": [8400]}}, or the name of a file that holds it and is read again when it changes.
	DecoderRegistry string `yaml:"decoder_registry"`
	// DecoderRanks is how many tensor-parallel ranks prefillers and decoders have, each of which needs a port of each kind. 0 takes as
	// many as there are ports.
	DecoderRanks int `yaml:"decoder_ranks"`
	// NotifyListen is where LMCache's prefillers tell that they have pushed KV cache (their pd_proxy_host and pd_proxy_port), HOST:PORT.
	// Empty means 0.0.0.0:8500; off does not wait for them.
	NotifyListen string `yaml:"notify_listen"`
	// NotifyTimeout is how long that is waited for. Then the decoder is asked all the same, and computes what it has not got.
	NotifyTimeout time.Duration `yaml:"notify_timeout"`
}

func defaultDisaggregation() Disaggregation {
	return Disaggregation{When: string(route.WhenTime), Fallback: true, NotifyTimeout: 5 * time.Second}
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
	if d.Threshold > 0 && (d.When == string(route.WhenTime) || d.When == string(route.WhenFree) || d.When == string(route.WhenAlways) || d.When == string(route.WhenNever)) {
		faults = append(faults, fault("disaggregation.threshold", "says nothing with when: %s; it is for tokens and uncached", d.When))
	}
	for path, name := range map[string]string{"disaggregation.prefill_policy": d.PrefillPolicy, "disaggregation.decode_policy": d.DecodePolicy} {
		if err := (policy.Config{Name: name}).Validate(); err != nil {
			faults = append(faults, fault(path, "%w", errors.New(strings.TrimPrefix(err.Error(), "policy: name "))))
		}
	}
	if d.Bidirectional < 0 {
		faults = append(faults, fault("disaggregation.bidirectional", "is %v, must not be negative", d.Bidirectional))
	}
	if d.Connector != "" {
		if _, err := handover.ByName(d.Connector); err != nil {
			faults = append(faults, fault("disaggregation.connector", "is %q, must be one of %s", d.Connector, strings.Join(handover.Names(), ", ")))
		}
	}
	if oneWay := []string{"lmcache", "moriio", "moriio_read", "sglang"}; d.When == string(route.WhenFree) && slices.Contains(oneWay, d.Connector) {
		faults = append(faults, fault("disaggregation.when", "is free, which needs engines that can both send and receive KV cache; those of the connector %s are started for one of it", d.Connector))
	}
	return append(faults, d.checkPreset()...)
}

// checkRoles reports roles without peers, when all endpoints are known.
func (c Config) checkRoles() []error {
	if c.Discovery.File != "" || len(c.Discovery.DNS) > 0 || c.TRTLLM.Cluster.URI != "" {
		return nil
	}
	return rolesOf(c.Endpoints)
}

func rolesOf(declared []discovery.EndpointConfig) []error {
	var endpoints []fleet.Endpoint
	for _, e := range declared {
		role, _ := fleet.ParseRole(e.Role)
		endpoints = append(endpoints, fleet.Endpoint{Role: role})
	}
	if err := fleet.CheckRoles(endpoints); err != nil {
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
