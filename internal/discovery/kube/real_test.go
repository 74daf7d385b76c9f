package kube

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/freeport"
)

// Tokens of who asks the cluster: one who may do anything, and the service account of deploy/kubernetes.
const (
	anybody = "of-an-admin"
	account = "of-the-router"
)

// cluster is a real kube-apiserver on a real etcd, without nodes.
type cluster struct {
	t      *testing.T
	url    string
	client *http.Client
}

// newCluster runs the programs kube-apiserver and etcd of the folder that WARMPATH_KUBE_ASSETS names.
// .ci/kube-apiserver builds them.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	assets := os.Getenv("WARMPATH_KUBE_ASSETS")
	if assets == "" {
		t.Skip("WARMPATH_KUBE_ASSETS names no folder with kube-apiserver and etcd")
	}
	dir := t.TempDir()
	store, peers, port := freeport.Address(), freeport.Address(), freeport.Address()
	program(t, filepath.Join(assets, "etcd"), "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://"+store, "--advertise-client-urls", "http://"+store,
		"--listen-peer-urls", "http://"+peers, "--log-level", "error")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	accounts := write("sa.key", pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
	}))
	tokens := write("tokens.csv",
		[]byte(anybody+",admin,1,system:masters\n"+account+",system:serviceaccount:models:warmpath,2\n"))
	_, number, _ := net.SplitHostPort(port)
	program(t, filepath.Join(assets, "kube-apiserver"), "--etcd-servers", "http://"+store,
		"--cert-dir", filepath.Join(dir, "certs"), "--bind-address", "127.0.0.1", "--secure-port", number,
		"--service-account-issuer", "https://models.local", "--service-account-key-file", accounts,
		"--service-account-signing-key-file", accounts, "--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount", "-v", "0")
	c := &cluster{t: t, url: "https://" + port, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}
	for until := time.Now().Add(2 * time.Minute); c.ask(http.MethodGet, "/readyz", nil) != nil; time.Sleep(
		100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the API server is not ready: %v", c.ask(http.MethodGet, "/readyz", nil))
		}
	}
	return c
}

// program runs until the test ends.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cmd.Process.Kill(), cmd.Wait()
		if t.Failed() {
			t.Logf("%s said at the end: %s", filepath.Base(name), said.Bytes()[max(0, said.Len()-3000):])
		}
	})
}

// ask sends the API server one request.
func (c *cluster) ask(method, path string, body []byte) error {
	req, err := http.NewRequest(method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+anybody)
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", res.Status, said)
	}
	return err
}

// resources are where objects of a kind are.
var resources = map[string]string{
	"Namespace": "/api/v1/namespaces", "Pod": "/api/v1/%s/pods", "Service": "/api/v1/%s/services",
	"ConfigMap": "/api/v1/%s/configmaps", "Secret": "/api/v1/%s/secrets",
	"ServiceAccount": "/api/v1/%s/serviceaccounts", "EndpointSlice": "/apis/discovery.k8s.io/v1/%s/endpointslices",
	"Role":        "/apis/rbac.authorization.k8s.io/v1/%s/roles",
	"RoleBinding": "/apis/rbac.authorization.k8s.io/v1/%s/rolebindings",
	"Deployment":  "/apis/apps/v1/%s/deployments", "PodDisruptionBudget": "/apis/policy/v1/%s/poddisruptionbudgets",
	"NetworkPolicy":            "/apis/networking.k8s.io/v1/%s/networkpolicies",
	"HorizontalPodAutoscaler":  "/apis/autoscaling/v2/%s/horizontalpodautoscalers",
	"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"InferencePool":            "/apis/inference.networking.k8s.io/v1/%s/inferencepools",
}

// path is where an object is, in namespace models unless it names one.
func path(o map[string]any) string {
	meta, _ := o["metadata"].(map[string]any)
	at := resources[o["kind"].(string)]
	if strings.Contains(at, "%s") {
		namespace, _ := meta["namespace"].(string)
		if namespace == "" {
			namespace = "models"
		}
		at = fmt.Sprintf(at, "namespaces/"+namespace)
	}
	return at + "/" + meta["name"].(string)
}

// apply has the server take an object, as kubectl apply --server-side does; part is a subresource, with a slash, or "".
func (c *cluster) apply(o map[string]any, part, query string) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return c.ask(http.MethodPatch, path(o)+part+"?fieldManager=test&force=true"+query, b)
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// pod makes a pod that runs at an address; a cluster without nodes leaves that to the test.
func (c *cluster) pod(name, ip string, ready bool) {
	c.t.Helper()
	o := podOf(name, ip, ready)
	status := map[string]any{
		"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"name": name, "namespace": "models"},
		"status": o["status"],
	}
	delete(o, "status")
	container := o["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	container["name"], container["image"] = "vllm", "vllm"
	container["ports"].([]any)[0].(map[string]any)["protocol"] = "TCP"
	c.must(c.apply(o, "", ""))
	c.must(c.apply(status, "/status", ""))
}

func (c *cluster) remove(kind, name string) {
	c.t.Helper()
	c.must(c.ask(http.MethodDelete,
		path(map[string]any{"kind": kind, "metadata": map[string]any{"name": name}})+"?gracePeriodSeconds=0", nil))
}

// documents are the objects of a file of manifests.
func documents(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var o map[string]any
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// define has the server take objects of a kind that it does not know, whatever is in them.
func (c *cluster) define(group, version, kind, plural string) {
	c.t.Helper()
	c.must(c.apply(map[string]any{
		"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
		"metadata": map[string]any{
			"name": plural + "." + group,
			"annotations": map[string]any{
				"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api-inference-extension",
			},
		},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{
				"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "listKind": kind + "List",
			},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true,
				"schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				},
			}},
		},
	}, "", ""))
}

// TestKubectl: kubectl runs each of its commands in docs/kubernetes.md against a real API server, those that change
// something by server-side dry run first and then for good; of those that need a cluster with nodes it looks at the
// object that they name.
func TestKubectl(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl")
	}
	c := newCluster(t)
	c.must(c.apply(map[string]any{
		"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "models"},
	}, "", ""))
	c.define("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: models}}],
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: %q}}]}`, c.url, anybody)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := func(command string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = filepath.Join("..", "..", "..")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig,
			"PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		t.Logf("%s\n%s", command, out)
		if err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
		return string(out)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i, block := range strings.Split(string(page), "```") {
		if i%2 == 0 { // prose, whose commands stand between backticks
			block = strings.Join(strings.Split(block, "`"), "\n")
		}
		for command := range strings.Lines(block) {
			command = strings.TrimSpace(command)
			words := strings.Fields(command)
			if len(words) < 3 || words[0] != "kubectl" {
				continue
			}
			ran++
			switch words[1] {
			case "apply", "create":
				if said := shell(command + " --dry-run=server"); !strings.Contains(said, "(server dry run)") {
					t.Errorf("%s by dry run: %s", command, said)
				}
				shell(command)
			case "rollout":
				shell("kubectl get " + words[3])
			case "port-forward":
				_, port, _ := strings.Cut(words[3], ":")
				if got := shell("kubectl get " + words[2] + " -o 'jsonpath={.spec.ports[*].port}'"); got != port {
					t.Errorf("%s: the ports are %s", command, got)
				}
			default:
				shell(command)
			}
		}
	}
	if ran < 7 {
		t.Errorf("the page has %d commands of kubectl", ran)
	}
}

// TestRealAPIServer: a real API server takes every manifest, the rights in them are those that discovery needs, and
// pods, EndpointSlices and InferencePools are found as they come and go.
func TestRealAPIServer(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"models", "blue", "green"} {
		c.must(c.apply(map[string]any{
			"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": name},
		}, "", ""))
	}
	c.define("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")
	c.must(c.apply(map[string]any{ // as kubectl create secret makes it
		"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "warmpath"}, "type": "Opaque",
		"stringData": map[string]any{"admin-token": "a", "peers": "b"},
	}, "", "&dryRun=All&fieldValidation=Strict"))
	var rights []map[string]any
	tried := 0
	for _, file := range []string{
		"kubernetes/warmpath.yaml", "kubernetes/vllm.yaml", "helm/testdata/default.yaml", "helm/testdata/all.yaml",
	} {
		for _, o := range documents(t, filepath.Join("..", "..", "..", "deploy", filepath.FromSlash(file))) {
			kind := o["kind"].(string)
			if kind == "PodMonitor" { // of an operator that is not here
				continue
			}
			tried++
			if err := c.apply(o, "", "&dryRun=All&fieldValidation=Strict"); err != nil {
				t.Errorf("%s: %s: %v", file, kind, err)
			}
			if file == "kubernetes/warmpath.yaml" && (kind == "Role" || kind == "RoleBinding") {
				rights = append(rights, o)
			}
		}
	}
	t.Logf("the server takes %d objects", tried)
	c.pod("a", "10.1.0.1", true)
	heard, log := c.follow(discovery.KubernetesConfig{Selector: "app=vllm"})
	for until := time.Now().Add(time.Minute); log.count("may not list and watch pods here") == 0; time.Sleep(
		10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("nothing is said of missing rights")
		}
	}
	for _, o := range rights {
		c.must(c.apply(o, "", ""))
	}
	until(t, heard, "a http://10.1.0.1:8000")
	c.pod("b", "10.1.0.2", true)
	until(t, heard, "a http://10.1.0.1:8000", "b http://10.1.0.2:8000")
	c.pod("a", "10.1.0.1", false)
	until(t, heard, "a http://10.1.0.1:8000 drained", "b http://10.1.0.2:8000")
	c.remove("Pod", "a")
	until(t, heard, "b http://10.1.0.2:8000")

	c.must(c.apply(map[string]any{
		"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
		"metadata": map[string]any{"name": "vllm-1", "labels": map[string]any{"kubernetes.io/service-name": "vllm"}},
		"ports":    []any{map[string]any{"name": "http", "port": 8000, "protocol": "TCP"}},
		"endpoints": []any{map[string]any{
			"addresses": []any{"10.1.0.2"}, "conditions": map[string]any{"ready": true},
			"targetRef": map[string]any{"kind": "Pod", "name": "b", "namespace": "models"},
		}},
	}, "", ""))
	served, _ := c.follow(discovery.KubernetesConfig{Service: "vllm"})
	until(t, served, "b http://10.1.0.2:8000")

	c.must(c.apply(pool("inference.networking.k8s.io/v1", "llama", map[string]any{
		"selector":    map[string]any{"matchLabels": map[string]any{"app": "vllm"}},
		"targetPorts": []any{map[string]any{"number": 8000}},
	}), "", ""))
	pooled, _ := c.follow(discovery.KubernetesConfig{Pool: "llama"})
	until(t, pooled, "b http://10.1.0.2:8000")
	c.pod("c", "10.1.0.3", true)
	until(t, pooled, "b http://10.1.0.2:8000", "c http://10.1.0.3:8000")
}

// follow runs a source with the rights of the router's account.
func (c *cluster) follow(conf discovery.KubernetesConfig) (chan []fleet.Endpoint, *logged) {
	c.t.Helper()
	return followAt(c.t, &rest.Config{
		Host: c.url, BearerToken: account, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, conf)
}
