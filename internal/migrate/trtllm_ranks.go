package migrate

import (
	"cmp"
	"slices"
	"strings"
)

// idFormKey says, in a section of servers or at the top, in which form its workers are told conversations. TensorRT-LLM
// has no such key, and leaves one that it does not know alone.
const idFormKey = "conversation_id"

// trtIDForm reads the form in which the workers of a section are told conversations; "" when it is not stated.
func (d *draft) trtIDForm(root, s *node, section string) string {
	n, at := s.get(idFormKey), section+"."+idFormKey
	if n == nil {
		n, at = root.get(idFormKey), idFormKey
	}
	if n == nil {
		return ""
	}
	n.usedWhole()
	forms := []string{"auto", "conversation_params", "disaggregated_params", "off"}
	if !slices.Contains(forms, n.text) {
		d.miss(n.line, at+show(n.text), "known: "+strings.Join(forms, ", "))
		return ""
	}
	return n.text
}

// trtRankOptions are those of attention_dp_config that the policies rank.* have, under the same names.
func trtRankOptions() []trtOption {
	return []trtOption{
		{name: "kv_cache_routing_load_balance_weight", lo: 0, hi: 1e9},
		{name: "kv_cache_routing_match_rate_threshold", lo: 0, hi: 1},
		{name: "kv_cache_routing_fair_share_multiplier", lo: 1, hi: 1e9},
		{name: "kv_cache_routing_cold_start_warmup", truth: true},
		{name: "kv_cache_routing_account_for_in_transfer", truth: true},
		{name: "kv_cache_routing_max_sessions", lo: 1, hi: 100_000_000},
	}
}

// trtRanks reads attention_dp_config, which says how one engine deals requests to its ranks, and returns the policy
// that deals them so to endpoints; "" when it says none. By conversation goes before first turns in round robin, and
// that before the cache alone.
func (d *draft) trtRanks(root, s *node, section string) string {
	c, at := s.get("attention_dp_config"), section+".attention_dp_config"
	if c == nil {
		c, at = root.get("attention_dp_config"), "attention_dp_config"
	}
	if c == nil {
		return ""
	}
	note := d.miss
	if c.used { // inherited, and read for the other section
		note = func(int, string, string) {}
	}
	policy, by := "", (*node)(nil)
	for _, choice := range []struct{ key, policy string }{
		{"kv_cache_routing_conversation_affinity", "rank.conversation"},
		{"kv_cache_routing_first_turn_round_robin", "rank.first_turn"},
		{"enable_kv_cache_aware_routing", "rank.kv_cache_aware"},
	} {
		n := c.get(choice.key)
		if n == nil {
			continue
		}
		switch n.used = true; strings.ToLower(n.text) {
		case "true":
			if policy == "" {
				policy, by = choice.policy, n
			}
		case "false":
		default:
			note(n.line, at+"."+n.key+show(n.text), "neither true nor false")
		}
	}
	if !c.used {
		d.trtRankValues(c, at)
	}
	c.used = true
	if policy == "" {
		return ""
	}
	why := "it becomes the policy " + policy +
		", which chooses endpoints by this rule: no HTTP request names a rank within an engine of TensorRT-LLM"
	if r := cmp.Or(s.get("router"), root.get("router")); r.get("type") != nil {
		why = "the policy is that of the router, which chooses the engine; policy.name: " + policy +
			" chooses endpoints by this rule"
		policy = ""
	}
	note(by.line, at+"."+by.key, why)
	return policy
}

// trtRankValues copies the options of attention_dp_config that are no truth about which router deals.
func (d *draft) trtRankValues(c *node, at string) {
	for _, o := range trtRankOptions() {
		switch n := c.get(o.name); {
		case n == nil:
		case o.truth:
			d.boolean(n.line, at+"."+o.name, c.take(o.name), "policy.rank."+o.name)
		default:
			d.number(n.line, at+"."+o.name, c.take(o.name), "policy.rank."+o.name, o.lo, o.hi)
		}
	}
	if n := c.get("kv_cache_routing_new_conv_placement"); n != nil {
		switch text := c.take(n.key); text {
		case "round_robin", "least_queued":
			d.set("policy.rank."+n.key, text)
		default:
			d.miss(n.line, at+"."+n.key+show(text), "round_robin is taken, as there")
		}
	}
	// how an engine waits for a batch
	for _, key := range []string{"enable_balance", "timeout_iters", "batching_wait_iters"} {
		c.get(key).usedWhole()
	}
}
