package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

func TestDefaultIsValid(t *testing.T) {
	if err := config.Default().Validate(); err != nil {
		t.Error(err)
	}
	c, err := config.Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c); diff != "" {
		t.Errorf("nothing set, but: %s", diff)
	}
}

const full = `
listen: 0.0.0.0:80
admin: {listen: 0.0.0.0:9190, token: hush}
endpoints:
- http://a:1,weight=2
- url: http://b:1
  kind: vllm
  weight: 0
  ranks: 4
  models: [m]
  api_key: secret
discovery:
  file: /etc/e.yaml
  dns:
  - {name: engines, port: 8000, interval: 30s}
policy: round_robin
sessions: {max: 10, idle_ttl: 5m, hash_only: true}
models:
  aliases: {fast: [x, y], "*": m}
pinning: true
limits: {body: 1MiB, header: 8192, retries: 0}
timeouts: {connect: 1s, first_byte: 1m}
probe: {interval: 3s}
log: {level: debug, format: json, requests: true}
otlp: {endpoint: "https://otel:4317", protocol: grpc, signals: [metrics, logs], headers: {Authorization: Bearer hush}, interval: 10s}
tracing: {endpoint: "http://otel:4318", sample_ratio: 0.1}
`

func TestParseFull(t *testing.T) {
	got, err := config.Parse("warmpath.yaml", []byte(full), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	zero, two := 0.0, 2.0
	want.Listen = "0.0.0.0:80"
	want.Admin = config.Admin{Listen: "0.0.0.0:9190", Token: "hush"}
	want.Endpoints = []discovery.EndpointConfig{
		{URL: "http://a:1", Weight: &two},
		{URL: "http://b:1", Kind: "vllm", Weight: &zero, Ranks: 4, Models: []string{"m"}, APIKey: "secret"},
	}
	want.Discovery = config.Discovery{
		File: "/etc/e.yaml", DNS: []discovery.DNSConfig{{Name: "engines", Port: 8000, Interval: 30 * time.Second}},
	}
	want.Policy.Name = "round_robin"
	want.Sessions.Max, want.Sessions.IdleTTL, want.Sessions.HashOnly = 10, 5*time.Minute, true
	want.Models.Aliases = map[string]config.AliasModels{"fast": {{Model: "x"}, {Model: "y"}}, "*": {{Model: "m"}}}
	want.Pinning = true
	want.Limits = config.Limits{
		Body: 1 << 20, Header: 8192, RetryShare: 0.2, RetryFloor: 100, Waiting: 10_000, Priority: "normal",
	}
	want.Timeouts.Connect, want.Timeouts.FirstByte = time.Second, time.Minute
	want.Probe.Interval = 3 * time.Second
	want.Log = config.Log{Level: "debug", Format: "json", Requests: true}
	want.OTLP = config.OTLP{
		Endpoint: "https://otel:4317", Protocol: "grpc", Signals: []string{"metrics", "logs"},
		Headers: map[string]string{"Authorization": "Bearer hush"}, Interval: 10 * time.Second,
	}
	want.Tracing.Endpoint, want.Tracing.SampleRatio = "http://otel:4318", 0.1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a := got.AliasList(); len(a) != 2 || a[0].Name != "*" || !slices.Equal(a[1].Models, []string{"x", "y"}) {
		t.Errorf("aliases %v", a)
	}
}

func TestPolicyForms(t *testing.T) {
	for text, want := range map[string]string{
		"policy: rendezvous": "rendezvous", "policy: {name: rendezvous}": "rendezvous",
		"policy: {name: consistent_hash, consistent_hash: {load_factor: 2}}": "consistent_hash",
		"policy: {session: {fallback: random}}":                              "least_ttft",
	} {
		c, err := config.Parse("f", []byte(text), nil)
		if err != nil || c.Policy.Name != want {
			t.Errorf("%s: %q, %v", text, c.Policy.Name, err)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := []byte("listen: f:1\nlog: {level: debug, format: json}\nendpoints: [a:1]\ntimeouts: {connect: 1s}\n")
	env := []string{
		"WARMPATH_LISTEN=e:1", "WARMPATH_LOG_LEVEL=warn", "WARMPATH_ENDPOINTS=b:1,weight=2,c:1",
		"WARMPATH_TIMEOUTS_CONNECT=", "HOME=/",
	}
	flags := []config.Override{
		{Path: []string{"listen"}, Text: "o:1", From: "--listen"},
		{Path: []string{"models", "aliases", "a.b"}, Text: "x,y", From: "--model-alias"},
	}
	c, err := config.Parse("f", file, env, flags...)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "o:1" || c.Log.Level != "warn" || c.Log.Format != "json" || c.Timeouts.Connect != time.Second ||
		c.Limits.Retries != 2 {
		t.Errorf("got %+v", c)
	}
	if len(c.Endpoints) != 2 || c.Endpoints[0].URL != "b:1" || *c.Endpoints[0].Weight != 2 ||
		c.Endpoints[1].URL != "c:1" {
		t.Errorf("endpoints %+v", c.Endpoints)
	}
	if diff := cmp.Diff(map[string]config.AliasModels{"a.b": {{Model: "x"}, {Model: "y"}}},
		c.Models.Aliases); diff != "" {
		t.Error(diff)
	}
}

// Every variable sets exactly the value it is named after.
func TestEveryVariable(t *testing.T) {
	special := map[string]string{
		"WARMPATH_POLICY": "random", "WARMPATH_POLICY_SESSION_FALLBACK": "random", "WARMPATH_LOG_LEVEL": "debug",
		"WARMPATH_LOG_FORMAT": "json", "WARMPATH_HEALTH_EJECT_SHARE": "0.3", "WARMPATH_HEALTH_PANIC_SHARE": "0.3",
		"WARMPATH_TRANSPORT": "net/http",
		"WARMPATH_LISTEN":    "h:1", "WARMPATH_HOSTS": "a.b,*.c", "WARMPATH_TRUSTED_PROXIES": "10.0.0.0/8,unix",
		"WARMPATH_PATHS": "/sleep,/api/*", "WARMPATH_ADMIN_LISTEN": "localhost:1",
		"WARMPATH_TRACING_ENDPOINT": "http://x", "WARMPATH_TRACING_SAMPLE_RATIO": "0.5",
		"WARMPATH_ENDPOINTS": "a:1", "WARMPATH_ASK_USAGE": "false", "WARMPATH_DROP_ATTRIBUTION": "false",
		"WARMPATH_RELOAD_WATCH": "false", "WARMPATH_BY_CONTENT": "false", "WARMPATH_HEALTH_EJECT_MAX": "1h",
		"WARMPATH_TLS_CERT": "", "WARMPATH_TRTLLM_CLUSTER_URI": "http://h:1", "WARMPATH_TRTLLM_CLUSTER_LISTEN": "h:1",
		"WARMPATH_TRTLLM_CLUSTER_ALLOW": "10.0.0.0/8,192.0.2.1", "WARMPATH_TLS_KEY": "", "WARMPATH_TLS_CLIENT_CA": "",
		"WARMPATH_ADMIN_TLS_CERT": "", "WARMPATH_ADMIN_TLS_KEY": "", "WARMPATH_ADMIN_TLS_CLIENT_CA": "",
		"WARMPATH_ENGINE_TLS_CERT": "", "WARMPATH_ENGINE_TLS_KEY": "", "WARMPATH_LIMITS_HEADER": "9KiB",
		"WARMPATH_LIMITS_MEMORY": "9GiB", "WARMPATH_KV_EVENTS_DISCOVER": "false", "WARMPATH_KV_EVENTS_POLL": "100ms",
		"WARMPATH_KV_EVENTS_BLOCKS": "4096", "WARMPATH_METRICS_COMPATIBLE": "trtllm,vllm-router",
		"WARMPATH_KV_EVENTS_LISTEN": "tcp://*:5557", "WARMPATH_DISAGGREGATION_WHEN": "never",
		"WARMPATH_DISAGGREGATION_THRESHOLD": "", "WARMPATH_DISAGGREGATION_PREFILL_POLICY": "random",
		"WARMPATH_DISAGGREGATION_DECODE_POLICY": "random", "WARMPATH_DISAGGREGATION_CONNECTOR": "nixl",
		"WARMPATH_DISAGGREGATION_FALLBACK": "false", "WARMPATH_DISAGGREGATION_PRESET": "stack.conditional",
		"WARMPATH_DISAGGREGATION_LOAD_BALANCING_STRATEGY": "least_loaded",
		"WARMPATH_DISAGGREGATION_DISAGG_CONNECTOR_TYPE":   "nixl", "WARMPATH_DISAGGREGATION_DECODER_RANKS": "1",
		"WARMPATH_DISAGGREGATION_NOTIFY_LISTEN": "h:1", "WARMPATH_PEERS_LISTEN": "127.0.0.1:1",
		"WARMPATH_PEERS_REDIS_KEEP": "false", "WARMPATH_PEERS_ROUTERS": "127.0.0.1:2,127.0.0.1:3",
		"WARMPATH_KV_EVENTS_ALLOW": "192.0.2.0/24", "WARMPATH_SHADOW": "session,random",
		"WARMPATH_SHADOW_BUDGET": "0.5", "WARMPATH_POLICY_RANK_KV_CACHE_ROUTING_MATCH_RATE_THRESHOLD": "0",
		"WARMPATH_POLICY_RANK_KV_CACHE_ROUTING_ACCOUNT_FOR_IN_TRANSFER": "false",
		"WARMPATH_POLICY_RANK_KV_CACHE_ROUTING_NEW_CONV_PLACEMENT":      "least_queued",
		"WARMPATH_OTLP_ENDPOINT": "https://h:1", "WARMPATH_OTLP_PROTOCOL": "grpc",
		"WARMPATH_OTLP_SIGNALS": "metrics,logs", "WARMPATH_OTLP_CERT": "", "WARMPATH_OTLP_KEY": "",
		"WARMPATH_QUEUE_MODE": "off", "WARMPATH_ACCESS_LOG_FIELDS": "time,key", "WARMPATH_LIMITS_PRIORITY": "high",
		"WARMPATH_TENANTS_EACH_PRIORITY": "high", "WARMPATH_TENANTS_EACH_TENANT": "",
		"WARMPATH_ENDPOINT_TOKEN_KEY": "0123456789abcdef", "WARMPATH_POLICY_TRTLLM_CONVERSATION_MATCH_THRESHOLD": "0",
		"WARMPATH_POLICY_TRTLLM_KV_CACHE_AWARE_SCORE":            "blocks",
		"WARMPATH_POLICY_TRTLLM_KV_CACHE_AWARE_CONTENT_AFFINITY": "messages",
	}
	for name, path := range config.Variables() {
		text, ok := special[name]
		if !ok {
			text = sample(t, name)
		}
		if text == "" {
			continue
		}
		base, err := config.Parse("", nil, beside(name))
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse("", nil, append(beside(name), name+"="+text))
		if err != nil {
			t.Errorf("%s=%s: %v", name, text, err)
			continue
		}
		before, after := base.Settings(), c.Settings()
		if reflect.DeepEqual(dig(before, path), dig(after, path)) {
			t.Errorf("%s=%s changed nothing at %v", name, text, path)
		}
		bury(before, path, dig(after, path))
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s changed more than its value: %s", name, diff)
		}
	}
}

// sample finds a text that the variable takes.
func sample(t *testing.T, name string) string {
	for _, text := range []string{
		"7s", "7MiB", "7", "true", "x", "127.0.0.1:7", "header:X-A,field:b", "characters", "all", "none",
	} {
		if _, err := config.Parse("", nil, append(beside(name), name+"="+text)); err == nil {
			return text
		}
	}
	t.Errorf("%s takes none of the samples", name)
	return ""
}

func dig(m map[string]any, path []string) any {
	for _, k := range path[:len(path)-1] {
		m = m[k].(map[string]any)
	}
	return m[path[len(path)-1]]
}

func bury(m map[string]any, path []string, v any) {
	for _, k := range path[:len(path)-1] {
		m = m[k].(map[string]any)
	}
	m[path[len(path)-1]] = v
}

func TestKubernetesServiceVariablesAreNotOurs(t *testing.T) {
	_, err := config.Parse("", nil, []string{
		"WARMPATH_SERVICE_HOST=10.0.0.1", "WARMPATH_SERVICE_PORT=80", "WARMPATH_SERVICE_PORT_HTTP=80",
		"WARMPATH_PORT=tcp://10.0.0.1:80", "WARMPATH_PORT_80_TCP=tcp://10.0.0.1:80",
		"WARMPATH_PORT_80_TCP_ADDR=10.0.0.1", "WARMPATH_ADMIN_SERVICE_HOST=10.0.0.2", "WARMPATH_CONFIG=x",
	})
	if err != nil {
		t.Error(err)
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestAllFaultsWithTheirPlaces(t *testing.T) {
	text := `listen: nonsense
polcy: x
admin:
  listen: 0.0.0.0:9190
endpoints:
- url: http://a:1
  weight: -1
- {ulr: b}
- ftp://x
- url: http://A:1
discovery:
  dns:
  - name: d
policy:
  name: sesion
sessions: {max: -1}
models: {aliases: {x: []}}
limits: {retries: 200, body: 0, retry_share: 101, retry_floor: -1}
timeouts:
  connect: 5
  idle: 0s
probe:
  interval: 1ms
tls: {cert: c}
log: {level: loud}
tracing: {sample_ratio: 2, endpoint: x}
otlp: {endpoint: "otel:4317", protocol: udp, signals: [traces, spans, traces], interval: 0s, key: k, headers: {"a b": c}}
health: {eject_share: 1.5, panic_share: -1}
trust: {details: me}
`
	_, err := config.Parse("w.yaml", []byte(text), []string{
		"WARMPATH_LOG_FORMAT=xml", "WARMPATH_TIMEOUTS_CONECT=1s", "WARMPATH_LIMITS_HEADER=lots",
	},
		config.Override{Path: []string{"timeouts", "drain"}, Text: "-1s", From: "--drain"})
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%T is not Faults", err)
	}
	want := []string{
		`w.yaml:1:1: listen: "nonsense" is not host:port, such as 127.0.0.1:8080`,
		`w.yaml:2:1: unknown key "polcy"; did you mean "policy"?`,
		`w.yaml:4:3: admin.listen: 0.0.0.0:9190 is not a loopback address and needs a token: set WARMPATH_ADMIN_TOKEN, or admin.token_file in the file`,
		`w.yaml:7:3: endpoints[0].weight: is -1, must be 0 or more`,
		`w.yaml:8:4: unknown key "ulr"; did you mean "url"?`,
		`w.yaml:9:3: endpoints[2]: "ftp://x" must start with http://, https:// or unix:///`,
		`w.yaml:10:3: endpoints[3].url: is the same address as endpoints[0] (http://a:1)`,
		`w.yaml:13:5: discovery.dns[0].port: is 0, must be between 1 and 65535`,
		`w.yaml:15:3: policy.name: is "sesion"; did you mean "session"? valid: consistent_hash, least_requests, least_tokens, least_ttft, power_of_two, random, rendezvous, round_robin, session, and rules of other routers such as smg.cache_aware (warmpath policies lists them)`,
		`w.yaml:16:12: sessions.max: is -1, must be between 1 and 100000000 (0 means 100000)`,
		`w.yaml:17:20: models.aliases.x: needs a name and at least one model, none empty or "*"`,
		`w.yaml:18:10: limits.retries: is 200, must be between 0 and 100`,
		`w.yaml:18:24: limits.body: is 0, must be 1 or more`,
		`w.yaml:18:33: limits.retry_share: is 101, must be between 0 and 100`,
		`w.yaml:18:51: limits.retry_floor: is -1, must be 0 or more`,
		`w.yaml:20:12: timeouts.connect: want a duration such as "5s", got "5"`,
		`w.yaml:21:3: timeouts.idle: is 0s, must be above 0`,
		`w.yaml:23:3: probe.interval: is 1ms, must be at least 10ms`,
		`w.yaml:24:1: tls: needs both cert and key`,
		`w.yaml:25:7: log.level: is "loud", must be one of debug, info, warn, error`,
		`w.yaml:26:11: tracing.sample_ratio: is 2, must be between 0 and 1`,
		`w.yaml:26:28: tracing.endpoint: is not an http:// or https:// address, such as http://127.0.0.1:4318`,
		`w.yaml:27:1: otlp: needs both cert and key`,
		`w.yaml:27:8: otlp.endpoint: is not an http:// or https:// address, such as http://127.0.0.1:4318`,
		`w.yaml:27:31: otlp.protocol: is "udp", must be one of http, grpc`,
		`w.yaml:27:64: otlp.signals[1]: is "spans", must be one of traces, metrics, logs`,
		`w.yaml:27:71: otlp.signals[2]: "traces" is there already`,
		`w.yaml:27:80: otlp.interval: is 0s, must be 1s or more`,
		`w.yaml:27:102: otlp.headers: "a b" is not a header's name, or its value has line breaks or other control characters`,
		`w.yaml:28:10: health.eject_share: is 1.5, must be between 0 and 1`,
		`w.yaml:28:28: health.panic_share: is -1, must be between 0 and 1`,
		`w.yaml:29:9: trust.details: is "me", must be one of operators, all`,
		`WARMPATH_TIMEOUTS_CONECT: unknown variable; did you mean "WARMPATH_TIMEOUTS_CONNECT"?`,
		`WARMPATH_LIMITS_HEADER: want a size such as "64MiB", got "lots"`,
		`--drain: timeouts.drain: is -1s, must be above 0`,
		`WARMPATH_LOG_FORMAT: log.format: is "xml", must be one of text, json`,
	}
	if diff := cmp.Diff(want, lines(err)); diff != "" {
		t.Error(diff)
	}
}

// TestEndpointIsNotTheRouter: a router does not send requests to itself.
func TestEndpointIsNotTheRouter(t *testing.T) {
	for _, x := range []struct {
		listen, endpoint string
		itself           bool
	}{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"127.0.0.1:8080", "http://localhost:8080", true},
		{"localhost:8080", "http://[::1]:8080", true},
		{"0.0.0.0:8080", "http://127.0.0.1:8080", true},
		{"[::]:8080", "http://localhost:8080", true},
		{":8080", "http://127.0.0.1:8080", true},
		{"gpu1:8080", "http://gpu1:8080", true},
		{"0.0.0.0:80", "http://localhost", true},
		{"[::1]:443", "https://[::1]", true},
		{"0.0.0.0:80", "http://10.0.0.1:80", false},
		{"127.0.0.1:80", "https://127.0.0.1", false},
		{"127.0.0.1:8080", "http://127.0.0.1:8081", false},
		{"127.0.0.1:8080", "http://127.0.0.2:8080", false},
		{"127.0.0.1:8080", "http://gpu1:8080", false},
		{"127.0.0.1:0", "http://127.0.0.1:0", false},
	} {
		_, err := config.Parse("w.yaml", []byte("listen: '"+x.listen+"'\nendpoints: ['"+x.endpoint+"']\n"), nil)
		if got := err != nil && strings.Contains(err.Error(), "is where this router listens"); got != x.itself {
			t.Errorf("listen %s, endpoint %s: %v", x.listen, x.endpoint, err)
		}
	}
}

// TestMemoryHoldsABody: there must be room for the largest body twice, since it moves as it grows.
func TestMemoryHoldsABody(t *testing.T) {
	for text, ok := range map[string]bool{"0": true, "128MiB": true, "1GiB": true, "127MiB": false, "1": false} {
		_, err := config.Parse("w.yaml", []byte("endpoints: [http://a:1]\nlimits: {memory: "+text+"}"), nil)
		if ok != (err == nil) ||
			err != nil && !strings.Contains(err.Error(), "limits.memory: is "+text) && text != "1" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestFileFaults(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.yaml")
	if _, err := config.Load(missing, nil, discovery.None()); err == nil || len(lines(err)) != 1 ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
	if _, err := config.Load(t.TempDir(), nil, discovery.None()); err == nil || len(lines(err)) != 1 {
		t.Errorf("a directory: %v", err)
	}
}

func TestAdminListener(t *testing.T) {
	for text, want := range map[string]string{
		"admin: {listen: 'localhost:1'}":       "",
		"admin: {listen: '[::1]:1'}":           "",
		"admin: {listen: off}":                 "",
		"admin: {listen: ''}":                  "",
		"admin: {listen: ':1', token: x}":      "",
		"admin: {listen: ':1', token_file: x}": "",
		"admin: {listen: ':1'}":                "not a loopback address",
		"admin: {listen: '10.0.0.1:1'}":        "not a loopback address",
		"admin: {token: x, token_file: y}":     "not both",
	} {
		c, err := config.Parse("f", []byte(text), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if strings.Contains(text, "off") && c.Admin.Listen != "" {
			t.Errorf("off leaves %q", c.Admin.Listen)
		}
	}
}

func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(" s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Admin.TokenFile = token
	if got, err := c.AdminToken(); err != nil || got != "s3cret" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := c.CheckFiles(discovery.None()); err != nil {
		t.Error(err)
	}
	c.Admin.TokenFile, c.TLS = dir+"/x", config.TLS{Cert: dir + "/y", Key: dir + "/z"}
	c.Discovery.File = dir + "/e"
	c.Endpoints = []discovery.EndpointConfig{{URL: "a:1", APIKeyEnv: "NO"}}
	if err := c.CheckFiles(discovery.None()); len(lines(err)) != 4 {
		t.Errorf("got %v, want four faults", err)
	}
}

// TestFilesOfOthers: who gives another router's file is told how it is converted.
func TestFilesOfOthers(t *testing.T) {
	for text, want := range map[string]string{
		"hostname: a\ncontext_servers: {urls: [b]}\n": "f:2:1: unknown key \"context_servers\"; " +
			"warmpath check --from trtllm FILE converts it",
		"servingEngineSpec: {}\n": "warmpath check --from production-stack FILE converts it",
		"model_list: []\n":        "docs/migrating-proxies.md has LiteLLM's settings beside ours",
	} {
		if _, err := config.Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestFilesHavePlaces: what is wrong with a file that the configuration names is told where it is named, or set.
func TestFilesHavePlaces(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "w.yaml")
	text := "tls: {cert: no/crt, key: no/key}\nendpoints: [{url: 'http://a:1', api_key_env: NO}]\n" +
		"tenants: {keys_file: no/keys}\ndiscovery: {file: no/list}\naccess_log: no/log\nstate: {file: no/state}\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(name, []string{"WARMPATH_ADMIN_TOKEN_FILE=no/token"}, discovery.None())
	got := lines(err)
	for i, want := range []string{
		name + ":1:1: tls: ", name + ":2:33: endpoints[0].api_key_env: ", name + ":3:11: tenants.keys_file: ",
		name + ":4:13: discovery.file: ", name + ":5:1: access_log.file: ", name + ":6:9: state.file: ",
		"WARMPATH_ADMIN_TOKEN_FILE: admin.token_file: ",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("want a fault %q... in line %d of\n%s", want, i+1, strings.Join(got, "\n"))
		}
	}
}

// TestNamesThatMeanNothing: a limit of a tenant that has no key, and an alias of a model that nobody serves, are warned
// of, and only where nothing else can bring such a name.
func TestNamesThatMeanNothing(t *testing.T) {
	const keys = "endpoints: [{url: 'http://127.0.0.1:1', models: [simulated]}]\ntenants: {api_keys: [{tenant: blue, " +
		"key: a}, {tenant: green, key: b}], limits: [{tenant: bleu, running: 3}]%s}\n"
	for _, row := range []struct{ yaml, want string }{
		{
			fmt.Sprintf(keys, ""),
			`tenants.limits[0].tenant: no API key is "bleu"'s, so the limit means nothing; did you mean "blue"?`,
		},
		{fmt.Sprintf(keys, ", header: X-Tenant"), ""},
		{
			"endpoints: [{url: 'http://127.0.0.1:1', models: [simulated]}]\nmodels: {aliases: {fast: [simulatd]}}\n",
			`models.aliases.fast: no endpoint serves simulatd; did you mean "simulated"?`,
		},
		{"endpoints: [{url: 'http://127.0.0.1:1'}]\nmodels: {aliases: {fast: [simulatd]}}\n", ""},
		{
			"endpoints: [{url: 'http://127.0.0.1:1'}]\nmodels: {aliases: {fast: [quick], quick: [a, b]}}\n",
			"models.aliases.fast: quick is an alias too, and is not looked up again: write a, b",
		},
		{"endpoints: [{url: 'http://127.0.0.1:1'}]\nmodels: {aliases: {fast: [a], a: [a, b], '*': [a]}}\n", ""},
	} {
		c, err := config.Parse("f", []byte(row.yaml), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings(), "\n"); got != row.want {
			t.Errorf("%s: %q, want %q", row.yaml, got, row.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	c := config.Default()
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "no endpoints") {
		t.Errorf("got %v", w)
	}
	zero := 0.0
	c.Endpoints = []discovery.EndpointConfig{{URL: "a:1", Weight: &zero}}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "weight 0") {
		t.Errorf("got %v", w)
	}
	c.Endpoints[0].Weight = nil
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("got %v", w)
	}
}

func TestRedacted(t *testing.T) {
	c, err := config.Parse("f", []byte(full), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Discovery.DNS[0].APIKey = "dns-secret"
	r := c.Redacted()
	if r.Admin.Token != "(hidden)" || r.Endpoints[1].APIKey != "(hidden)" || r.Discovery.DNS[0].APIKey != "(hidden)" ||
		r.Endpoints[0].APIKey != "" {
		t.Errorf("got %+v", r)
	}
	if r.OTLP.Headers["Authorization"] != "(hidden)" || c.OTLP.Headers["Authorization"] != "Bearer hush" {
		t.Errorf("headers %v, of %v", r.OTLP.Headers, c.OTLP.Headers)
	}
	if c.Admin.Token != "hush" || c.Endpoints[1].APIKey != "secret" {
		t.Error("the original was changed")
	}
	r.Models.Aliases["fast"][0].Model, *r.Endpoints[0].Weight = "changed", 9
	if c.Models.Aliases["fast"][0].Model != "x" || *c.Endpoints[0].Weight != 2 {
		t.Error("the copy shares memory with the original")
	}
	if got := dig(c.Settings(), []string{"timeouts", "connect"}); got != "1s" {
		t.Errorf("settings show %v", got)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]config.Bytes{
		"64MiB": 64 << 20, "1 KiB": 1024, "1.5GiB": 3 << 29, "500kB": 500_000, "7": 7, "7B": 7, "0": 0,
	} {
		var b config.Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%s: %d, %v", text, b, err)
		}
		var again config.Bytes
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%s prints as %s, which reads as %d, %v", text, b, again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1TB", "9e30", "NaN", "1MiBs", "inf"} {
		var b config.Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, b)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("policy: [a]\nendpoints: {a: b}\nmodels: {aliases: {a: {b: c}}}"))
	f.Add([]byte(`{"endpoints":[null,{"url":null}],"discovery":{"dns":[null]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data, nil)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("accepted, yet %v", err)
			}
		}
		c.Settings()
	})
}

// TestAccessLogFields: a field that lines do not have is told with its place, and so is one that is named twice.
func TestAccessLogFields(t *testing.T) {
	for text, want := range map[string]string{
		"[time, status]":   "",
		"[time, staus]":    `f:1:43: access_log.fields[1]: is "staus", must be one of time, request,`,
		"[time, key, key]": `access_log.fields[2]: "key" is there already`,
	} {
		_, err := config.Parse("f", []byte("access_log: {file: stderr, fields: "+text+"}"), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestReadToken: the token that reads needs one that does all, and is another.
func TestReadToken(t *testing.T) {
	for text, want := range map[string]string{
		"{token: a, read_token: b}":                     "",
		"{token_file: a, read_token_file: b}":           "",
		"{read_token: b}":                               "admin.read_token: needs token or token_file",
		"{read_token_file: b}":                          "admin.read_token: needs token or token_file",
		"{token: a, read_token: a}":                     "admin.read_token: is the same as token",
		"{token: a, read_token: b, read_token_file: c}": "give read_token or read_token_file",
	} {
		_, err := config.Parse("f", []byte("admin: "+text), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
