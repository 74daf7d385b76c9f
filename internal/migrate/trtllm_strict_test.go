package migrate

import (
	"strings"
	"testing"
)

const strictYAML = `hostname: localhost
port: 8000
node_id: 17
schedule_style: generation_first
perf_metrics_max_requests: 100
max_retries: 2
backend: pytorch
conditional_disagg_config:
  max_local_prefill_length: 512
gen_strip_message_history: true
context_servers:
  num_instances: 2
  urls: ["host:8001", "host:8002"]
  router: {type: conversation, match_threshold: 0.5}
generation_servers:
  num_instances: 1
  urls:
    - host:8003
  router: {type: KV_cache_aware}
`

// TestCheckTRTLLM: what trtllm-serve disaggregated starts with passes, and each thing that it refuses is said with its
// line.
func TestCheckTRTLLM(t *testing.T) {
	if err := CheckTRTLLM("d.yaml", []byte(strictYAML)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"port: 8000", "port: x", `d.yaml:2: port is "x", must be a whole number from 1 to 65535`},
		{"node_id: 17", "node_id: 256", `d.yaml:3: node_id is "256"`},
		{"generation_first", "first", `d.yaml:4: schedule_style is "first", must be context_first or generation_first`},
		{"max_retries: 2", "max_retries: -1", `d.yaml:6: max_retries is "-1"`},
		{
			"num_instances: 2", "num_instances: 2\n  backend: trt",
			`d.yaml:13: context_servers.backend conflicts with the backend of line 7, which both sections inherit`,
		},
		{"max_local_prefill_length", "max_prefill", `d.yaml:9: conditional_disagg_config has no setting "max_prefill"`},
		{"KV_cache_aware", "round_robin", `d.yaml:8: conditional_disagg_config requires the router of generation_servers to be of type kv_cache_aware, not round_robin`},
		{"type: conversation", "type: sticky", `d.yaml:14: router type "sticky" is not known; the types are round_robin, load_balancing, kv_cache_aware, conversation`},
		{`"host:8002"`, `"http://host:8002"`, `d.yaml:13: context_servers.urls: "http://host:8002" is not host:port`},
		{
			`, "host:8002"`, ``,
			`d.yaml:12: context_servers.num_instances is 2, and there are 1 urls: the numbers must be equal`,
		},
		{"generation_servers:", "other_servers:", "d.yaml:1: generation_servers is missing"},
		{
			"backend: pytorch", "disagg_cluster: {cluster_uri: 'http://o:8000', inactive_interval_sec: 10}",
			`d.yaml:7: disagg_cluster has no setting "inactive_interval_sec"`,
		},
		{"backend: pytorch", "disagg_cluster: {cluster_uri: 'redis://o'}", `d.yaml:7: cluster_uri is "redis://o"`},
		{"hostname: localhost", "hostname: [", "d.yaml:"},
	} {
		text := strings.Replace(strictYAML, c.from, c.to, 1)
		if err := CheckTRTLLM("d.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.to, err, c.want)
		}
	}
	for _, same := range []string{
		"num_instances: 2\n  backend: pytorch", "num_instances: 2\n  kv_cache_config: {tokens_per_block: 64}",
	} {
		if err := CheckTRTLLM("d.yaml", []byte(strings.Replace(strictYAML, "num_instances: 2", same, 1))); err != nil {
			t.Errorf("%s: %v", same, err)
		}
	}
}

// TestTRTServe: what makes the router stand in for the orchestrator.
func TestTRTServe(t *testing.T) {
	got, err := File("trtllm", "d.yaml", []byte(strictYAML+`disagg_cluster:
  cluster_uri: http://o:8000
  cluster_name: blue
  minimal_instances: {context_servers: 2, generation_servers: 3}
  heartbeat_interval_sec: 5
  inactive_timeout_sec: 20
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"connector: trtllm_generation_first", "when: uncached", "threshold: 512",
		"decode_policy: trtllm.kv_cache_aware", "node_id: 17", "perf_metrics: 100", "last_message_only: true",
		"uri: http://o:8000", "name: blue", "min_context: 2", "min_generation: 3", "inactive_timeout: 20s",
		"paths: true", "retries: 2",
	} {
		if !strings.Contains(string(got.YAML), want) {
			t.Errorf("no %s in\n%s", want, got.YAML)
		}
	}
	told := false
	for _, m := range got.Missing {
		told = told || strings.Contains(m.String(), "d.yaml:21") && strings.Contains(m.String(), "trtllm.cluster.allow")
		if !strings.Contains(m.String(), "backend") && !strings.Contains(m.String(), "trtllm.cluster.allow") {
			t.Errorf("missing: %s", m)
		}
	}
	if !told {
		t.Errorf("nobody is told what workers need to register: %v", got.Missing)
	}
}

// FuzzCheckTRTLLM: no text makes it panic, and what passes converts.
func FuzzCheckTRTLLM(f *testing.F) {
	f.Add([]byte(strictYAML))
	f.Add([]byte("context_servers: 1\ngeneration_servers: []\nrouter: x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if CheckTRTLLM("f", data) == nil {
			if _, err := File("trtllm", "f", data); err != nil {
				t.Error(err)
			}
		}
	})
}
