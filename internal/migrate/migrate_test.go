package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

func texts(missing []Missing) []string {
	var out []string
	for _, m := range missing {
		out = append(out, m.String())
	}
	return out
}

// TestFlags: what each command line comes to. Lines of want must all be in the result, in this order; missing names the
// flags that are listed, in order, by how their lines begin.
func TestFlags(t *testing.T) {
	tests := []struct {
		name, router, line string
		want               []string
		missing            []string
	}{
		{"smg, nothing said", "smg", "smg launch --host 0.0.0.0", []string{
			"listen: 0.0.0.0:30000", "name: smg.cache_aware",
		}, nil},
		{"smg, an IPv6 address", "smg", "--host :: --port 80", []string{"\"[::]:80\""}, nil},
		{
			"smg, workers", "smg", "smg --worker-urls http://a:1 b:2 http://a:1/ --policy=round_robin",
			[]string{"- url: http://a:1", "- url: http://b:2", "name: round_robin"},
			[]string{"http://a:1: declared twice"},
		},
		{"smg, gRPC", "smg", "--worker-urls grpc://a:1", nil, []string{"grpc://a:1: engines are spoken to over HTTP"}},
		{
			"smg, by key", "smg", "--policy consistent_hashing",
			[]string{"name: rendezvous", "- header:X-SMG-Routing-Key"},
			[]string{"--policy consistent_hashing: rendezvous hashing stands in"},
		},
		{"smg, sticky", "smg", "--assignment-mode min_load --policy manual", []string{
			"name: session", "fallback: least_requests", "idle_ttl: 4h0m0s",
		}, nil},
		{"smg, sticky by chance", "smg", "--policy manual --max-idle-secs 60", []string{
			"fallback: random", "idle_ttl: 1m0s",
		}, nil},
		{
			"smg, thresholds", "smg", "--cache-threshold 0.3 --balance-rel-threshold 1.5 --balance-abs-threshold 8",
			nil,
			[]string{"--balance-abs-threshold 8: the rule keeps its default, 64"},
		},
		{"smg, tenants", "smg", "--tenant-header-name X-Org --trust-tenant-header", []string{"header: X-Org"}, nil},
		{"smg, not trusted", "smg", "--tenant-header-name X-Org", nil, nil},
		{"smg, breaker", "smg", "--cb-failure-threshold 7 --cb-timeout-duration-secs 45", []string{
			"eject_after: 7", "eject_for: 45s", "eject_max: 45s",
		}, nil},
		{
			"smg, health", "smg",
			"--health-check-interval-secs 5 --health-check-timeout-secs 1.5 --health-failure-threshold 4",
			[]string{"interval: 5s", "timeout: 1.5s", "failures: 4"},
			nil,
		},
		{
			"smg, both legs", "smg", "--pd-disaggregation --prefill http://p:1 8998 --prefill http://q:1 none " +
				"--decode http://d:1 --decode-policy power_of_two",
			[]string{"role: prefill", "role: prefill", "role: decode", "when: always", "decode_policy: power_of_two"},
			nil,
		},
		{
			"smg, one leg only", "smg", "--pd-disaggregation --prefill http://p:1 9000",
			[]string{"url: http://p:1"},
			[]string{"roles: no endpoint prefills"},
		},
		{"smg, bootstrap port", "smg", "--pd-disaggregation --prefill http://p:1 9000 --decode http://d:1", []string{
			"role: prefill", "bootstrap_port: 9000", "role: decode",
		}, nil},
		{
			"smg, no bootstrap port", "smg", "--pd-disaggregation --prefill http://p:1 90000 --decode http://d:1",
			[]string{"role: prefill"},
			[]string{"--prefill http://p:1 90000: want a port"},
		},
		{"smg, kinds", "smg", "--backend sglang --worker-urls http://a:1", []string{"kind: sglang"}, nil},
		{
			"smg, aliases", "smg", "--model-alias a=m a=k b=m c",
			[]string{"a:", "- m", "- k", "b:", "- m"},
			[]string{`--model-alias ("c"): want NAME=MODEL`},
		},
		{"smg, metrics on loopback", "smg", "--prometheus-port 29001 --prometheus-host localhost", []string{
			"listen: localhost:29001",
		}, nil},
		{
			"smg, metrics for all", "smg", "--prometheus-host 0.0.0.0", nil,
			[]string{"metrics at 0.0.0.0:29000: they are at /metrics of admin.listen"},
		},
		{
			"secrets are not shown", "smg", "--api-key sk-secret --redis-url redis://u:p@h", nil,
			[]string{"--api-key (hidden)", "--redis-url"},
		},
		{
			"unknown, with values", "smg", "--frobnicate 1 2 --polcy x", nil,
			[]string{"--frobnicate 1 2: not known here", `--polcy x: not known here; did you mean "policy"?`},
		},
		{
			"a value that belongs to nothing", "smg", "--log-json yes --host",
			[]string{"format: json"},
			[]string{"yes: it belongs to no flag", "--host: it needs a value"},
		},
		{
			"numbers out of bounds", "smg",
			"--retry-max-retries 1000 --max-payload-size lots --cb-timeout-duration-secs -1", nil,
			[]string{
				"--retry-max-retries (\"1000\"): limits.retries takes 0 to 100",
				"--max-payload-size (\"lots\"): not a number", "--cb-timeout", "--cb-timeout",
			},
		},

		{"vllm-router, nothing said", "vllm-router", "vllm-router --port 8000", []string{
			"listen: 127.0.0.1:8000", "name: smg.cache_aware",
		}, nil},
		{
			"vllm-router, ranks", "vllm-router",
			"--worker-urls http://a:1 --intra-node-data-parallel-size 8 --policy consistent_hash",
			[]string{"kind: vllm", "ranks: 8", "name: vllmrouter.consistent_hash"},
			nil,
		},
		{
			"vllm-router, ranks out of bounds", "vllm-router", "--intra-node-data-parallel-size 0", nil,
			[]string{"--intra-node-data-parallel-size 0: ranks takes 1 to 1024"},
		},
		{
			"vllm-router, split", "vllm-router",
			"--vllm-pd-disaggregation --prefill http://p:1 --decode http://d:1 --kv-connector nixl",
			[]string{"when: always", "connector: nixl"},
			nil,
		},
		{
			"vllm-router, another connector", "vllm-router", "--kv-connector pigeon", nil,
			[]string{"connector pigeon: known: "},
		},
		{"vllm-router, policies", "vllm-router", "--policy sticky_least_loaded", []string{
			"name: vllmrouter.sticky_least_loaded",
		}, nil},
		{
			"vllm-router, a policy that is not known", "vllm-router", "--policy smetric",
			[]string{"name: least_ttft"},
			[]string{"--policy smetric: not known here"},
		},

		{
			"trtllm, a command line", "trtllm", "trtllm-serve disaggregated -c disagg.yaml -r 600 -l debug",
			[]string{"answer: 10m0s", "level: debug"},
			[]string{"--config-file disagg.yaml: give the file itself"},
		},

		{
			"production-stack", "production-stack", "vllm-router --service-discovery static --static-backends " +
				"http://a:1,http://b:1 --static-models m,k --routing-logic session --session-key x-user",
			[]string{"listen: 0.0.0.0:8001", "- m", "- k", "name: rendezvous", "- header:x-user", "- field:x-user"},
			nil,
		},
		{
			"production-stack, models of some", "production-stack",
			"--static-backends http://a:1,http://b:1 --static-models m",
			[]string{"url: http://a:1"},
			[]string{"static-models: not one for each engine"},
		},
		{
			"production-stack, Kubernetes", "production-stack", "--service-discovery k8s --k8s-port 8000", nil,
			[]string{"--service-discovery k8s: no --k8s-label-selector says which pods"},
		},
		{"production-stack, pods", "production-stack", "--service-discovery k8s --k8s-label-selector " +
			"environment=test --k8s-namespace ns --routing-logic roundrobin", []string{
			"kubernetes:", "selector: environment=test", "namespace: ns", `port: "8000"`, "kind: vllm",
			"name: round_robin",
		}, nil},
		{
			"production-stack, pods with roles", "production-stack",
			"--service-discovery k8s --k8s-label-selector app=x --prefill-model-labels p --decode-model-labels e,d " +
				"--routing-logic disaggregated_prefill --routing-threshold 9",
			[]string{
				"selector: app=x,model in (p)", "namespace: default", "role: prefill", "selector: app=x,model in (d,e)",
				"role: decode", "routing_threshold: 9",
			},
			nil,
		},
		{
			"production-stack, Services", "production-stack",
			"--service-discovery k8s --k8s-service-discovery-type service-name --k8s-label-selector a=b", nil,
			[]string{"--k8s-service-discovery-type service-name: name each Service"},
		},
		{
			"production-stack, external", "production-stack", "--service-discovery external-only", nil,
			[]string{"--service-discovery external-only: declare an endpoint"},
		},
		{
			"smg, pods", "smg", "--service-discovery --selector app=x tier=gpu --service-discovery-port 8000 " +
				"--service-discovery-namespace ns",
			[]string{"selector: app=x,tier=gpu", "namespace: ns", `port: "8000"`},
			nil,
		},
		{
			"smg, pods of all namespaces", "smg", "--service-discovery --selector app=x",
			[]string{"selector: app=x", `port: "80"`},
			[]string{"--service-discovery: pods of all namespaces"},
		},
		{
			"smg, pods with roles", "smg", "--pd-disaggregation --service-discovery --service-discovery-namespace ns " +
				"--prefill-selector app=p --decode-selector app=d",
			[]string{"selector: app=p", "role: prefill", "selector: app=d", "role: decode", "when: always"},
			nil,
		},
		{
			"vllm-router, no selector", "vllm-router", "--service-discovery", nil,
			[]string{"--service-discovery: no --selector says which pods"},
		},
		{
			"llm-d, a pool", "llm-d",
			"--pool-name llama --pool-namespace ns --config-text 'kind: EndpointPickerConfig'",
			[]string{"pool: llama", "namespace: ns", "name: llmd.default"},
			nil,
		},
		{
			"llm-d, a selector", "llm-d",
			"--endpoint-selector app=x --endpoint-target-ports 8000 --config-text 'kind: EndpointPickerConfig'",
			[]string{"selector: app=x", `port: "8000"`},
			nil,
		},
		{
			"llm-d, several ports", "llm-d", "--endpoint-selector app=x --endpoint-target-ports 8000,8001",
			[]string{"selector: app=x"},
			[]string{"--endpoint-target-ports 8000,8001: state an entry"},
		},
		{
			"llm-d, no endpoints", "llm-d", "--config-text 'kind: EndpointPickerConfig'", nil,
			[]string{"endpoints: they are those of the InferencePool"},
		},
		{
			"production-stack, PR 890", "production-stack",
			"--static-backends http://a:1,http://b:1 --static-model-labels p,d --prefill-model-labels p " +
				"--decode-model-labels d --routing-logic disaggregated_prefill_orchestrated --routing-threshold 4096 " +
				"--load-balancing-strategy least_loaded --disagg-connector-type nixl",
			[]string{
				"role: prefill", "role: decode", "name: stack.least_loaded", "preset: stack.conditional",
				"routing_threshold: 4096", "load_balancing_strategy: least_loaded", "disagg_connector_type: nixl",
			},
			nil,
		},
		{
			"production-stack, PR 890 with LMCache", "production-stack",
			"--static-backends http://a:1,http://b:1 --static-model-labels p,d --prefill-model-labels p " +
				"--decode-model-labels d --routing-logic disaggregated_prefill --disagg-connector-type lmcache " +
				"--decoder-host d --decoder-init-port 8300 --decoder-alloc-port 8400",
			[]string{
				"disagg_connector_type: lmcache", "decoder_host: d", `decoder_init_port: "8300"`,
				`decoder_alloc_port: "8400"`,
			},
			nil,
		},
		{
			"production-stack, 0 splits all", "production-stack",
			"--static-backends http://a:1,http://b:1 --static-model-labels p,d --prefill-model-labels p " +
				"--decode-model-labels d --routing-logic disaggregated_prefill --routing-threshold 0",
			[]string{"name: stack.round_robin", "preset: stack.conditional", "routing_threshold: 0"},
			nil,
		},
		{
			"production-stack, no flag of PR 890", "production-stack",
			"--static-backends http://a:1,http://b:1 --static-model-labels p,d --prefill-model-labels p " +
				"--decode-model-labels d --routing-logic disaggregated_prefill",
			[]string{"name: stack.round_robin", "when: always"},
			nil,
		},
		{
			"production-stack, PR 890 with values it does not know", "production-stack", "--static-backends " +
				"http://a:1,http://b:1 --static-model-labels p,d --prefill-model-labels p --decode-model-labels d " +
				"--routing-logic disaggregated_prefill --disagg-connector-type carrier --load-balancing-strategy best",
			[]string{"preset: stack.conditional"},
			[]string{
				"--load-balancing-strategy best: want round_robin or least_loaded",
				"--disagg-connector-type carrier: want nixl or lmcache",
			},
		},
		{
			"production-stack, nobody has a role", "production-stack",
			"--static-backends http://a:1 --routing-logic disaggregated_prefill", nil,
			[]string{"--routing-logic disaggregated_prefill: no engine has a role"},
		},
		{"production-stack, aliases", "production-stack", "--static-aliases gpt-4:m,o1:k", []string{
			"gpt-4:", "- m", "o1:", "- k",
		}, nil},
		{
			"production-stack, LMCache", "production-stack", "--routing-logic kvaware --kv-aware-threshold 10",
			[]string{"name: stack.loadaware"},
			[]string{"--kv-aware-threshold 10", "--routing-logic kvaware"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Flags(tt.router, []string{tt.line + " "})
			if err != nil {
				t.Fatal(err)
			}
			rest := string(got.YAML)
			for _, line := range tt.want {
				_, after, ok := strings.Cut(rest, line)
				if !ok {
					t.Fatalf("%q is not in what is left: %s\nof\n%s", line, rest, got.YAML)
				}
				rest = after
			}
			if len(got.Missing) != len(tt.missing) {
				t.Fatalf("listed %q, want %q", texts(got.Missing), tt.missing)
			}
			for i, begin := range tt.missing {
				if !strings.HasPrefix(got.Missing[i].String(), begin) {
					t.Errorf("listed %q, want %q", got.Missing[i], begin)
				}
			}
			if strings.Contains(strings.Join(texts(got.Missing), " "), "sk-secret") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][]word{
		"a b":                     {{"a", 1}, {"b", 1}},
		"a \\\n  b # c d\ne":      {{"a", 1}, {"b", 2}, {"e", 3}},
		`'a b' "c \"d\" \e" f\ g`: {{"a b", 1}, {`c "d" \e`, 1}, {"f g", 1}},
		`'' ""x`:                  {{"", 1}, {"x", 1}},
		"a#b #c":                  {{"a#b", 1}},
		"--x='a\nb' c":            {{"--x=a\nb", 1}, {"c", 2}},
		"\"a\\\nb\"":              {{"ab", 1}},
		`--u "$HOST" '$X' ü`:      {{"--u", 1}, {"$HOST", 1}, {"$X", 1}, {"ü", 1}},
		"\t\r\n":                  nil,
		`a'b'"c"d`:                {{"abcd", 1}},
	} {
		got, err := split("f", text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a\n'b": "f:2: the quote ' is not closed", "a\nb\\": "f:2: it ends in a backslash",
	} {
		if _, err := split("f", text); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMalformedFiles(t *testing.T) {
	for _, tt := range []struct{ router, text, want string }{
		{"trtllm", "a: [1\nb: 2\n", "f:2: "},
		{"trtllm", "- a\n", "f:1: a mapping of settings is wanted"},
		{"trtllm", "a: 1\n---\nb: 2\n", "f:3: a second document"},
		{
			"production-stack", "apiVersion: v1\n---\nkind: b\n",
			"f:3: a second document; one file holds one; of manifests give the command line",
		},
		{"llm-d", "a: *b\n", "f:1: the alias *b stands for nothing"},
		{"llm-d", "a: &a [*a]\n", "f:1: "},
		{"smg", "smg launch --x \\\n 'y\n", "f:2: the quote ' is not closed"},
		{"trtllm", strings.Repeat("{a: ", 80) + "1" + strings.Repeat("}", 80), "f:1: it is nested too deeply"},
	} {
		_, err := File(tt.router, "f", []byte(tt.text))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
	if _, err := File("trtllm", "f", make([]byte, MaxBytes+1)); err == nil ||
		!strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("too large: %v", err)
	}
	if _, err := File("nginx", "f", nil); !errors.Is(err, ErrUnknown) ||
		!strings.Contains(err.Error(), "docs/migrating-proxies.md has its settings beside ours; known: trtllm, smg, "+
			"vllm-router, production-stack, llm-d") {
		t.Errorf("nginx: %v", err)
	}
}

// TestEmptyFiles: a file that says so comes to what the router does when nothing is set. One without a word is a
// mistake, as of a command that failed and whose output it was to be.
func TestEmptyFiles(t *testing.T) {
	for router, want := range map[string]string{
		"trtllm": "listen: localhost:8000", "production-stack": "listen: 0.0.0.0:8001", "llm-d": "name: llmd.default",
	} {
		for _, text := range []string{"{}\n", "# nothing\n---\n{}\n"} {
			got, err := File(router, "f", []byte(text))
			if err != nil || !strings.Contains(string(got.YAML), want) {
				t.Errorf("%s %q: %s, %v", router, text, got.YAML, err)
			}
		}
	}
	for _, router := range Names() {
		for _, text := range []string{"", "# nothing\n", "\n---\n"} {
			if got, err := File(router, "f", []byte(text)); err == nil {
				t.Errorf("%s %q: %s, want an error", router, text, got.YAML)
			}
		}
	}
}

// FuzzFile: whatever a file holds, it is refused with its place, or comes to YAML that can be read again.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"hostname: h\ncontext_servers: {urls: [a:1], router: {type: conversation, match_threshold: 0.8}}\n" +
			"generation_servers: {urls: [b:1]}\n",
		"smg launch --worker-urls http://a:1 'b c' --policy manual\n", "plugins:\n- {type: queue-scorer, name: q}\n" +
			"schedulingProfiles: [{name: d, plugins: [{pluginRef: q, weight: 2}]}]\n",
		"static_models: {m: {static_backends: [http://a:1]}}\nrouting_logic: session\n", "a: &x {b: *x}\n",
		"context_servers: 5\ngeneration_servers: [1]\nrouter: x\n", "plugins: {a: b}\nschedulingProfiles: 3\n",
		"context_servers: {router: [a]}\n", "smg launch --worker-urls http://a:1 'b \r\r\rc'", "--x --y=\"\\",
		"? [a]\n: b\n", "!!str a: !!int b\n", "static_models: [a]\nstatic_aliases: b\n",
	} {
		for i := range Names() {
			f.Add(uint8(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, router uint8, data []byte) {
		name := Names()[int(router)%len(Names())]
		got, err := File(name, "f", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("%s: the fault %v has no place", name, err)
			}
			return
		}
		if !utf8.Valid(data) {
			return
		}
		var again map[string]any
		if err := yaml.Unmarshal(got.YAML, &again); err != nil {
			t.Fatalf("%s: the result cannot be read: %v\n%s", name, err, got.YAML)
		}
	})
}

// TestControlCharacters: values with any of them are read again as they are.
func TestControlCharacters(t *testing.T) {
	for _, value := range []string{
		"plain", "1", "", "a: b", "a\rb", "a\nb", " a\nb", "a\tb", "a \r\r c", "a\r\nb", "\r", "a\n\rb",
		"a\x01b", "é\u0085x",
	} {
		d := &draft{}
		d.set("a.b", value)
		got, err := d.result()
		if err != nil {
			t.Fatal(err)
		}
		var again struct{ A struct{ B string } }
		if err := yaml.Unmarshal(got.YAML, &again); err != nil || again.A.B != value {
			t.Errorf("%q is written as %q, which is read as %q: %v", value, got.YAML, again.A.B, err)
		}
	}
}

// TestPlugins: what an EndpointPickerConfig's plugins come to.
func TestPlugins(t *testing.T) {
	profile := func(plugins ...string) string {
		text := "kind: EndpointPickerConfig\nplugins:\n"
		for _, p := range plugins {
			text += "- " + p + "\n"
		}
		text += "schedulingProfiles:\n- name: default\n  plugins:\n"
		for _, p := range plugins {
			kind, _, _ := strings.Cut(strings.TrimPrefix(p, "{type: "), ",")
			text += "  - pluginRef: " + strings.TrimSuffix(kind, "}") + "\n"
		}
		return text
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", profile(), "name: llmd.default"},
		{
			"the usual", profile("{type: queue-scorer}", "{type: kv-cache-utilization-scorer}",
				"{type: prefix-cache-scorer}"), "name: llmd.default",
		},
		{"load", profile("{type: queue-scorer}", "{type: max-score-picker}"), "name: least_requests"},
		{"tokens", profile("{type: token-load-scorer}"), "name: least_tokens"},
		{"chance", profile("{type: random-picker}"), "name: random"},
		{"latency", profile("{type: latency-scorer}", "{type: prefix-cache-scorer}"), "name: least_ttft"},
		{
			"the newest", profile("{type: prefix-cache-affinity-filter}", "{type: token-load-scorer}"),
			"name: least_ttft",
		},
		{
			"sessions", profile("{type: session-affinity-filter, parameters: {strategy: session_id}}",
				"{type: queue-scorer}"), "fallback: least_requests",
		},
		{
			"tokens of endpoints",
			profile("{type: session-affinity-scorer, parameters: {encodedEndpointHeaderConfig: {header: x-sticky}}}"),
			"header: x-sticky",
		},
		{
			"payload processor",
			profile("{type: session-affinity, parameters: {sessionIdKey: x-me, maxSessions: 7, ttlSeconds: 60}}"),
			"max: 7",
		},
		{"never split", profile("{type: prefix-based-pd-decider, parameters: {nonCachedTokens: 0}}"), "when: never"},
		{"always split", profile("{type: always-disagg-pd-decider}"), "when: always"},
	} {
		got, err := File("llm-d", "f", []byte(tt.text))
		if err != nil || !strings.Contains(string(got.YAML), tt.want) {
			t.Errorf("%s: %s, %v; want %s", tt.name, got.YAML, err, tt.want)
		}
		if !slices.ContainsFunc(got.Missing, func(m Missing) bool { return m.Setting == "endpoints" }) {
			t.Errorf("%s: it is not said that there are no endpoints: %q", tt.name, got.Missing)
		}
	}
	line := `{"kind":"EndpointPickerConfig","plugins":[{"type":"topology-affinity-filter"},` +
		`{"type":"label-selector-filter"},{"type":"context-length-aware"},{"type":"disagg-profile-handler"}]}`
	want := []string{
		"topology-affinity-filter", "label-selector-filter", "context-length-aware", "disagg-profile-handler",
	}
	got, err := File("llm-d", "f", []byte(line))
	var said []string
	for _, m := range got.Missing {
		if m.Setting != "endpoints" {
			said = append(said, m.Setting)
		}
	}
	if err != nil || !slices.Equal(said, want) {
		t.Errorf("plugins of one line: %v, %v; want %v", said, err, want)
	}
	inline, err := Flags("llm-d", []string{
		"epp", "--config-text", profile("{type: random-picker}"), "--pool-name", "p", "-v", "2",
	})
	if err != nil || !strings.Contains(string(inline.YAML), "name: random") {
		t.Errorf("inline: %s, %v", inline.YAML, err)
	}
}

// TestPluginsEvents: where llm-d has engines dial in for their KV events, the router listens.
func TestPluginsEvents(t *testing.T) {
	for _, tt := range []struct{ name, parameters, want, missing string }{
		{"bound", `{kvEventsConfig: {zmqEndpoint: "tcp://*:5557", topicFilter: kv@, concurrency: 4, engineType: vllm, discoverPods: false}}`, "kv_events:\n  listen: tcp://*:5557\n", "who may dial in"},
		{"with an indexer", `{indexerConfig: {tokenProcessorConfig: {blockSize: 64}}, kvEventsConfig: {zmqEndpoint: "tcp://0.0.0.0:6000"}}`, "listen: tcp://0.0.0.0:6000", ".parameters"},
		{"no port", `{kvEventsConfig: {zmqEndpoint: "ipc:///tmp/kv"}}`, "", "zmqEndpoint"},
		{
			"another topic", `{kvEventsConfig: {zmqEndpoint: "tcp://*:5557", topicFilter: mine}}`,
			"listen: tcp://*:5557", "topicFilter",
		},
		{
			"dialled",
			`{kvEventsConfig: {discoverPods: true, podDiscoveryConfig: {socketPort: 5600, replaySocketPort: 5601}}}`,
			"", "podDiscoveryConfig",
		},
		{"off", `{kvEventsConfig: {discoverPods: false, podDiscoveryConfig: {socketPort: 5600}}}`, "", ""},
	} {
		for _, kind := range []string{"precise-prefix-cache-scorer", "precise-prefix-cache-producer"} {
			text := "kind: EndpointPickerConfig\nplugins:\n- {type: " + kind + ", parameters: " + tt.parameters + "}\n"
			got, err := File("llm-d", "f", []byte(text))
			if err != nil || !strings.Contains(string(got.YAML), tt.want) ||
				tt.want == "" && strings.Contains(string(got.YAML), "kv_events") {
				t.Errorf("%s: %s, %v; want %s", tt.name, got.YAML, err, tt.want)
			}
			said := slices.IndexFunc(got.Missing, func(m Missing) bool {
				return tt.missing != "" && strings.Contains(m.Setting, tt.missing)
			})
			if said < 0 && tt.missing != "" || tt.missing == "" && len(got.Missing) != 1 {
				t.Errorf("%s: it is said that there is nothing like %q", tt.name, got.Missing)
			}
		}
	}
}

// TestInheritance: keys at the top of TensorRT-LLM's YAML hold for both sections, and those of a section over the
// router's.
func TestInheritance(t *testing.T) {
	text := `
router: {type: KV_cache_aware, max_batch_size: 8, tokens_per_block: 16}
kv_cache_config: {tokens_per_block: 64, free_gpu_memory_fraction: 0.9}
max_batch_size: 24
context_servers: {num_instances: 1, urls: [a:1], kv_cache_config: {tokens_per_block: 32}}
generation_servers: {num_instances: 2, urls: [b:1, a:1]}
`
	got, err := File("trtllm", "f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = `listen: localhost:8000
endpoints:
  - url: http://a:1
    kind: trtllm
  - url: http://b:1
    kind: trtllm
    role: decode
policy:
  name: trtllm.kv_cache_aware
  trtllm:
    kv_cache_aware:
      max_batch_size: 24
      tokens_per_block: 16
disaggregation:
  when: always
trtllm:
  paths: true
`
	if string(got.YAML) != want {
		t.Errorf("got\n%s\nwant\n%s", got.YAML, want)
	}
	if len(got.Missing) != 0 {
		t.Errorf("listed %q", texts(got.Missing))
	}
	without, err := File("trtllm", "f", []byte(
		"kv_cache_config: {tokens_per_block: 64}\nrouter: {type: kv_cache_aware}\ngeneration_servers: {urls: [b:1]}\n"))
	if err != nil || !strings.Contains(string(without.YAML), "tokens_per_block: 64") ||
		strings.Contains(string(without.YAML), "disaggregation") {
		t.Errorf("%s, %v", without.YAML, err)
	}
	odd, err := File("trtllm", "f", []byte("context_servers:\n  urls: [b:1]\n  router: {type: magic}\n"))
	if err != nil || len(odd.Missing) != 2 ||
		!strings.HasPrefix(odd.Missing[1].String(), `f:3: context_servers.router.type ("magic"): no such router`) {
		t.Errorf("%q, %v", odd.Missing, err)
	}
}

// TestMissingForTerminals: what stands in a file that is something else entirely is shown, and moves no cursor.
func TestMissingForTerminals(t *testing.T) {
	for _, c := range []struct {
		is   Missing
		want string
	}{
		{Missing{Place: "f:2", Setting: "--größe 3", Why: "not known here"}, "f:2: --größe 3: not known here"},
		{Missing{Setting: "\x1b[2Jx\xff", Why: "not known here"}, `"\x1b[2Jx\xff": not known here`},
	} {
		if got := c.is.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
