package migrate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/migrate"
)

// TestLLMDHelmValues: values of llm-d's charts become what the configuration in them and the pods that they select
// become, with lines of the values.
func TestLLMDHelmValues(t *testing.T) {
	const (
		router = `router:
  modelServers: {matchLabels: {app: llama, tier: gpu}, targetPorts: [{number: 8200}]}
  proxy: {enabled: true}
`
		older = `inferencePool:
  targetPortNumber: 8200
  modelServers:
    matchLabels: {app: llama, tier: gpu}
inferenceExtension:
  image: {tag: v0.7.0}
`
		own = `  pluginsConfigFile: own.yaml
  pluginsCustomConfig:
    other.yaml: "kind: Nothing"
    own.yaml: |
      apiVersion: llm-d.ai/v1alpha1
      kind: EndpointPickerConfig
      plugins:
      - type: token-load-scorer
      - type: unheard-of-scorer
      schedulingProfiles:
      - name: default
        plugins:
        - pluginRef: token-load-scorer
        - pluginRef: unheard-of-scorer
`
	)
	below := func(text string) string {
		return "  epp:\n  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ")
	}
	for _, tt := range []struct {
		name, values, policy string
		missing              []string // of it the beginnings
	}{
		{"its own", router + below(own), "least_tokens", []string{"17 token-load-scorer", "18 unheard-of-scorer"}},
		{"its own, older", older + own, "least_tokens", []string{"19 token-load-scorer", "20 unheard-of-scorer"}},
		{
			"structured",
			router + "  epp: {pluginsConfig: {kind: EndpointPickerConfig, plugins: [{type: random-picker}], " +
				"schedulingProfiles: [{name: d, plugins: [{pluginRef: random-picker}]}]}}",
			"random", nil,
		},
		{"the chart's", router, "llmd.default", nil},
		{"the chart's, older", older + "  pluginsConfigFile: default-plugins.yaml", "llmd.default", nil},
		{"predicted latencies", router + "  latencyPredictor: {enabled: true}", "least_ttft", nil},
		{
			"another of the chart's", router + "  epp: {pluginsConfigFile: payload-agnostic.yaml}", "llmd.default",
			[]string{"4 pluginsConfigFile payload-agnostic.yaml"},
		},
		{
			"one that is no YAML", router + "  epp:\n    pluginsConfigFile: a\n    pluginsCustomConfig: {a: '{'}", "",
			[]string{"6 a"},
		},
	} {
		got, err := migrate.File("llm-d", "values.yaml", []byte(tt.values))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var missing []string
		for _, m := range got.Missing {
			missing = append(missing, strings.TrimPrefix(m.Place, "values.yaml:")+" "+m.Setting)
		}
		if !slices.Equal(missing, tt.missing) {
			t.Errorf("%s: missing %q, want %q", tt.name, missing, tt.missing)
		}
		cfg, err := config.Parse("(result)", got.YAML, nil)
		if err != nil || len(cfg.Discovery.Kubernetes) != 1 {
			t.Errorf("%s: %v in\n%s", tt.name, err, got.YAML)
			continue
		}
		if k := &cfg.Discovery.Kubernetes[0]; k.Selector != "app=llama,tier=gpu" || k.Port != "8200" ||
			tt.policy != "" && cfg.Policy.Name != tt.policy {
			t.Errorf("%s: policy %s, pods %+v", tt.name, cfg.Policy.Name, k)
		}
	}
}
