package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/warmpath/warmpath/internal/discovery"
)

// read turns an object as the API server tells it into what is kept of it.
func read[T any](t *testing.T, o map[string]any) *T {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	out, err := slim[T](u)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*T)
}

// TestAnnotations: what a pod says of its engine, and what is said of one that contradicts itself. Such a pod is left
// out; the others stay.
func TestAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(map[string]any)
		want    discovery.EndpointConfig
		problem string
	}{
		"nothing": {func(map[string]any) {}, discovery.EndpointConfig{URL: "http://10.0.0.1:8000", Kind: "vllm"}, ""},
		"all": {
			annotated("warmpath.dev/port", "9000", "warmpath.dev/kind", "sglang", "warmpath.dev/role", "prefill",
				"warmpath.dev/ranks", "4",
				"warmpath.dev/weight", "0.5", "warmpath.dev/models", "a, b", "warmpath.dev/kv-events", "tcp://*:5557",
				"warmpath.dev/bootstrap-port", "8998", "warmpath.dev/scheme", "https"),
			discovery.EndpointConfig{
				URL: "https://10.0.0.1:9000", Kind: "sglang", Role: "prefill", Ranks: 4, Models: []string{"a", "b"},
				KVEvents: "tcp://10.0.0.1:5557", BootstrapPort: 8998,
			},
			"",
		},
		"llm-d's role": {labelled("llm-d.ai/role", "decode"), discovery.EndpointConfig{
			URL: "http://10.0.0.1:8000", Kind: "vllm", Role: "decode",
		}, ""},
		"both ways alike": {
			func(o map[string]any) {
				labelled("llm-d.ai/role", "both")(o)
				annotated("warmpath.dev/role", "both")(o)
			},
			discovery.EndpointConfig{URL: "http://10.0.0.1:8000", Kind: "vllm", Role: "both"},
			"",
		},
		"a port by name": {annotated("warmpath.dev/port", "http"), discovery.EndpointConfig{
			URL: "http://10.0.0.1:8000", Kind: "vllm",
		}, ""},
		"contradiction": {func(o map[string]any) {
			labelled("llm-d.ai/role", "decode")(o)
			annotated("warmpath.dev/role", "prefill")(o)
		}, discovery.EndpointConfig{}, "leave one out"},
		"unknown role": {
			labelled("llm-d.ai/role", "encode"), discovery.EndpointConfig{}, "warmpath knows prefill, decode",
		},
		"unknown annotation": {
			annotated("warmpath.dev/rolle", "decode"),
			discovery.EndpointConfig{},
			"warmpath.dev/rolle: is unknown; known: kind, role",
		},
		"not a number": {
			annotated("warmpath.dev/ranks", "four"), discovery.EndpointConfig{}, "ranks=four is not a number",
		},
		"weight": {annotated("warmpath.dev/weight", "-1"), discovery.EndpointConfig{}, "weight"},
		"no such port": {
			annotated("warmpath.dev/port", "grpc"), discovery.EndpointConfig{}, `it has no port "grpc", but http`,
		},
		"port out of range": {
			annotated("warmpath.dev/port", "70000"), discovery.EndpointConfig{}, "between 1 and 65535",
		},
		"without a port": {
			func(o map[string]any) { o["spec"] = map[string]any{"containers": []any{map[string]any{}}} },
			discovery.EndpointConfig{},
			"it declares no port",
		},
		"a file of ours": {
			annotated("warmpath.dev/api-key-file", "/etc/shadow"), discovery.EndpointConfig{}, "is unknown",
		},
		"slots of a vLLM": {annotated("warmpath.dev/slots", "4"), discovery.EndpointConfig{}, "only llamacpp has"},
		"another one's event": {
			annotated("warmpath.dev/kv-events", "tcp://*"), discovery.EndpointConfig{}, "kv_events",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{pods: []*pod{
				read[pod](t, podOf("a", "10.0.0.1", true, c.change)), read[pod](t, podOf("b", "10.0.0.2", true)),
			}}
			found, problems := engines(&discovery.KubernetesConfig{
				Selector: "app=vllm", Engine: discovery.EndpointConfig{Kind: "vllm"},
			}, "models", w)
			if c.problem != "" {
				if len(problems) != 1 || !strings.Contains(problems[0], c.problem) ||
					!strings.Contains(problems[0], "pod a") {
					t.Errorf("problems %q, want one that says %q", problems, c.problem)
				}
				if len(found) != 1 || found[0].config.Name != "b" {
					t.Errorf("found %+v, want b alone", found)
				}
				return
			}
			if len(problems) > 0 || len(found) != 2 {
				t.Fatalf("%d found, problems %q", len(found), problems)
			}
			got := found[0].config
			if w := got.Weight; w != nil && *w != 0.5 {
				t.Errorf("weight %v", *w)
			}
			got.Weight, c.want.Name = nil, "a"
			if !equalJSON(t, got, c.want) {
				t.Errorf("declared %+v, want %+v", got, c.want)
			}
		})
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

// TestNothingFound: each way to select nothing is said, with what to do.
func TestNothingFound(t *testing.T) {
	spec := func(s map[string]any) *inferencePool {
		return read[inferencePool](t, pool("inference.networking.k8s.io/v1", "p", s))
	}
	labels := map[string]any{"matchLabels": map[string]any{"app": "vllm"}}
	two := []any{map[string]any{"name": "a", "port": 1}, map[string]any{"name": "b", "port": 2}}
	for want, c := range map[string]struct {
		c discovery.KubernetesConfig
		w world
	}{
		"no pods found: kubernetes:pods/app=vllm selects none": {
			discovery.KubernetesConfig{Selector: "app=vllm"}, world{},
		},
		"there is no InferencePool p in the namespace; create it": {
			discovery.KubernetesConfig{Pool: "p"}, world{},
		},
		"the InferencePool p has no selector": {
			discovery.KubernetesConfig{Pool: "p"}, world{pool: spec(map[string]any{})},
		},
		"the InferencePool p has no targetPorts": {
			discovery.KubernetesConfig{Pool: "p"}, world{pool: spec(map[string]any{"selector": labels})},
		},
		"it has several ports (a, b); set discovery.kubernetes.port": {
			discovery.KubernetesConfig{Service: "vllm"}, world{slices: []*endpointSlice{
				read[endpointSlice](t, sliceOf("s", "IPv4", two, endpointOf("a", "10.0.0.1", true, false))),
			}},
		},
		`"bad" in the EndpointSlice s is not an address`: {
			discovery.KubernetesConfig{Service: "vllm", Port: "b"}, world{slices: []*endpointSlice{
				read[endpointSlice](t, sliceOf("s", "IPv4", two, endpointOf("a", "bad", true, false))),
			}},
		},
		"no pods found: kubernetes:prod/service/vllm selects none with": {
			discovery.KubernetesConfig{Service: "vllm", Namespace: "prod"}, world{},
		},
	} {
		if found, problems := engines(&c.c, "models", c.w); len(found) != 0 || len(problems) != 1 ||
			!strings.Contains(problems[0], want) {
			t.Errorf("%d found, problems %q, want %q", len(found), problems, want)
		}
	}
}

// TestSidecarPorts: the port of a sidecar, an initial container that is always restarted, counts where it is named. The
// engine's own stays the only one where none is.
func TestSidecarPorts(t *testing.T) {
	containers := func(name string, number int, restart string) []any {
		return []any{map[string]any{"name": name, "restartPolicy": restart, "ports": []any{
			map[string]any{"name": name, "containerPort": number},
		}}}
	}
	for _, tt := range []struct{ restart, port, want string }{
		{"Always", "", "http://10.0.0.1:8200"},
		{"Always", "engine", "http://10.0.0.1:8200"},
		{"Always", "proxy", "http://10.0.0.1:8000"},
		{"", "proxy", `no port "proxy", but engine`}, // it has ended before the engine begins
	} {
		p := read[pod](t, podOf("a", "10.0.0.1", true, func(o map[string]any) {
			spec := o["spec"].(map[string]any)
			spec["containers"] = containers("engine", 8200, "")
			spec["initContainers"] = containers("proxy", 8000, tt.restart)
		}))
		c := discovery.KubernetesConfig{Selector: "app=vllm", Port: tt.port}
		found, problems := engines(&c, "pods", world{pods: []*pod{p}})
		got := strings.Join(problems, "")
		for _, e := range found {
			got += e.config.URL
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// TestTwice: of two pods with one address, or two addresses of one pod, the one that takes requests counts.
func TestTwice(t *testing.T) {
	held := func(o map[string]any) {
		ending(o)
		o["metadata"].(map[string]any)["finalizers"] = []any{"example.com/records"}
	}
	w := world{pods: []*pod{
		read[pod](t, podOf("a", "10.0.0.1", true, held)), read[pod](t, podOf("b", "10.0.0.1", true)),
		read[pod](t, podOf("c", "10.0.0.3", true)),
	}}
	ports := []any{map[string]any{"port": 8000}}
	moved := world{slices: []*endpointSlice{
		read[endpointSlice](t, sliceOf("old", "IPv4", ports, endpointOf("vllm-0", "10.0.0.1", false, true))),
		read[endpointSlice](t, sliceOf("new", "IPv4", ports, endpointOf("vllm-0", "10.0.0.9", true, false))),
	}}
	for want, row := range map[string]struct {
		c discovery.KubernetesConfig
		w world
	}{
		"b http://10.0.0.1:8000 true, c http://10.0.0.3:8000 true, ": {
			discovery.KubernetesConfig{Selector: "app=vllm", Port: "8000"}, w,
		},
		"vllm-0 http://10.0.0.9:8000 true, ": {
			discovery.KubernetesConfig{Service: "vllm"}, moved,
		},
	} {
		found, problems := engines(&row.c, "models", row.w)
		got := ""
		for _, e := range found {
			got += fmt.Sprint(e.config.Name, " ", e.config.URL, " ", e.ready, ", ")
		}
		if got != want || len(problems) > 0 {
			t.Errorf("found %s, want %s; problems %q", got, want, problems)
		}
	}
}

// TestOtherNamespace: an engine elsewhere is named with its namespace, so that two of one name can be told apart.
func TestOtherNamespace(t *testing.T) {
	w := world{pods: []*pod{read[pod](t, podOf("vllm-0", "10.0.0.1", true))}}
	found, _ := engines(&discovery.KubernetesConfig{Selector: "app=vllm", Namespace: "blue"}, "models", w)
	if len(found) != 1 || found[0].config.Name != "vllm-0.blue" {
		t.Errorf("found %+v", found)
	}
}

// TestOneOfMany: what makes an engine none, or the same as another one, costs the others nothing: a name that is none,
// an address that is written in two ways, a port beside that is not for HTTP.
func TestOneOfMany(t *testing.T) {
	ports := []any{
		map[string]any{"name": "http-api", "port": 8000},
		map[string]any{"name": "gossip", "port": 7946, "protocol": "UDP"},
	}
	w := world{slices: []*endpointSlice{
		read[endpointSlice](t, sliceOf("a", "IPv4", ports, endpointOf("vllm-0", "10.0.0.1", true, false))),
		read[endpointSlice](t, sliceOf("b", "IPv6", ports, endpointOf("vllm-1", "::ffff:10.0.0.1", true, false))),
		read[endpointSlice](t, sliceOf("c", "IPv4", ports, endpointOf("a/b", "10.0.0.2", true, false))),
		read[endpointSlice](t, sliceOf("d", "IPv4", ports,
			endpointOf(strings.Repeat("x", 300), "10.0.0.3", true, false))),
	}}
	found, problems := engines(&discovery.KubernetesConfig{Service: "vllm"}, "models", w)
	var configs []discovery.EndpointConfig
	for _, e := range found {
		configs = append(configs, e.config)
	}
	endpoints, err := discovery.Endpoints(configs, discovery.None())
	if err != nil || len(endpoints) != 1 || endpoints[0].Name != "vllm-0" {
		t.Errorf("found %+v, %v", endpoints, err)
	}
	if all := strings.Join(problems, "\n"); len(problems) != 2 || !strings.Contains(all, "pod a/b is left out: name") ||
		!strings.Contains(all, "is longer than") {
		t.Errorf("problems %q", problems)
	}
}
