package kube

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/route"
)

const (
	pods    = "api/v1/pods"
	epSlice = "apis/discovery.k8s.io/v1/endpointslices"
	pools   = "apis/inference.networking.k8s.io/v1/inferencepools"
	alphas  = "apis/inference.networking.x-k8s.io/v1alpha2/inferencepools"
)

// podOf is a pod as the API server tells it; change edits it.
func podOf(name, ip string, ready bool, change ...func(o map[string]any)) map[string]any {
	is := "False"
	if ready {
		is = "True"
	}
	o := map[string]any{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": map[string]any{"name": name, "namespace": "models", "labels": map[string]any{"app": "vllm"}},
		"spec": map[string]any{
			"containers": []any{map[string]any{"ports": []any{map[string]any{"name": "http", "containerPort": 8000}}}},
		},
		"status": map[string]any{
			"phase": "Running", "podIP": ip, "conditions": []any{map[string]any{"type": "Ready", "status": is}},
		},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func annotated(pairs ...string) func(map[string]any) {
	return func(o map[string]any) {
		a := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			a[pairs[i]] = pairs[i+1]
		}
		o["metadata"].(map[string]any)["annotations"] = a
	}
}

func labelled(pairs ...string) func(map[string]any) {
	return func(o map[string]any) {
		for i := 0; i < len(pairs); i += 2 {
			o["metadata"].(map[string]any)["labels"].(map[string]any)[pairs[i]] = pairs[i+1]
		}
	}
}

func ending(o map[string]any) {
	o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
}

func pool(version, name string, spec map[string]any) map[string]any {
	return map[string]any{"kind": "InferencePool", "apiVersion": version, "metadata": map[string]any{
		"name": name, "namespace": "models",
	}, "spec": spec}
}

// logged keeps log lines.
type logged struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.lines.String(), text)
}

// follow runs a source against the server. heard are its publications.
func follow(t *testing.T, s *apiServer, c discovery.KubernetesConfig) (heard chan []fleet.Endpoint, log *logged) {
	t.Helper()
	return followAt(t, &rest.Config{Host: s.URL, QPS: 1000, Burst: 1000}, c)
}

func followAt(
	t *testing.T, access *rest.Config, c discovery.KubernetesConfig,
) (heard chan []fleet.Endpoint, log *logged) {
	t.Helper()
	log = &logged{}
	src, err := open(c, access, "models", discovery.None(), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return run(t, src), log
}

// run runs a source until the test ends.
func run(t *testing.T, src *Source) (heard chan []fleet.Endpoint) {
	heard = make(chan []fleet.Endpoint, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		src.Run(ctx, func(d route.Declared) { heard <- d.Endpoints })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return heard
}

// until waits for a publication that looks as wanted.
func until(t *testing.T, heard chan []fleet.Endpoint, want ...string) {
	t.Helper()
	var last []string
	for deadline := time.After(time.Minute); ; {
		select {
		case got := <-heard:
			last = nil
			for _, e := range got {
				text := e.Name + " " + e.URL
				if e.Role != "" {
					text += " " + string(e.Role)
				}
				if e.Weight == 0 {
					text += " drained"
				}
				last = append(last, text)
			}
			if slices.Equal(last, want) {
				return
			}
		case <-deadline:
			t.Fatalf("published %q last, want %q", last, want)
		}
	}
}

// TestMain runs six tests side by side: they wait for the client library, which tries again after seconds.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	m.Run()
}

func TestSelector(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, pods)
	s.put("pods", podOf("a", "10.0.0.1", true))
	s.put("pods", podOf("b", "10.0.0.2", false))
	s.put("pods", podOf("other", "10.0.0.9", true, labelled("app", "web")))
	heard, _ := follow(t, s, discovery.KubernetesConfig{Selector: "app=vllm"})
	until(t, heard, "a http://10.0.0.1:8000")
	s.put("pods", podOf("b", "10.0.0.2", true))
	until(t, heard, "a http://10.0.0.1:8000", "b http://10.0.0.2:8000")
	s.put("pods", podOf("a", "10.0.0.1", false)) // what was ready stays, without new traffic
	until(t, heard, "a http://10.0.0.1:8000 drained", "b http://10.0.0.2:8000")
	s.put("pods", podOf("a", "10.0.0.1", true))
	until(t, heard, "a http://10.0.0.1:8000", "b http://10.0.0.2:8000")
	s.put("pods", podOf("b", "10.0.0.2", true, ending))
	until(t, heard, "a http://10.0.0.1:8000", "b http://10.0.0.2:8000 drained")
	s.remove("pods", "b")
	until(t, heard, "a http://10.0.0.1:8000")
	s.put("pods", podOf("a", "10.0.0.1", true, labelled("app", "gone")))
	until(t, heard)
}

// TestServerGoesAndComesBack: watches break, versions expire, credentials are refused; what was said last holds, and
// what changed meanwhile is found.
func TestServerGoesAndComesBack(t *testing.T) {
	for _, listing := range []bool{false, true} {
		t.Run(fmt.Sprint("listing=", listing), func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, pods)
			s.listing = listing
			s.put("pods", podOf("a", "10.0.0.1", true))
			heard, log := follow(t, s, discovery.KubernetesConfig{Selector: "app=vllm", Port: "8000"})
			until(t, heard, "a http://10.0.0.1:8000")
			s.breakWatches()
			s.put("pods", podOf("b", "10.0.0.2", true))
			until(t, heard, "a http://10.0.0.1:8000", "b http://10.0.0.2:8000")
			s.answer(http.StatusUnauthorized)
			s.breakWatches()
			s.remove("pods", "a")
			for log.count("rejects the router's credentials") == 0 {
				time.Sleep(time.Millisecond)
			}
			if len(heard) > 0 {
				t.Errorf("published %v while the server refused", <-heard)
			}
			s.forget()
			s.answer(0)
			until(t, heard, "b http://10.0.0.2:8000")
			if n := log.count("credentials"); n != 1 {
				t.Errorf("the refusal was said %d times", n)
			}
		})
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kinds   []string
		version string
		spec    map[string]any
		want    []string
	}{
		"v1, two ports": {
			[]string{pods, pools, alphas},
			"inference.networking.k8s.io/v1",
			map[string]any{
				"selector":    map[string]any{"matchLabels": map[string]any{"app": "vllm"}},
				"targetPorts": []any{map[string]any{"number": 8000}, map[string]any{"number": 8001}},
			},
			[]string{"a:8000 http://10.0.0.1:8000 decode", "a:8001 http://10.0.0.1:8001 decode"},
		},
		"v1alpha2 alone": {
			[]string{pods, alphas},
			"inference.networking.x-k8s.io/v1alpha2",
			map[string]any{"selector": map[string]any{"app": "vllm"}, "targetPortNumber": 9000},
			[]string{"a http://10.0.0.1:9000 decode"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, c.kinds...)
			s.put("pods", podOf("a", "10.0.0.1", true, labelled("llm-d.ai/role", "decode")))
			s.put("pods", podOf("z", "10.0.0.7", true, labelled("app", "later")))
			heard, log := follow(t, s, discovery.KubernetesConfig{Pool: "llama"})
			until(t, heard) // there is no pool yet
			if log.count("there is no InferencePool llama") != 1 {
				t.Error("a missing pool is not said")
			}
			s.put("inferencepools", pool(c.version, "llama", c.spec))
			until(t, heard, c.want...)
			later := map[string]any{
				"selector":    map[string]any{"matchLabels": map[string]any{"app": "later"}},
				"targetPorts": []any{map[string]any{"number": 8000}},
			}
			if _, v1 := c.spec["targetPorts"]; !v1 {
				later = map[string]any{"selector": map[string]any{"app": "later"}, "targetPortNumber": 8000}
			}
			s.put("inferencepools", pool(c.version, "llama", later))
			until(t, heard, "z http://10.0.0.7:8000")
		})
	}
}

func sliceOf(name, family string, ports []any, endpoints ...any) map[string]any {
	return map[string]any{
		"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": family,
		"metadata": map[string]any{
			"name": name, "namespace": "models", "labels": map[string]any{"kubernetes.io/service-name": "vllm"},
		}, "endpoints": endpoints, "ports": ports,
	}
}

func endpointOf(pod, ip string, ready, terminating bool) any {
	return map[string]any{
		"addresses": []any{ip}, "conditions": map[string]any{"ready": ready, "terminating": terminating},
		"targetRef": map[string]any{"kind": "Pod", "name": pod},
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, pods, epSlice)
	ports := []any{map[string]any{"name": "http", "port": 8000}, map[string]any{"name": "kv", "port": 5557}}
	s.put("pods", podOf("a", "10.0.0.1", true, annotated("warmpath.dev/role", "prefill")))
	s.put("endpointslices", sliceOf("vllm-1", "IPv4", ports, endpointOf("a", "10.0.0.1", true, false),
		endpointOf("b", "10.0.0.2", true, false)))
	s.put("endpointslices", sliceOf("vllm-2", "IPv6", ports, endpointOf("a", "fd00::1", true, false)))
	heard, _ := follow(t, s, discovery.KubernetesConfig{Service: "vllm"})
	until(t, heard, "a http://10.0.0.1:8000 prefill", "b http://10.0.0.2:8000")
	s.put("endpointslices", sliceOf("vllm-1", "IPv4", ports, endpointOf("a", "10.0.0.1", true, false),
		endpointOf("b", "10.0.0.2", false, true)))
	until(t, heard, "a http://10.0.0.1:8000 prefill", "b http://10.0.0.2:8000 drained")
	s.put("endpointslices", sliceOf("vllm-1", "IPv4", ports, endpointOf("a", "10.0.0.1", true, false)))
	until(t, heard, "a http://10.0.0.1:8000 prefill")
}

// TestManyChanges: 5,000 pods, and changes that come faster than they are published, end in what is there, in few
// publications.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, pods)
	for i := range 5000 {
		s.put("pods", podOf(fmt.Sprintf("p%04d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), true))
	}
	heard, _ := follow(t, s, discovery.KubernetesConfig{Selector: "app=vllm"})
	if got := <-heard; len(got) != 5000 {
		t.Fatalf("%d endpoints, want 5000", len(got))
	}
	for i := range 1000 {
		name := fmt.Sprintf("p%04d", i)
		if i%2 == 0 {
			s.remove("pods", name)
		} else {
			s.put("pods", podOf(name, fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), true))
		}
	}
	publications := 0
	for deadline := time.After(time.Minute); ; {
		select {
		case got := <-heard:
			publications++
			if len(got) == 4500 && got[499].URL == "http://10.1.3.250:8000" {
				if publications > 500 {
					t.Errorf("%d publications for 1000 changes", publications)
				}
				return
			}
		case <-deadline:
			t.Fatal("what is there was never published")
		}
	}
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, pods)
	s.answer(http.StatusForbidden)
	_, log := follow(t, s, discovery.KubernetesConfig{Selector: "app=vllm"})
	for log.count("may not list and watch pods here; bind the Role") == 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestSame: a source that is made anew is the one before if it would find the same in the same cluster. A token that is
// renewed in its file is the same access.
func TestSame(t *testing.T) {
	c := discovery.KubernetesConfig{Selector: "app=vllm"}
	makes := func(c discovery.KubernetesConfig, access rest.Config) *Source {
		s, err := open(c, &access, "models", discovery.None(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	in := rest.Config{Host: "http://a", BearerToken: "1", BearerTokenFile: "token"}
	out := rest.Config{Host: "http://a", BearerToken: "1"}
	for _, row := range []struct {
		name        string
		before, now *Source
		want        bool
	}{
		{"unchanged", makes(c, in), makes(c, in), true},
		{"a renewed token", makes(c, in), makes(c, rest.Config{
			Host: "http://a", BearerToken: "2", BearerTokenFile: "token",
		}), true},
		{"another token", makes(c, out), makes(c, rest.Config{Host: "http://a", BearerToken: "2"}), false},
		{"another cluster", makes(c, out), makes(c, rest.Config{Host: "http://b", BearerToken: "1"}), false},
		{"other pods", makes(c, in), makes(discovery.KubernetesConfig{Selector: "app=x"}, in), false},
	} {
		if got := row.now.Same(row.before); got != row.want {
			t.Errorf("%s: the same %v, want %v", row.name, got, row.want)
		}
	}
}
