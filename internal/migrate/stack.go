package migrate

import (
	"slices"
	"strings"
)

// stack is what production-stack's router says in several flags that belong together.
type stack struct {
	d *draft

	host, port                            string
	urls, models, labels, prefill, decode []string
	logic, strategy, threshold            string // of routing; of both sides, PR 890; in tokens, PR 890
	connector                             string // PR 890
	discovery, services                   string // whether engines are listed or found, and how
	selector, namespace, podPort          string // of pods
	receiver                              [4]receiver
	lines                                 map[string]int
}

// readStack reads values of the Helm chart, or a dynamic configuration: the same settings as the flags, with
// underscores.
func readStack(d *draft, root *node) {
	if readStackHelm(d, root) {
		return
	}
	s := &stack{d: d, lines: map[string]int{}}
	flags := s.flags()
	for _, n := range root.items {
		name := strings.ReplaceAll(n.key, "_", "-")
		at := slices.IndexFunc(flags, func(f flag) bool { return f.name == name })
		switch {
		case n.key == "static_models" && !n.scalar && !n.list:
			s.staticModels(n)
		case n.key == "static_aliases" && !n.scalar && !n.list:
			for _, a := range n.items {
				d.alias(a.line, "static_aliases", a.key+":"+a.text, ":")
			}
			n.usedWhole()
		case at < 0:
		case flags[at].do == nil:
			d.miss(n.line, n.key, flags[at].why)
			n.usedWhole()
		case flags[at].takes == 0:
			if n.used = true; strings.EqualFold(n.text, "true") {
				flags[at].do(n.line, nil)
			}
		default:
			values := root.texts(n.key)
			n.usedWhole()
			flags[at].do(n.line, []string{strings.Join(values, ",")})
		}
	}
	s.end()
}

// staticModels reads the mapping from a model to its engines.
func (s *stack) staticModels(n *node) {
	n.used = true
	for _, m := range n.items {
		m.used = true
		for _, u := range m.texts("static_backends") {
			if e := s.d.worker(m.line, u, "vllm", roleBoth); e != nil {
				e.models = append(e.models, m.key)
			}
		}
		m.take("static_model_type") // it only chooses the question of their health check
	}
}

// stackFlags are those of production-stack's router.
func stackFlags(d *draft) []flag {
	s := &stack{d: d, lines: map[string]int{}}
	d.ends = append(d.ends, s.end)
	return s.flags()
}

func (s *stack) flags() []flag {
	d := s.d
	list := func(name string, into *[]string) flag {
		return one(name, func(line int, v string) { *into, s.lines[name] = commas(v), line })
	}
	return slices.Concat([]flag{
		one("host", func(_ int, v string) { s.host = v }),
		one("port", func(_ int, v string) { s.port = v }),
		one("service-discovery", func(line int, v string) { s.discovery, s.lines["service-discovery"] = v, line }),
		one("k8s-service-discovery-type", func(_ int, v string) { s.services = v }),
		one("k8s-label-selector", func(_ int, v string) { s.selector = v }),
		one("k8s-namespace", func(_ int, v string) { s.namespace = v }),
		one("k8s-port", func(_ int, v string) { s.podPort = v }),
		list("static-backends", &s.urls),
		list("static-models", &s.models),
		list("static-model-labels", &s.labels),
		list("prefill-model-labels", &s.prefill),
		list("decode-model-labels", &s.decode),
		one("static-aliases", func(line int, v string) {
			for _, pair := range commas(v) {
				d.alias(line, "--static-aliases", pair, ":")
			}
		}),
		one("routing-logic", func(line int, v string) { s.logic, s.lines["routing-logic"] = v, line }),
		one("session-key", func(_ int, v string) { d.set("identity.ids", []string{"header:" + v, "field:" + v}) }),
		one("max-instance-failover-reroute-attempts", func(line int, v string) {
			d.number(line, "--max-instance-failover-reroute-attempts", v, "limits.retries", 0, 100)
		}),
		one("engine-stats-interval", func(line int, v string) {
			d.seconds(line, "--engine-stats-interval", v, "probe.load_interval")
		}),
		one("static-backend-health-check-interval", func(line int, v string) {
			d.miss(line, "--static-backend-health-check-interval "+v,
				"engines are asked for /health every probe.interval (2s), and no request is spent on it")
		}),
		one("log-level", d.logLevel),
		one("log-format", func(_ int, v string) { d.set("log.format", v) }),
		one("otel-service-name", func(_ int, v string) { d.set("tracing.service_name", v) }),
		d.threshold("prefix-min-match-length", "0"),
	}, s.conditional(), stackNone(), nothing("k8s-watcher-timeout-seconds", "backend-health-check-timeout-seconds",
		"static-model-types", "static-backend-health-checks", "static-backend-health-check-timeout-seconds",
		"request-stats-window", "log-stats", "log-stats-interval", "file-storage-class", "file-storage-path",
		"batch-processor", "dynamic-config-yaml-watch"))
}

func stackNone() []flag {
	return slices.Concat(
		none("LMCache's controller is not asked; what engines hold is believed from what they were sent and report",
			"kv-aware-threshold", "lmcache-controller-port", "lmcache-controller-reply-port",
			"lmcache-controller-heartbeat-port", "lmcache-health-check-interval", "lmcache-worker-timeout"),
		none("give that file itself: warmpath check --from production-stack FILE",
			"dynamic-config-yaml", "dynamic-config-json"),
		none("bodies are passed on as they are", "callbacks", "request-rewriter"),
		none("files and batches are not kept", "enable-batch-api"),
		none("answers are not cached", "feature-gates", "semantic-cache-model", "semantic-cache-dir",
			"semantic-cache-threshold"),
		none("errors are in the log and in the metrics", "sentry-dsn", "sentry-traces-sample-rate",
			"sentry-profile-session-sample-rate"),
		none("set otlp.endpoint to http://HOST:PORT, or https:// where it is secure, with otlp.protocol: "+
			"grpc and otlp.signals: [traces]", "otel-endpoint", "otel-secure"),
		none("declare an endpoint of kind other for each of them", "external-providers-config"),
		none("paths are served as they are; strip a prefix in front", "root-path"))
}

// end puts together what several flags said.
func (s *stack) end() {
	d := s.d
	d.listen(s.host, s.port, "0.0.0.0", "8001")
	if len(s.models) > 0 && len(s.models) != len(s.urls) {
		d.miss(s.lines["static-models"], "static-models",
			"not one for each engine; what engines serve is found by probing")
		s.models = nil
	}
	for i, u := range s.urls {
		label := ""
		if i < len(s.labels) {
			label = s.labels[i]
		}
		e := d.worker(s.lines["static-backends"], u, "vllm", s.role(label))
		if e != nil && s.models != nil {
			e.models = append(e.models, s.models[i])
		}
	}
	s.stackPods()
	if s.logic != "" {
		s.policy(s.lines["routing-logic"])
	}
}

// role is that of an engine by its label.
func (s *stack) role(label string) string {
	switch {
	case !strings.HasPrefix(s.logic, "disaggregated_prefill") || label == "":
		return roleBoth
	case slices.Contains(s.prefill, label) && !slices.Contains(s.decode, label):
		return rolePrefill
	case slices.Contains(s.decode, label) && !slices.Contains(s.prefill, label):
		return roleDecode
	}
	return roleBoth
}

// policy finds the policy for a routing logic.
func (s *stack) policy(line int) {
	d, what := s.d, "--routing-logic "+s.logic
	switch s.logic {
	case "roundrobin":
		d.set("policy.name", "round_robin")
	case "session":
		d.set("policy.name", "rendezvous")
		if d.has("identity.ids") == nil {
			d.miss(line, what,
				"it needs --session-key, the name of a header or field; without, the usual ones are looked for")
		}
	case "prefixaware", "loadaware":
		d.set("policy.name", "stack."+s.logic)
	case "kvaware":
		d.set("policy.name", "stack.loadaware")
		d.miss(line, what,
			"LMCache's controller is not asked: stack.loadaware uses the router's estimate of what is cached")
	case "disaggregated_prefill", "disaggregated_prefill_orchestrated":
		d.set("policy.name", "round_robin")
		s.split(line, what)
	default:
		d.miss(line, what, "not known here; least_ttft, the default, is taken")
	}
}

func commas(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// conditional are the flags of PR 890.
func (s *stack) conditional() []flag {
	return slices.Concat([]flag{
		one("routing-threshold", func(line int, v string) { s.threshold, s.lines["routing-threshold"] = v, line }),
		one("load-balancing-strategy", func(line int, v string) {
			s.strategy, s.lines["load-balancing-strategy"] = v, line
		}),
		one("disagg-connector-type", func(line int, v string) {
			s.connector, s.lines["disagg-connector-type"] = v, line
		}),
	}, s.receivers())
}

// receivers are the flags that say where decoders receive, which is asked with one connector only.
func (s *stack) receivers() (flags []flag) {
	for i, name := range [...]string{"decoder-host", "decoder-init-port", "decoder-alloc-port", "decoder-registry"} {
		flags = append(flags, one(name, func(_ int, v string) {
			s.receiver[i] = receiver{"disaggregation." + strings.ReplaceAll(name, "-", "_"), v}
		}))
	}
	return flags
}

// receiver is a setting of where decoders receive, and its value.
type receiver struct{ path, value string }

// split says when requests are split and who chooses the sides.
func (s *stack) split(line int, what string) {
	d := s.d
	d.set("policy.name", "stack.round_robin")
	if s.threshold == "" && s.strategy == "" && s.connector == "" {
		d.set(splitWhen, "always")
	} else {
		s.preset()
	}
	if !slices.ContainsFunc(d.endpoints, func(e *endpoint) bool { return e.role != roleBoth }) &&
		!slices.ContainsFunc(d.pods, func(p pods) bool { return p.role != roleBoth }) {
		d.miss(line, what, "no engine has a role: it follows from --static-model-labels with --prefill-model-labels "+
			"and --decode-model-labels")
	}
}

// preset says all that PR 890 is told by the names that it gives it, so that its own estimate of tokens counts.
func (s *stack) preset() {
	d := s.d
	d.set(splitPreset, "stack.conditional")
	if s.threshold != "" {
		d.number(s.lines["routing-threshold"], "--routing-threshold", s.threshold,
			"disaggregation.routing_threshold", 0, 1<<31)
	}
	switch s.strategy {
	case "":
	case "round_robin", "least_loaded":
		d.set("policy.name", "stack."+s.strategy)
		d.set("disaggregation.load_balancing_strategy", s.strategy)
	default:
		d.miss(s.lines["load-balancing-strategy"], "--load-balancing-strategy "+s.strategy,
			"want round_robin or least_loaded")
	}
	switch s.connector {
	case "":
	case "nixl", "lmcache":
		d.set("disaggregation.disagg_connector_type", s.connector)
	default:
		d.miss(s.lines["disagg-connector-type"], "--disagg-connector-type "+s.connector, "want nixl or lmcache")
	}
	for _, r := range s.receiver {
		if s.connector == "lmcache" && r.path != "" {
			d.set(r.path, r.value)
		}
	}
}
