package migrate_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/migrate"
)

// TestStackHelmValues: values of production-stack's chart become what the command line that the chart makes of them
// becomes.
func TestStackHelmValues(t *testing.T) {
	const values = `# comments
servingEngineSpec:
  enableEngine: true
  labels: {environment: prod, release: blue}
  containerPort: 8000
  vllmApiKey: {secretName: s, secretKey: k}
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      modelURL: meta-llama/Llama-3.1-8B-Instruct
      replicaCount: 4
      requestGPU: 1
routerSpec:
  enableRouter: true
  replicaCount: 1
  containerPort: 8000
  servicePort: 80
  serviceDiscovery: k8s
  routingLogic: session
  sessionKey: x-user-id
  engineScrapeInterval: 15
  requestStatsWindow: 60
  extraArgs: ["--max-instance-failover-reroute-attempts", "2"]
  resources: {requests: {cpu: 1}}
`
	got, err := migrate.File("production-stack", "values.yaml", []byte(values))
	if err != nil {
		t.Fatal(err)
	}
	same, err := migrate.Flags("production-stack", strings.Fields(
		"--host 0.0.0.0 --port 8000 --service-discovery k8s --k8s-label-selector environment=prod,release=blue"+
			" --k8s-port 8000 --routing-logic session --session-key x-user-id --engine-stats-interval 15 "+
			"--max-instance-failover-reroute-attempts 2"))
	if err != nil || string(got.YAML) != string(same.YAML) {
		t.Errorf("%v\n%s\nby the command line\n%s", err, got.YAML, same.YAML)
	}
	if len(got.Missing) != 1 || got.Missing[0].Setting != "vllmApiKey" {
		t.Errorf("missing: %v", got.Missing)
	}
	if cfg, err := config.Parse("(result)", got.YAML, nil); err != nil || len(cfg.Discovery.Kubernetes) != 1 ||
		cfg.Policy.Name != "rendezvous" {
		t.Errorf("%v in\n%s", err, got.YAML)
	}
	static, err := migrate.File("production-stack", "values.yaml", []byte("routerSpec: {serviceDiscovery: static, "+
		"staticBackends: 'http://a:1,http://b:1', staticModels: 'm,m', routingLogic: prefixaware}"))
	if err != nil || strings.Count(string(static.YAML), "http://") != 2 ||
		!strings.Contains(string(static.YAML), "stack.prefixaware") {
		t.Errorf("%v\n%s", err, static.YAML)
	}
}

// TestNothingUnderstood: a file in which nothing is a setting of the router is an error, not an empty configuration.
func TestNothingUnderstood(t *testing.T) {
	for _, router := range migrate.Names() {
		for _, text := range []string{"replicaCount: 2\nimage: {tag: latest}\n", "a: b\n"} {
			if got, err := migrate.File(router, "values.yaml", []byte(text)); err == nil ||
				!strings.HasPrefix(err.Error(), "values.yaml") {
				t.Errorf("%s: %v\n%s", router, err, got.YAML)
			}
		}
		if _, err := migrate.Flags(router, []string{"router launch"}); err == nil ||
			!strings.Contains(err.Error(), "no flag in it; give the command line of "+router) {
			t.Errorf("%s without flags: %v", router, err)
		}
	}
}
