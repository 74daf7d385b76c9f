package migrate

import (
	"slices"
	"strconv"
)

// vllmRouterFlags are those of vllm-project/router, of both its front ends.
func vllmRouterFlags(d *draft) []flag {
	d.set("policy.name", "smg.cache_aware")
	return slices.Concat([]flag{
		one("policy", func(line int, v string) { d.set("policy.name", vllmNamed(d, line, "--policy", v)) }),
		one("intra-node-data-parallel-size", d.ranksOfAll),
		d.threshold("cache-threshold", "0.3"),
		d.threshold("balance-abs-threshold", "64"),
		d.threshold("balance-rel-threshold", "1.5"),
		one("kv-connector", d.connector),
		{name: "verbose", do: func(int, []string) { d.set("log.level", "debug") }},
	}, gatewayFlags(d, "vllm"), pdFlags(d, "vllm", "", "vllm-pd-disaggregation", "pd-disaggregation"),
		pdPolicies(d, vllmNamed),
		none("engines do not register themselves: declare endpoints, or discovery.dns or discovery.file",
			"vllm-discovery-address"),
		none("its scheduling of agents' programs is not offered; sub-agents go to their parent's endpoint where that "+
			"costs hardly more", "enable-program-scheduling", "program-scheduling-config-json"),
		none("leave it out: this is a router of its own", "mini-lb"))
}

// vllmNamed is the policy for a name of vllm-router's.
func vllmNamed(d *draft, line int, flag, name string) string {
	as := func(policy, why string) string {
		d.miss(line, flag+" "+name, why)
		return policy
	}
	switch name {
	case "round_robin", "random", "power_of_two":
		return name
	case "consistent_hash", "sticky_least_loaded":
		return "vllmrouter." + name
	case "rendezvous_hash":
		return "rendezvous"
	case "cache_aware":
		return as("smg.cache_aware",
			"SMG's rule of the same origin stands in; it bounds imbalance by mean and deviation")
	}
	return as("least_ttft", "not known here; least_ttft, the default, is taken")
}

// ranksOfAll declares every engine by its ranks.
func (d *draft) ranksOfAll(line int, text string) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1024 {
		d.miss(line, "--intra-node-data-parallel-size "+text, "ranks takes 1 to 1024")
		return
	}
	d.ranks = n
}
