package migrate

import "slices"

// smgFlags are those of smg launch, and of SGLang's router before it.
func smgFlags(d *draft) []flag {
	tenantHeader, trusted := "x-smg-tenant-id", false
	tenant := func() {
		if trusted {
			d.set("tenants.header", tenantHeader)
		}
	}
	d.set("policy.name", "smg.cache_aware")
	return slices.Concat(gatewayFlags(d, ""), []flag{
		one("policy", d.smgPolicy),
		one("assignment-mode", d.smgAssignment),
		one("max-idle-secs", func(line int, v string) { d.seconds(line, "--max-idle-secs", v, "sessions.idle_ttl") }),
		d.threshold("cache-threshold", "0.3"),
		d.threshold("prefix-token-count", "256"),
		d.threshold("prefix-hash-load-factor", "1.25"),
		d.threshold("balance-abs-threshold", "64"),
		d.threshold("balance-rel-threshold", "1.5"),
		d.threshold("balance-token-usage-threshold", "1", "1.0"),
		d.threshold("overload-token-usage-threshold", "1", "1.0"),
		one("backend", func(line int, v string) { d.kindOfAll(line, v) }),
		{name: "trust-tenant-header", do: func(int, []string) { trusted = true; tenant() }},
		one("tenant-header-name", func(_ int, v string) { tenantHeader = v; tenant() }),
	}, pdFlags(d, "sglang", "8998", "pd-disaggregation"), pdPolicies(d, smgNamed),
		none("encoders are no endpoints of their own", "epd-disaggregation", "encode", "encode-policy"),
		none("its rule is not offered; least_ttft weighs queues, speeds and what is cached",
			"least-load-kv-pressure-weight", "least-load-default-throughput", "least-load-mean-prefill-tokens",
			"routing-key-override"),
		none("what engines say of themselves is theirs: scrape their /metrics", "engine-metrics"),
		none("probes are answered by the traffic listener, /healthz and /readyz", "health-check-port"),
		none("routers of one fleet tell each other what they place: peers.listen and peers.routers", "enable-mesh",
			"mesh-server-name", "mesh-host", "mesh-advertise-host", "mesh-port", "mesh-peer-urls", "kv-indexer-url"),
		none("bodies and answers are passed on as they are; the engine does it", "reasoning-parser", "tool-call-parser",
			"mcp-config-path", "enable-wasm", "storage-hook-wasm-path", "storage-context-headers", "schema-config",
			"history-backend", "multimodal-tensor-transport", "webrtc-bind-addr", "webrtc-stun-server"),
		none("conversations are not stored: engines hold responses, and requests that refer to one go there",
			"oracle-dsn", "oracle-tns-alias", "postgres-db-url", "redis-url"))
}

// smgPolicy sets the policy for a name of SMG's.
func (d *draft) smgPolicy(line int, name string) {
	policy := smgNamed(d, line, "--policy", name)
	d.set("policy.name", policy)
	if name == "manual" || name == "consistent_hashing" {
		d.set("identity.ids", []string{"header:X-SMG-Routing-Key"})
	}
	if name == "manual" {
		if d.has("policy.session.fallback") == nil {
			d.set("policy.session.fallback", "random")
		}
		if d.has("sessions.idle_ttl") == nil {
			d.seconds(line, "", "14400", "sessions.idle_ttl")
		}
	}
}

// smgNamed is the policy for a name of SMG's.
func smgNamed(d *draft, line int, flag, name string) string {
	as := func(policy, why string) string {
		d.miss(line, flag+" "+name, why)
		return policy
	}
	switch name {
	case "cache_aware", "prefix_hash":
		return "smg." + name
	case "round_robin", "random", "power_of_two":
		return name
	case "manual":
		return "session"
	case "consistent_hashing":
		return as("rendezvous", "rendezvous hashing stands in: it too uses the key alone, "+
			"but places conversations elsewhere than SMG's ring; X-SMG-Target-Worker is X-Warmpath-Pin (pinning: true)")
	case "passthrough":
		return as("round_robin", "with one endpoint any policy passes everything to it")
	case "least_load", "bucket":
		return as("least_tokens", "its rule is not offered; least_tokens, fewest tokens still to compute, is nearest")
	}
	return as("least_ttft", "not known here; least_ttft, the default, is taken")
}

// smgAssignment places new keys of the policy manual.
func (d *draft) smgAssignment(line int, mode string) {
	switch mode {
	case "random":
		d.set("policy.session.fallback", "random")
	case "min_load":
		d.set("policy.session.fallback", "least_requests")
	default:
		d.set("policy.session.fallback", "least_requests")
		d.miss(line, "--assignment-mode "+mode, "least_requests is nearest")
	}
}

// kindOfAll states the kind of all endpoints.
func (d *draft) kindOfAll(line int, kind string) {
	switch kind {
	case "sglang", "vllm", "trtllm":
		d.kind = kind
	case "auto":
	default:
		d.miss(line, "--backend "+kind, "probing finds the kind of an engine")
	}
}
