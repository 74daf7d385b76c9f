package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// readLLMDFile reads an EndpointPickerConfig, or the values of a Helm chart that has one.
func readLLMDFile(d *draft, root *node) {
	if !readLLMDHelm(d, root) {
		readLLMD(d, root)
	}
}

// readLLMD reads an EndpointPickerConfig. It says how to choose and not among whom: endpoints are those of an
// InferencePool.
func readLLMD(d *draft, root *node) {
	if kind := root.take("kind"); kind != "EndpointPickerConfig" {
		d.miss(root.line, "kind"+show(kind), "EndpointPickerConfig is wanted")
	}
	root.take("apiVersion")
	p := llmd{d: d, plugins: map[string]*node{}, seen: map[string]bool{}}
	if plugins := root.get("plugins"); plugins != nil {
		plugins.used = true
		for _, n := range plugins.items {
			p.declare(n)
		}
	}
	p.profiles(root.get("schedulingProfiles"))
	p.decide()
	d.ends = append(d.ends, func() {
		if len(d.pods) == 0 {
			d.miss(0, "endpoints", "they are those of the InferencePool: name it in discovery.kubernetes (pool: "+
				"NAME), or declare endpoints")
		}
	})
	for _, k := range []struct{ key, why string }{
		{
			"flowControl", "the router's queue lets the shortest prompt go first (queue); " +
				"limits.priority and tenants.limits say who goes before others",
		},
		{"featureGates", "there are none"},
		{"dataLayer", "probing asks the engines by itself (probe.load_interval)"},
		{"requestHandler", "every API that is spoken is read, see docs/conversations.md"},
	} {
		if n := root.get(k.key); n != nil {
			d.miss(n.line, k.key, k.why)
			n.usedWhole()
		}
	}
}

// llmd is what the plugins of an EndpointPickerConfig come to.
type llmd struct {
	d       *draft
	plugins map[string]*node // by name
	order   []*node          // of the plugins, as they were declared
	scorers []scorer         // of all profiles, in order
	seen    map[string]bool  // types that are used
}

type scorer struct {
	kind   string
	weight string
	line   int
}

// declare reads a plugin.
func (p *llmd) declare(n *node) {
	kind := n.take("type")
	name := n.take("name")
	if name == "" {
		name = kind
	}
	n.used = true
	p.plugins[name], p.order = n, append(p.order, n)
	if kind == "" {
		p.d.miss(n.line, "plugins", "a plugin without a type")
		return
	}
	p.seen[kind] = true
	p.parameters(kind, n)
}

// profiles reads which plugins decide, with which weights.
func (p *llmd) profiles(list *node) {
	if list == nil {
		return
	}
	list.used = true
	for i, profile := range list.items {
		profile.used = true
		name := profile.take("name")
		if i > 0 && name != "prefill" && name != "decode" {
			p.d.miss(profile.line, "schedulingProfiles."+name, "one policy serves all requests of a role")
		}
		refs := profile.get("plugins")
		if refs == nil {
			continue
		}
		refs.used = true
		for _, ref := range refs.items {
			ref.used = true
			s := scorer{weight: ref.take("weight"), line: ref.line}
			of, ok := p.plugins[ref.take("pluginRef")]
			if !ok {
				p.d.miss(ref.line, "pluginRef"+show(ref.take("pluginRef")), "no plugin has that name")
				continue
			}
			s.kind = of.take("type")
			p.scorers = append(p.scorers, s)
		}
	}
}

// parameters reads those of a plugin that have an equivalent.
func (p *llmd) parameters(kind string, n *node) {
	d, of := p.d, n.get("parameters")
	if of == nil {
		return
	}
	of.used = true
	switch kind {
	case "session-affinity-scorer", "session-affinity-filter":
		p.affinity(of)
	case "session-affinity": // of the payload processor, PR 178
		if key := of.take("sessionIdKey"); key != "" {
			d.set("identity.ids", []string{"header:" + key})
		}
		if m := of.get("maxSessions"); m != nil {
			d.number(m.line, "maxSessions", of.take("maxSessions"), "sessions.max", 1, 1e8)
		}
		if t := of.get("ttlSeconds"); t != nil {
			d.seconds(t.line, "ttlSeconds", of.take("ttlSeconds"), "sessions.idle_ttl")
		}
	case "precise-prefix-cache-scorer", "precise-prefix-cache-producer", "prefix-cache-scorer":
		p.events(of)
	case "prefix-based-pd-decider":
		d.set(splitWhen, "uncached")
		if t := of.get("nonCachedTokens"); t != nil {
			if of.take("nonCachedTokens"); t.text == "0" {
				d.set(splitWhen, "never")
				break
			}
			d.number(t.line, "nonCachedTokens", t.text, splitThreshold, 0, 1<<31)
		}
	case "file-discovery":
		d.miss(of.line, "file-discovery"+show(of.take("path")),
			"discovery.file reads a list of endpoints in the form of this file's own, and follows its changes")
		of.usedWhole()
	}
}

// affinity reads where session affinity finds its ids, and how long it keeps them.
func (p *llmd) affinity(of *node) {
	d := p.d
	if of.take("strategy") != "session_id" {
		c := of.get("encodedEndpointHeaderConfig")
		if c != nil {
			c.used = true
		}
		d.set("endpoint_token.header", cmp.Or(c.take("header"), "x-session-token"))
		d.miss(of.line, "strategy (encoded_endpoint_header)", "endpoint_token seals what it sends: "+
			"with several replicas give them one endpoint_token.key_file; tokens of llm-d's own are understood too")
		return
	}
	c := of.get("sessionIdConfig")
	if c == nil {
		return
	}
	c.used = true
	var ids []string
	if sources := c.get("sources"); sources != nil {
		sources.used = true
		for _, s := range sources.items {
			s.used = true
			if h := s.take("header"); h != "" {
				ids = append(ids, "header:"+h)
			} else {
				d.miss(s.line, "sources", "only headers and fields of the body hold ids, see identity.ids")
				s.usedWhole()
			}
		}
	}
	if len(ids) > 0 {
		d.set("identity.ids", ids)
	}
	if t := c.get("evictionTtlSeconds"); t != nil {
		d.seconds(t.line, "evictionTtlSeconds", c.take("evictionTtlSeconds"), "sessions.idle_ttl")
	}
	c.take("evictionSweepSeconds")
}

// decide finds the policy that is nearest to the plugins.
func (p *llmd) decide() {
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(p.scorers, func(s scorer) bool { return slices.Contains(kinds, s.kind) })
	}
	prefix := has("prefix-cache-scorer", "precise-prefix-cache-scorer")
	load := has("queue-scorer", "running-requests-size-scorer", "active-request-scorer", "load-aware-scorer",
		"kv-cache-utilization-scorer", "token-load-scorer")
	policy := "llmd.default"
	switch {
	case has("latency-scorer", "slo-headroom-tier-filter", "prefix-cache-affinity-filter"):
		policy = "least_ttft"
	case prefix || len(p.scorers) == 0:
	case has("token-load-scorer"):
		policy = "least_tokens"
	case load:
		policy = "least_requests"
	case has("random-picker", "weighted-random-picker"):
		policy = "random"
	default:
		policy = "least_ttft"
	}
	if has("session-affinity-scorer", "session-affinity-filter") || p.seen["session-affinity"] {
		p.d.set("policy.name", "session")
		p.d.set("policy.session.fallback", policy)
	} else {
		p.d.set("policy.name", policy)
	}
	for _, s := range p.scorers {
		p.scorer(s, policy)
	}
	for _, n := range p.order {
		p.rest(n.take("type"), n)
	}
}

// scorer says what becomes of a plugin of a profile.
func (p *llmd) scorer(s scorer, policy string) {
	standard := map[string]string{"queue-scorer": "2", "kv-cache-utilization-scorer": "2", "prefix-cache-scorer": "3"}
	weight := strings.TrimSuffix(s.weight, ".0")
	own := weight != "" && weight != "0"
	switch want, known := standard[s.kind]; {
	case policy == "llmd.default" && known && own && weight != want:
		p.d.miss(s.line, fmt.Sprintf("%s, weight %s", s.kind, s.weight),
			"llmd.default weighs it "+want+", as llm-d does without a configuration")
	case policy == "llmd.default" && known:
	case strings.HasPrefix(s.kind, "session-affinity"), strings.HasSuffix(s.kind, "-picker"),
		strings.HasSuffix(s.kind, "decode-filter"), strings.HasSuffix(s.kind, "prefill-filter"):
	default:
		p.d.miss(s.line, s.kind, policy+" stands in for the weighted scorers")
	}
}

// rest lists plugins without an equivalent that are in no profile, and unread parameters.
func (p *llmd) rest(kind string, n *node) {
	switch kind {
	case "always-disagg-pd-decider":
		p.d.set(splitWhen, "always")
	case "disagg-profile-handler", "pd-profile-handler", "prefill-header-handler", "disagg-headers-handler":
		p.d.miss(n.line, kind,
			"state role: prefill or role: decode at the endpoints; disaggregation.when says which requests are split")
		n.get("parameters").usedWhole()
	case "header-profile-handler", "data-parallel-profile-handler", "burst-prefix-cache-producer",
		"p2p-source-producer", "mm-embeddings-cache-producer", "lora-affinity-scorer", "header-label-affinity-scorer",
		"label-selector-filter", "topology-affinity-filter", "context-length-aware":
		if !slices.ContainsFunc(p.scorers, func(s scorer) bool { return s.kind == kind }) {
			p.d.miss(n.line, kind, "there is nothing like it")
		}
		n.get("parameters").usedWhole()
	default:
		if of := n.get("parameters"); of != nil && !strings.HasPrefix(kind, "session-affinity") &&
			kind != "prefix-based-pd-decider" && kind != "file-discovery" {
			if slices.ContainsFunc(of.items, func(n *node) bool { return !n.touched() }) {
				p.d.miss(of.line, kind+".parameters",
					"what is cached, loads and speeds are learnt: there is nothing to tune")
			}
			of.usedWhole()
		}
	}
}

// llmdFlags are those of the endpoint picker's process.
func llmdFlags(d *draft) []flag {
	return slices.Concat(poolFlags(d), []flag{
		one("config-text", func(line int, text string) {
			root, err := parseTree("--config-text", []byte(text))
			if err != nil {
				d.miss(line, "--config-text", err.Error())
				return
			}
			readLLMD(d, root)
			d.leftovers(root, "")
		}),
	},
		none("give the file itself: warmpath check --from llm-d FILE", "config-file"),
		none("discovery.kubernetes knows InferencePools of inference.networking.k8s.io/v1 and of v1alpha2",
			"pool-group"),
		none("requests come over HTTP", "grpc-port", "grpc-health-port", "secure-serving", "cert-path",
			"health-checking"),
		none("metrics are at /metrics of admin.listen", "metrics-port", "metrics-endpoint-auth"),
		nothing("v", "zap-encoder", "zap-log-level", "zap-devel", "zap-stacktrace-level", "tracing",
			"ha-enable-leader-election", "enable-pprof", "refresh-metrics-interval",
			"refresh-prometheus-metrics-interval", "metrics-staleness-threshold"))
}
