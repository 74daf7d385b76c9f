// Package helm holds the chart's tests, in a module of their own: nothing of Helm is a dependency of the router.
package helm

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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

// TestFurtherListeners: what the configuration opens besides is open for the cluster, and nothing else.
func TestFurtherListeners(t *testing.T) {
	opened := func(config map[string]any) []string {
		t.Helper()
		files, err := render(t, map[string]any{"discovery": from(map[string]any{"service": "vllm"}), "config": config})
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`port: [0-9]+`).FindAllString(files["warmpath/templates/networkpolicy.yaml"], -1)
	}
	if got := opened(map[string]any{}); got != nil {
		t.Errorf("%v are open", got)
	}
	got := opened(map[string]any{
		"kv_events":      map[string]any{"listen": "tcp://0.0.0.0:5557", "listen_ranks": 2},
		"lease":          map[string]any{"listen": "[::]:8090", "token_file": "/etc/warmpath/secret/lease"},
		"trtllm":         map[string]any{"cluster": map[string]any{"listen": "0.0.0.0:8001"}},
		"disaggregation": map[string]any{"notify_listen": "0.0.0.0:8500"},
	})
	want := []string{"port: 5557", "port: 5558", "port: 8090", "port: 8001", "port: 8500"}
	if !slices.Equal(got, want) {
		t.Errorf("%v are open, want %v", got, want)
	}
}

// TestAccess: the router may read where discovery looks, or where rbac.namespaces says.
func TestAccess(t *testing.T) {
	for _, c := range []struct {
		discovery []any
		rbac      []any
		want      []string
	}{
		{[]any{map[string]any{"service": "a"}}, nil, []string{"models"}},
		{
			[]any{
				map[string]any{"service": "a", "namespace": "blue"},
				map[string]any{"pool": "b"},
				map[string]any{"selector": "c=d", "namespace": "blue"},
			},
			nil,
			[]string{"blue", "models"},
		},
		{[]any{map[string]any{"service": "a", "namespace": "blue"}}, []any{"green"}, []string{"green"}},
	} {
		files, err := render(t, map[string]any{
			"discovery": from(c.discovery...), "rbac": map[string]any{"namespaces": c.rbac},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		roles := regexp.MustCompile(`kind: Role\nmetadata:\n  name: warmpath\n  namespace: (.*)`)
		for _, m := range roles.FindAllStringSubmatch(files["warmpath/templates/rbac.yaml"], -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: Roles in %v, want %v", c.discovery, c.rbac, got, c.want)
		}
	}
}

// TestDisruptionOfOne: a lone router does not keep its node from being drained.
func TestDisruptionOfOne(t *testing.T) {
	for replicas, scaling := range map[int]map[string]any{
		1: {"enabled": false, "minReplicas": 2}, 2: {"enabled": true, "minReplicas": 1},
		3: {"enabled": true, "minReplicas": 2}, 4: {"enabled": false, "minReplicas": 1},
	} {
		files, err := render(t, map[string]any{
			"discovery": from(map[string]any{"service": "a"}), "replicas": replicas, "autoscaling": scaling,
		})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Contains(files["warmpath/templates/scaling.yaml"], "PodDisruptionBudget")
		if want := replicas > 2; got != want {
			t.Errorf("%d replicas, autoscaling %v: a budget is %v, want %v", replicas, scaling, got, want)
		}
	}
}

// TestEveryValue: each value of values.yaml changes what is rendered, where what it belongs to is on.
func TestEveryValue(t *testing.T) {
	on := func() map[string]any {
		return map[string]any{
			"discovery": from(map[string]any{"service": "vllm"}), "extproc": map[string]any{"enabled": true},
			"podMonitor": map[string]any{"enabled": true},
		}
	}
	// without autoscaling, which takes the place of replicas
	with := func(path string, value any) map[string]any {
		values := on()
		if strings.HasPrefix(path, "autoscaling.") {
			values["autoscaling"] = map[string]any{"enabled": true}
		}
		at := values
		keys := strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			below, ok := at[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[key] = below
			}
			at = below
		}
		if value != nil {
			at[keys[len(keys)-1]] = value
		}
		return values
	}
	text := func(values map[string]any) string {
		t.Helper()
		files, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		delete(files, "warmpath/templates/secret.yaml") // is random
		delete(files, "warmpath/templates/NOTES.txt")
		var b strings.Builder
		for _, f := range slices.Sorted(maps.Keys(files)) {
			b.WriteString(files[f])
		}
		return b.String()
	}
	others := map[string]any{
		"replicas": 3, "image.repository": "r", "image.tag": "1", "image.pullPolicy": "Always",
		"imagePullSecrets":     []any{map[string]any{"name": "s"}},
		"discovery.kubernetes": []any{map[string]any{"pool": "p"}}, "config.timeouts.drain": "30s",
		"existingSecret": "s", "service.type": "NodePort", "service.port": 81,
		"service.annotations": map[string]any{"a": "b"}, "extproc.enabled": false, "extproc.port": 9003,
		"extproc.tls": false, "rbac.create": false, "rbac.namespaces": []any{"n"}, "serviceAccount.name": "a",
		"autoscaling.enabled": false, "autoscaling.minReplicas": 3, "autoscaling.maxReplicas": 9,
		"autoscaling.openRequests": 100, "podDisruptionBudget.enabled": false, "podDisruptionBudget.minAvailable": 2,
		"networkPolicy.enabled": false, "networkPolicy.monitoringNamespace": "m", "podMonitor.enabled": false,
		"podMonitor.labels": map[string]any{"a": "b"}, "resources.requests.cpu": "2",
		"resources.requests.memory": "1Gi", "resources.limits.memory": "3Gi", "terminationGracePeriodSeconds": 120,
		"podAnnotations": map[string]any{"a": "b"}, "nodeSelector": map[string]any{"a": "b"},
		"tolerations": []any{map[string]any{"key": "gpu", "operator": "Exists"}},
		"affinity":    map[string]any{"nodeAffinity": map[string]any{}},
	}
	var check func(path string, v any)
	check = func(path string, v any) {
		if below, ok := v.(map[string]any); ok && len(below) > 0 {
			for key, v := range below {
				check(strings.TrimPrefix(path+"."+key, "."), v)
			}
			return
		}
		if _, ok := others[path]; !ok {
			t.Errorf("%s is not tried", path)
		} else if text(with(path, nil)) == text(with(path, others[path])) {
			t.Errorf("%s: %v changes nothing", path, others[path])
		}
		delete(others, path)
	}
	check("", load(t).Values)
	for path := range others {
		t.Errorf("values.yaml has no %s", path)
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
		"/extproc/port": {
			"discovery": from(map[string]any{"service": "a"}), "extproc": map[string]any{"enabled": true, "port": 9190},
		},
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
