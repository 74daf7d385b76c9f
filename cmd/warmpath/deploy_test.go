package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// manifests are the objects of a file in deploy, by kind and name.
func manifests(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var o map[string]any
		if err := d.Decode(&o); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		key := o["kind"].(string) + "/" + at(o, "metadata", "name").(string)
		// the same in another namespace
		if namespace, ok := at(o, "metadata", "namespace").(string); ok && all[key] != nil {
			key += "." + namespace
		}
		if all[key] != nil {
			t.Errorf("%s: %s is there twice", file, key)
		}
		all[key] = o
	}
}

// at is what stands at a path of keys and indices.
func at(o any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := o.(map[string]any)
			o = m[p]
		case int:
			l, _ := o.([]any)
			if p >= len(l) {
				return nil
			}
			o = l[p]
		}
	}
	return o
}

// TestManifests: what deploy/kubernetes, and what the Helm chart renders, says of the router is what the router takes:
// its configuration, its ports and paths, and a Role that allows what discovery asks for and no more.
func TestManifests(t *testing.T) {
	for _, file := range []string{"kubernetes/warmpath.yaml", "helm/testdata/default.yaml", "helm/testdata/all.yaml"} {
		t.Run(file, func(t *testing.T) { fitsRouter(t, manifests(t, file)) })
	}
	for file, name := range map[string]string{
		"kubernetes/podmonitor.yaml": "PodMonitor/warmpath", "helm/testdata/all.yaml": "PodMonitor/warmpath",
	} {
		if at(manifests(t, file)[name], "spec", "podMetricsEndpoints", 0, "port") != "admin" {
			t.Errorf("%s: metrics are at the admin port", file)
		}
	}
	metric, _ := at(manifests(t, "helm/testdata/all.yaml")["HorizontalPodAutoscaler/warmpath"], "spec", "metrics", 0,
		"pods", "metric", "name").(string)
	if reference, err := os.ReadFile("../../docs/metrics.md"); err != nil ||
		!strings.Contains(string(reference), "`"+metric+"`") {
		t.Errorf("the autoscaler reads the metric %q, which the router does not have: %v", metric, err)
	}
}

// fitsRouter checks the objects of one installation.
func fitsRouter(t *testing.T, all map[string]map[string]any) {
	t.Helper()
	text, _ := at(all["ConfigMap/warmpath"], "data", "warmpath.yaml").(string)
	cfg, err := config.Parse("warmpath.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}

	pod := at(all["Deployment/warmpath"], "spec", "template", "spec")
	ports := map[string]string{}
	for _, p := range at(pod, "containers", 0, "ports").([]any) {
		ports[at(p, "name").(string)] = "0.0.0.0:" + yamlText(t, at(p, "containerPort"))
	}
	for name, want := range map[string]string{
		"http": cfg.Listen, "admin": cfg.Admin.Listen, "peers": cfg.Peers.Listen, "extproc": cfg.ExtProc.Listen,
	} {
		if ports[name] != want {
			t.Errorf("port %s is %s, the router listens at %s", name, ports[name], want)
		}
	}
	grace := at(pod, "terminationGracePeriodSeconds").(uint64)
	asleep := at(pod, "containers", 0, "lifecycle", "preStop", "sleep", "seconds").(uint64)
	if float64(grace) < float64(asleep)+cfg.Timeouts.Drain.Seconds() {
		t.Errorf("the pod has %d s to end, and needs %d and %v", grace, asleep, cfg.Timeouts.Drain)
	}
	account := at(pod, "serviceAccountName")
	if at(all["RoleBinding/warmpath"], "subjects", 0, "name") != account || all["ServiceAccount/warmpath"] == nil {
		t.Errorf("the account %v of the pods is not bound", account)
	}
	allowed := map[string]bool{}
	for _, rule := range at(all["Role/warmpath"], "rules").([]any) {
		if verbs := at(rule, "verbs").([]any); !slices.Equal(verbs, []any{"list", "watch"}) {
			t.Errorf("verbs %v", verbs)
		}
		for _, group := range at(rule, "apiGroups").([]any) {
			for _, kind := range at(rule, "resources").([]any) {
				allowed[group.(string)+"/"+kind.(string)] = true
			}
		}
	}
	asked := []string{
		"/pods", "discovery.k8s.io/endpointslices", "inference.networking.k8s.io/inferencepools",
		"inference.networking.x-k8s.io/inferencepools",
	}
	if len(allowed) != len(asked) || slices.ContainsFunc(asked, func(a string) bool { return !allowed[a] }) {
		t.Errorf("the Role allows %v, discovery asks for %v", allowed, asked)
	}
}

// TestProbesOfManifests: a kubelet asks over plain HTTP, without a certificate or a token, by the pod's address. It is
// answered whatever the configuration wants of clients.
func TestProbesOfManifests(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("front", "127.0.0.1")
	for name, setting := range map[string]string{
		"plain":                   "",
		"TLS":                     "tls: {cert: DIR/front.pem, key: DIR/front.key}",
		"certificates of clients": "tls: {cert: DIR/front.pem, key: DIR/front.key, client_ca: DIR/ca.pem}",
		"PROXY protocol":          "proxy_protocol: true\ntrusted_proxies: [192.0.2.0/24]",
		"names of hosts":          "hosts: [llm.example.com]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}})
			r := newFileRig(t, "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0', token: t0ken}\nendpoints: ["+engine+
				"]\n"+strings.ReplaceAll(setting, "DIR", a.dir)+"\n")
			ports := map[any]string{"http": r.url, "admin": r.adminURL}
			for _, file := range []string{"kubernetes/warmpath.yaml", "helm/testdata/all.yaml"} {
				for _, probe := range []string{"readinessProbe", "livenessProbe"} {
					get := at(manifests(t, file)["Deployment/warmpath"],
						"spec", "template", "spec", "containers", 0, probe, "httpGet")
					_, address, _ := strings.Cut(ports[at(get, "port")], "://")
					q, _ := http.NewRequest(http.MethodGet, "http://"+address+at(get, "path").(string), nil)
					q.Host = "10.1.2.3"
					// at first it is starting, and then it stays ready
					eventually(t, fmt.Sprintf("%s: %s is answered with 200", file, probe), func() bool {
						res, err := http.DefaultClient.Do(q)
						if err != nil {
							t.Fatalf("%s: %s: %v", file, probe, err)
						}
						_ = res.Body.Close()
						return res.StatusCode == http.StatusOK
					})
				}
			}
		})
	}
}

func yamlText(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(b))
}
