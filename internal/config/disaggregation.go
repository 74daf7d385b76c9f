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
	// DecodeTRTLLM are the options of the policies trtllm.* where they choose who decodes, in place of those under policy.trtllm, whose keys
	// they have: two routers of one type may differ. An empty mapping stands for the defaults. Not stated means policy.trtllm.
	DecodeTRTLLM *policy.TRTLLMConfig `yaml:"decode_trtllm"`
	// Connector is how engines hand their KV cache over: nixl, mooncake, moriio and moriio_read (vLLM), lmcache (vLLM with LMCache),
	// sglang, trtllm and trtllm_generation_first (TensorRT-LLM). Empty follows the kind of engine.
	Connector string `yaml:"connector"`
	// Fallback lets the decoder compute a prompt that nobody else can, or whose prefill failed. Otherwise that is an error.
	Fallback bool `yaml:"fallback"`
	// Bidirectional is for vLLM engines whose NixlConnector runs with bidirectional_kv_xfer: how long a decoder is thought to hold what
	// it has answered, for the prefiller of the conversation's next turn to fetch. It must be below their decoder_kv_blocks_ttl (480s);
	// vLLM's own proxy takes 450s. 0 is off.
	Bidirectional time.Duration `yaml:"bidirectional"`
	// Estimate is how the tokens of a prompt are counted for when: tokens. router is the router's own estimate, learnt from usage, tools and
	// the chat template with it; characters is a quarter of the characters of text, as production-stack's PR 890 counts (names of roles,
	// tools and what is not text count nothing). Empty means characters with the preset stack.conditional, else router.
	Estimate string `yaml:"estimate"`
	// WrapErrors has the errors of engines that decode told as {"error": {"message": "Decoder error: ...", "type": "decoder_error", "code":
	// STATUS}}, also for requests that are not split, as production-stack's PR 890 does. Otherwise what an engine says of a whole request
	// is passed on as it is. Not stated means true with the preset stack.conditional, else false.
	WrapErrors *bool `yaml:"wrap_errors"`
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

// The values of Disaggregation.Estimate.
const (
	estimateRouter     = "router"
	estimateCharacters = "characters"
)

// CountsCharacters reports whether prompts are measured by their characters.
func (d Disaggregation) CountsCharacters() bool {
	e, stack := d.Effective()
	if e.When != string(route.WhenTokens) {
		return false
	}
	return d.Estimate == estimateCharacters || stack && d.Estimate == ""
}

// WrapsErrors is what WrapErrors comes to.
func (d Disaggregation) WrapsErrors() bool {
	if d.WrapErrors != nil {
		return *d.WrapErrors
	}
	return d.Preset == StackConditional
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
	if !slices.Contains([]string{"", estimateRouter, estimateCharacters}, d.Estimate) {
		faults = append(faults, fault("disaggregation.estimate", "is %q, must be %s or %s", d.Estimate, estimateRouter, estimateCharacters))
	}
	for path, name := range map[string]string{"disaggregation.prefill_policy": d.PrefillPolicy, "disaggregation.decode_policy": d.DecodePolicy} {
		if err := (policy.Config{Name: name}).Validate(); err != nil {
			faults = append(faults, fault(path, "%w", errors.New(strings.TrimPrefix(err.Error(), "policy: name "))))
		}
	}
	if d.DecodeTRTLLM != nil {
		if err := d.DecodeTRTLLM.WithDefaults().Validate(); err != nil {
			faults = append(faults, fault("disaggregation.decode_trtllm", "%w", err))
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
	if c.Discovery.follows() || c.TRTLLM.Cluster.URI != "" {
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

// DecodePolicyConfig is the configuration of the policy that chooses who decodes.
func (c Config) DecodePolicyConfig() policy.Config {
	e, _ := c.Disaggregation.Effective()
	out := c.PolicyNamed(e.DecodePolicy)
	if own := c.Disaggregation.DecodeTRTLLM; own != nil {
		out.TRTLLM = own.WithDefaults()
	}
	return out
}
