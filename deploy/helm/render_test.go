// Package helm holds the chart's tests, in a module of their own: nothing of Helm is a dependency of the router.
package helm

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("warmpath")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is what the chart makes of values.
func render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	c := load(t)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{
		Name: "warmpath", Namespace: "models", Revision: 1, IsInstall: true,
	}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func from(services ...any) map[string]any {
	return map[string]any{"kubernetes": services}
}

// TestGolden: what the chart renders is in testdata, to be read in a review. The router's tests check the configuration
// in it.
func TestGolden(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"default": {"existingSecret": "keys", "discovery": from(map[string]any{"service": "vllm"})},
		"all": {
			"existingSecret": "keys", "discovery": from(map[string]any{"pool": "llama", "namespace": "blue"}),
			"replicas": 3, "config": map[string]any{"policy": "least_ttft", "timeouts": map[string]any{"drain": "30s"}},
			"extproc":     map[string]any{"enabled": true},
			"rbac":        map[string]any{"namespaces": []any{"blue", "green"}},
			"autoscaling": map[string]any{"enabled": true},
			"podMonitor":  map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
			"service":     map[string]any{"type": "LoadBalancer", "annotations": map[string]any{"a": "b"}},
			"image":       map[string]any{"repository": "registry.local/warmpath", "tag": "1.2.3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, f := range slices.Sorted(maps.Keys(files)) {
				if text := strings.TrimSpace(files[f]); text != "" && strings.HasSuffix(f, ".yaml") {
					b.WriteString("---\n# Source: " + f + "\n" + strings.TrimPrefix(text, "---\n") + "\n")
				}
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *rewrite {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("%s is not what the chart renders; look at the difference after: go test ./... -rewrite",
					golden)
			}
		})
	}
}

// TestSecretIsMade: without one of the user's own, keys are random.
func TestSecretIsMade(t *testing.T) {
	files, err := render(t, map[string]any{"discovery": from(map[string]any{"service": "vllm"})})
	if err != nil {
		t.Fatal(err)
	}
	secret := files["warmpath/templates/secret.yaml"]
	for _, key := range []string{"admin-token: ", "peers: "} {
		_, value, ok := strings.Cut(secret, key)
		if value, _, _ = strings.Cut(value, "\n"); !ok || len(value) < 40 {
			t.Errorf("%s%q", key, value)
		}
	}
}

// TestBadValues: what cannot work is an error that says what to do.
func TestBadValues(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"discovery.kubernetes is empty": {},
		"peers": {
			"discovery": from(map[string]any{"service": "a"}), "config": map[string]any{"peers": map[string]any{}},
		},
		"replica": {"replica": 3},
		"minimum": {"replicas": 0},
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestLint: helm lint finds nothing.
func TestLint(t *testing.T) {
	linter := lint.All("warmpath", map[string]any{"discovery": from(map[string]any{"service": "vllm"})}, "models", true)
	for _, m := range linter.Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}
