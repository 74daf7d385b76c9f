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
	"github.com/warmpath/warmpath/policy/trtllm"
)

// Disaggregation splits requests of models with endpoint roles (prefill, decode): one engine computes the prompt,
// another one answers. Instead of the mapping, a text is when.
type Disaggregation struct {
	// When says which requests are split: time (if two legs are predicted to cost less, with the transfer and the delay
	// of other requests), free (the same without roles: endpoints without a role compute prompts for each other when
	// that is cheaper, which their engines must support), always, never, tokens (prompts of at least threshold tokens),
	// or uncached (prompts with more than threshold tokens, or all, not cached at their decoder).
	When string `yaml:"when"`
	// Threshold in tokens, for tokens and uncached.
	Threshold int `yaml:"threshold"`
	// PrefillPolicy is the policy that chooses prefillers. Empty means that of policy. Its options are those under
	// policy.
	PrefillPolicy string `yaml:"prefill_policy"`
	// DecodePolicy is the policy that chooses decoders, and endpoints of requests that are not split. Empty means that
	// of policy.
	DecodePolicy string `yaml:"decode_policy"`
	// DecodeTRTLLM has the options of the policies trtllm.* for choosing decoders, instead of policy.trtllm, with the
	// same keys. An empty mapping means the defaults. Unset means policy.trtllm.
	DecodeTRTLLM *trtllm.Config `yaml:"decode_trtllm"`
	// Connector is the protocol by which engines hand over KV cache: llmd_sidecar (decoders behind llm-d's sidecar, of
	// any kind of engine), nixl, mooncake, moriio and moriio_read (vLLM), lmcache (vLLM with LMCache), sglang, trtllm
	// and trtllm_generation_first (TensorRT-LLM). Empty follows the kind of engine.
	Connector string `yaml:"connector"`
	// Fallback lets the decoder compute a prompt if no prefiller can, or if prefill failed. Otherwise that is an error.
	Fallback bool `yaml:"fallback"`
	// Bidirectional is for vLLM engines whose NixlConnector runs with bidirectional_kv_xfer: how long a decoder is
	// assumed to hold its conversation's KV cache for the prefiller of the next turn. It must be below their
	// decoder_kv_blocks_ttl (480s); vLLM's own proxy uses 450s. 0 is off.
	Bidirectional time.Duration `yaml:"bidirectional"`
	// Estimate is how the tokens of a prompt are counted for when: tokens. router is the router's own estimate, learnt
	// from usage, with tools and chat template; characters is a quarter of the text's characters, as in
	// production-stack's PR 890 (without roles, tools and non-text). Empty means characters with the preset
	// stack.conditional, else router.
	Estimate string `yaml:"estimate"`
	// WrapErrors reports decoders' errors as {"error": {"message": "Decoder error: ...", "type": "decoder_error",
	// "code": STATUS}}, also for requests that are not split, like production-stack's PR 890. Otherwise an engine's
	// error to a whole request is passed on unchanged. Unset means true with the preset stack.conditional, else false.
	WrapErrors *bool `yaml:"wrap_errors"`
	// Preset stack.conditional configures production-stack's conditional disaggregation (PR 890) under its own names:
	// routing_threshold, load_balancing_strategy and disagg_connector_type replace when, threshold, the policies and
	// the connector.
	Preset string `yaml:"preset"`
	// RoutingThreshold of the preset: prompts of at least this many estimated tokens are split (a quarter of their
	// characters, or their token ids). 0 splits all; 4096 is recommended for models of 70B.
	RoutingThreshold int `yaml:"routing_threshold"`
	// LoadBalancingStrategy of the preset: round_robin, or least_loaded (fewest requests running and queued as engines
	// report, in turn while any reports none). Empty means round_robin.
	LoadBalancingStrategy string `yaml:"load_balancing_strategy"`
	// DisaggConnectorType of the preset: nixl or lmcache. Empty means nixl.
	DisaggConnectorType string `yaml:"disagg_connector_type"`
	// DecoderHost is where a decoder outside decoder_registry receives KV cache, for the connector lmcache. Empty means
	// the host of the decoder's URL.
	DecoderHost string `yaml:"decoder_host"`
	// DecoderInitPort has LMCache's pd_peer_init_port of decoders outside decoder_registry, one for each
	// tensor-parallel rank.
	DecoderInitPort []string `yaml:"decoder_init_port"`
	// DecoderAllocPort has LMCache's pd_peer_alloc_port of these.
	DecoderAllocPort []string `yaml:"decoder_alloc_port"`
	// DecoderRegistry says where each decoder receives, by URL or name: JSON such as {"http://d:8200": {"host": "d",
	// "init_port": [8300], "alloc_port": [8400]}}, or the name of a file with it, which is reloaded when it changes.
	DecoderRegistry string `yaml:"decoder_registry"`
	// DecoderRanks is the number of tensor-parallel ranks of prefillers and decoders; each needs a port of each kind. 0
	// is the number of ports.
	DecoderRanks int `yaml:"decoder_ranks"`
	// NotifyListen is the address for notifications of LMCache's prefillers that KV cache was pushed (their
	// pd_proxy_host and pd_proxy_port), HOST:PORT. Empty means 0.0.0.0:8500; off does not wait for them.
	NotifyListen string `yaml:"notify_listen"`
	// NotifyTimeout is the longest wait for these. Afterwards the decoder is asked anyway, and computes what is
	// missing.
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
	if e.When != string(fleet.WhenTokens) {
		return false
	}
	return d.Estimate == estimateCharacters || stack && d.Estimate == ""
}

// WrapsErrors is WrapErrors with its default applied.
func (d Disaggregation) WrapsErrors() bool {
	if d.WrapErrors != nil {
		return *d.WrapErrors
	}
	return d.Preset == StackConditional
}

func defaultDisaggregation() Disaggregation {
	return Disaggregation{When: string(fleet.WhenTime), Fallback: true, NotifyTimeout: 5 * time.Second}
}

// checkWhen reports faults of the rule for splitting.
func (d *Disaggregation) checkWhen() []error {
	var names []string
	for _, w := range fleet.SplitWhens() {
		names = append(names, string(w))
	}
	faults := oneOf("disaggregation.when", d.When, names...)
	if d.Threshold < 0 {
		faults = append(faults, fault("disaggregation.threshold", "is %d tokens, must not be negative", d.Threshold))
	}
	if d.Threshold > 0 && (d.When == string(fleet.WhenTime) || d.When == string(fleet.WhenFree) ||
		d.When == string(fleet.WhenAlways) || d.When == string(fleet.WhenNever)) {
		faults = append(faults,
			fault("disaggregation.threshold", "says nothing with when: %s; it is for tokens and uncached", d.When))
	}
	return faults
}

func (d *Disaggregation) check() []error {
	faults := d.checkWhen()
	if !slices.Contains([]string{"", estimateRouter, estimateCharacters}, d.Estimate) {
		faults = append(faults, fault("disaggregation.estimate", "is %q, must be %s or %s",
			d.Estimate, estimateRouter, estimateCharacters))
	}
	for path, name := range map[string]string{
		"disaggregation.prefill_policy": d.PrefillPolicy, "disaggregation.decode_policy": d.DecodePolicy,
	} {
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
			faults = append(faults, fault("disaggregation.connector", "is %q, must be one of %s",
				d.Connector, strings.Join(handover.Names(), ", ")))
		}
	}
	if oneWay := []string{"lmcache", "moriio", "moriio_read", "sglang"}; d.When == string(fleet.WhenFree) &&
		slices.Contains(oneWay, d.Connector) {
		faults = append(faults, fault("disaggregation.when", "is free, which needs engines that can both send and "+
			"receive KV cache; engines of the connector %s do only one of them", d.Connector))
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

// DecodePolicyConfig is the configuration of the policy that chooses decoders.
func (c Config) DecodePolicyConfig() policy.Config {
	e, _ := c.Disaggregation.Effective()
	out := c.PolicyNamed(e.DecodePolicy)
	if own := c.Disaggregation.DecodeTRTLLM; own != nil {
		out.TRTLLM = own.WithDefaults()
	}
	return out
}
