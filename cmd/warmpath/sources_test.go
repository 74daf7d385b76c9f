package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// onePod is a Kubernetes API server with a single pod.
type onePod struct {
	address string // of its engine

	mu    sync.Mutex
	ready bool
	lists int
	told  chan struct{} // closed when it is not what it was any more
}

// is says whether the pod is ready, and what is closed when that changes.
func (p *onePod) is() (object map[string]any, changes <-chan struct{}) {
	host, port, _ := net.SplitHostPort(p.address)
	p.mu.Lock()
	defer p.mu.Unlock()
	ready, version := "False", "2"
	if p.ready {
		ready, version = "True", "1"
	}
	return map[string]any{
		"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{
			"name": "pod-0", "namespace": "models", "resourceVersion": version,
			"labels": map[string]any{"app": "vllm"}, "annotations": map[string]any{"warmpath.dev/port": port},
		},
		"status": map[string]any{
			"phase": "Running", "podIP": host, "conditions": []any{map[string]any{"type": "Ready", "status": ready}},
		},
	}, p.told
}

func (p *onePod) unready() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = false
	close(p.told)
}

func (p *onePod) listed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lists
}

func (p *onePod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	pod, changes := p.is()
	switch {
	case q.Get("sendInitialEvents") == "true": // as older servers: lists are asked for
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.Get("watch") == "":
		p.mu.Lock()
		p.lists++
		p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "2"}, "items": []any{pod},
		})
	default:
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changes:
			pod, _ = p.is()
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": pod})
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}
}

// TestReloadKeepsSources: a source of endpoints goes on over a reload that leaves it as it is, with what it knows: a
// pod that is not ready at that moment, and was before, stays. One with other settings asks anew and knows that too.
func TestReloadKeepsSources(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	at, _ := url.Parse(engine)
	pod := &onePod{address: at.Host, ready: true, told: make(chan struct{})}
	api := httptest.NewServer(pod)
	t.Cleanup(func() { api.CloseClientConnections(); api.Close() })
	access := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(access, []byte(fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: k, user: u, namespace: models}}]
users: [{name: u, user: {}}]
`, api.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(key, engines string) string {
		return fmt.Sprintf(reloadable, false, "least_ttft", key, false, "") + fmt.Sprintf(
			"discovery: {kubernetes: [{selector: app=vllm, kubeconfig: %s%s}]}\n", access, engines)
	}
	f := newFileRig(t, text("k", ""))
	if status, got := f.ask("k", 2); status != 200 {
		t.Fatal(status, got)
	}
	is := func(when string, weight float64, lists int) {
		t.Helper()
		if !settled(func() bool {
			s := f.fleet.Status()
			return len(s) == 1 && s[0].Endpoint.Weight == weight && s[0].Requests == 1
		}) || pod.listed() != lists {
			t.Errorf("%s: %+v after %d lists, want weight %v after %d",
				when, f.fleet.Status(), pod.listed(), weight, lists)
		}
	}
	is("at first", 1, 1)
	pod.unready()
	is("not ready", 0, 1)
	reload := func(text string) {
		t.Helper()
		f.write(text)
		if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
		f.current().following.wait(0)
	}
	reload(text("another", ""))
	is("after a reload", 0, 1)
	reload(text("another", ", engine: {models: [m]}"))
	is("with other settings", 0, 2)
}
