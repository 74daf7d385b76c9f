package migrate

import (
	"net"
	"slices"
	"strings"
)

// SMG (SGLang's model gateway) and vllm-project/router have one origin and most flags in common.

// gatewayFlags are the flags that both have. kind is that of their engines, "" for any.
func gatewayFlags(d *draft, kind string) []flag {
	var host, port, metricsHost, metricsPort string
	listen := func(defaultHost string) { d.listen(host, port, defaultHost, "30000") }
	defaultHost := "0.0.0.0"
	if kind == "vllm" {
		defaultHost = "127.0.0.1"
	}
	listen(defaultHost)
	number := func(name, path string, lo, hi float64) flag {
		return one(name, func(line int, v string) { d.number(line, "--"+name, v, path, lo, hi) })
	}
	seconds := func(name, path string) flag {
		return one(name, func(line int, v string) { d.seconds(line, "--"+name, v, path) })
	}
	return slices.Concat([]flag{
		one("host", func(_ int, v string) { host = v; listen(defaultHost) }),
		one("port", func(_ int, v string) { port = v; listen(defaultHost) }),
		{name: "worker-urls", takes: many, do: func(line int, urls []string) {
			for _, u := range urls {
				d.worker(line, u, kind, roleBoth)
			}
		}},
		one("prometheus-host", func(line int, v string) { metricsHost = v; d.metrics(line, metricsHost, metricsPort) }),
		one("prometheus-port", func(line int, v string) { metricsPort = v; d.metrics(line, metricsHost, metricsPort) }),
		number("max-payload-size", "limits.body", 1, 1<<40),
		number("retry-max-retries", "limits.retries", 0, 100),
		{name: "disable-retries", do: func(int, []string) { d.set("limits.retries", int64(0)) }},
		number("cb-failure-threshold", "health.eject_after", 1, 1<<30),
		one("cb-timeout-duration-secs", func(line int, v string) {
			d.seconds(line, "--cb-timeout-duration-secs", v, "health.eject_for")
			d.seconds(line, "--cb-timeout-duration-secs", v, "health.eject_max") // it doubles otherwise
		}),
		{
			name: "disable-circuit-breaker", why: "an endpoint whose requests keep failing is always left out for a " +
				"while; health.eject_after may be as large as you like",
		},
		seconds("health-check-interval-secs", "probe.interval"),
		seconds("health-check-timeout-secs", "probe.timeout"),
		number("health-failure-threshold", "probe.failures", 1, 1000),
		seconds("request-timeout-secs", "timeouts.answer"),
		seconds("shutdown-grace-period-secs", "timeouts.drain"),
		one("log-level", d.logLevel),
		{name: "log-json", do: func(int, []string) { d.set("log.format", "json") }},
		one("tls-cert-path", func(_ int, v string) { d.set("tls.cert", v) }),
		one("tls-key-path", func(_ int, v string) { d.set("tls.key", v) }),
		{name: "model-alias", takes: many, do: func(line int, pairs []string) {
			for _, p := range pairs {
				d.alias(line, "--model-alias", p, "=")
			}
		}},
		{name: "cors-allowed-origins", takes: many, do: func(_ int, origins []string) {
			var pages []string
			for _, o := range origins {
				pages = append(pages, strings.ToLower(strings.TrimRight(o, "/")))
			}
			if !slices.Contains(pages, "*") { // engines say it is any, unless pages are named
				d.set("cors.origins", pages)
			}
		}},
	}, gatewayPods(d, kind), gatewayNone(), gatewayNothing())
}

// gatewayNone are common flags without an equivalent.
func gatewayNone() []flag {
	return slices.Concat(
		none("pods are followed for what discovery.kubernetes says, and models are what they report",
			"encode-selector", "prefill-service-discovery", "model-id-from"),
		none("routers of one fleet find each other by peers", "router-selector"),
		none("declare ranks: N at an endpoint to place requests on its data-parallel ranks",
			"dp-aware", "dp-minimum-tokens-scheduler"),
		none("limits.requests, limits.waiting and limits.wait bound all requests, tenants.limits those of a tenant, "+
			"and limits.priority says who goes first; none is set",
			"max-concurrent-requests", "queue-size", "queue-timeout-secs", "rate-limit-tokens-per-second",
			"priority-scheduler-enabled", "priority-scheduler-default-max-class", "priority-scheduler-config",
			"priority-scheduler-tenant-metric-top-n", "tenant-rate-limit-enabled", "tenant-rate-limit-config"),
		none("retries go to other endpoints at once, before the client has seen a byte",
			"retry-initial-backoff-ms", "retry-max-backoff-ms", "retry-backoff-multiplier", "retry-jitter-factor"),
		none("one success ends an ejection, after a single request on trial",
			"cb-success-threshold", "cb-window-duration-secs", "health-success-threshold"),
		none("engines are always asked by what their kind answers", "health-check-endpoint", "disable-health-check",
			"remove-unhealthy-workers"),
		none("client keys: tenants.api_keys with tenants.required; engine keys: api_key_env at an endpoint",
			"api-key", "api-keys", "api-key-validation-urls", "tenant-api-key", "control-plane-api-keys", "jwt-issuer",
			"jwt-audience", "jwt-jwks-uri", "jwt-role-claim", "jwt-role-mapping", "disable-audit-logging"),
		none("X-Request-Id is taken from the client and sent on; ids of conversations are looked for in identity.ids",
			"request-id-headers"),
		none("the log goes to standard error", "log-dir"),
		none("models are what endpoints serve, any number of them", "enable-igw", "enable-igw-model-routing"),
		none(spansGo, "enable-trace", "otlp-traces-endpoint"),
		none("buckets of histograms are fixed", "prometheus-duration-buckets"))
}

// gatewayNothing are flags whose absence changes nothing here.
func gatewayNothing() []flag {
	return nothing("worker-startup-timeout-secs", "worker-startup-delay", "worker-startup-check-interval",
		"load-monitor-interval", "runtime-worker-threads",
		"model-path", "tokenizer-path", "chat-template", "disable-tokenizer-autoload", "tokenizer-cache-enable-l0",
		"tokenizer-cache-l0-max-entries", "tokenizer-cache-enable-l1", "tokenizer-cache-l1-max-memory",
		"eviction-interval", "eviction-interval-secs", "max-tree-size", "drain-settle-secs", "block-size")
}

// worker declares an engine; one reached by gRPC cannot be.
func (d *draft) worker(line int, url, kind, role string) *endpoint {
	if scheme, _, ok := strings.Cut(url, "://"); ok && scheme != "http" && scheme != "https" {
		d.miss(line, url, "engines are spoken to over HTTP; give the address of its HTTP server")
		return nil
	}
	return d.add(line, endpoint{url: url, kind: kind, role: role})
}

// metrics sets the listener of metrics, which is that of the admin API, if it is on loopback: elsewhere it needs a
// token.
func (d *draft) metrics(line int, host, port string) {
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "29000"
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		d.set("admin.listen", joinHostPort(host, port))
		return
	}
	d.unset("admin.listen")
	d.miss(line, "metrics at "+joinHostPort(host, port),
		"they are at /metrics of admin.listen, which beyond loopback needs admin.token_file")
}

// alias enters one name for another, written NAME=MODEL or NAME:MODEL.
func (d *draft) alias(line int, what, pair, between string) {
	name, model, ok := strings.Cut(strings.TrimSpace(pair), between)
	if name, model = strings.TrimSpace(name), strings.TrimSpace(model); !ok || name == "" || model == "" {
		d.miss(line, what+show(pair), "want NAME"+between+"MODEL")
		return
	}
	d.aliases = append(d.aliases, [2]string{name, model})
}

// threshold lists a number of a rule when it is not its default: the rule is built with its defaults here.
func (d *draft) threshold(name string, defaults ...string) flag {
	return one(name, func(line int, v string) {
		if !slices.Contains(defaults, v) {
			d.miss(line, "--"+name+" "+v, "the rule keeps its default, "+defaults[0])
		}
	})
}

// logLevel sets the log's level to the nearest of ours.
func (d *draft) logLevel(line int, text string) {
	switch strings.ToLower(text) {
	case "trace", "debug", "verbose":
		d.set("log.level", "debug")
	case "info":
		d.set("log.level", "info")
	case "warn", "warning":
		d.set("log.level", "warn")
	case "error", "critical", "fatal", "internal_error":
		d.set("log.level", "error")
	default:
		d.miss(line, "log level"+show(text), "log.level takes debug, info, warn or error")
	}
}
