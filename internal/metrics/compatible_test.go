package metrics

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// compatible is a registry with the names of routers, of three endpoints, two of which are one engine, and five requests.
func compatible(names ...string) (*Metrics, *fakeFleet) {
	m, f := New(Config{Compatible: names}), &fakeFleet{stats: route.Stats{SessionHits: 5, SessionMisses: 2}}
	f.declare("a", "b", "c")
	f.status[0].Endpoint.URL, f.status[1].Endpoint.URL, f.status[2].Endpoint.URL = "http://one:1", "http://one:1", "http://two:2"
	f.status[0].Load.Requests, f.status[1].Load.Requests, f.status[2].Load.Requests = 3, 4, 5
	f.status[0].Report.Load.Waiting = 6
	f.status[1].State, f.status[2].State = fleet.StateDown, fleet.StateEjected
	m.Watch(f)
	play(m, "qwen", "a")
	play(m, "qwen", "b")
	play(m, "llama", "c")
	for _, change := range []struct {
		api    string
		status int
	}{{"embeddings", 503}, {"completions", 200}} {
		s := served("llama", "c")
		s.API, s.Status, s.Usage = change.api, change.status, fleet.Usage{}
		s.FirstByte = time.Time{}
		m.Listener().Served(s)
	}
	return m, f
}

// sorted is a line of the text format with its labels in order.
func sorted(line string) string {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), "{")
	inner, value, ok := strings.Cut(rest, "}")
	if !ok {
		return strings.TrimSpace(line)
	}
	pairs := strings.Split(inner, ",")
	slices.Sort(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}" + value
}

// TestCompatible: the values under other routers' names.
func TestCompatible(t *testing.T) {
	for peer, want := range map[string]string{
		"vllm-router": `
vllm_router_requests_total{route="/v1/chat/completions"} 3
vllm_router_requests_total{route="/v1/completions"} 1
vllm_router_requests_total{route="/v1/embeddings"} 1
vllm_router_request_errors_total{error_type="503",route="/v1/embeddings"} 1
vllm_router_request_duration_seconds_count 5
vllm_router_retries_total 3
vllm_router_processed_requests_total{worker="http://one:1"} 2
vllm_router_processed_requests_total{worker="http://two:2"} 3
vllm_router_active_workers 1
vllm_router_worker_health{worker="http://one:1"} 1
vllm_router_worker_health{worker="http://two:2"} 0
vllm_router_cb_state{worker="http://one:1"} 0
vllm_router_cb_state{worker="http://two:2"} 1
vllm_router_worker_load{worker="http://one:1"} 7
vllm_router_worker_load{worker="http://two:2"} 5
vllm_router_running_requests{worker="http://one:1"} 7
vllm_router_running_requests{worker="http://two:2"} 5
vllm_router_cache_hits_total 5
vllm_router_cache_misses_total 2`,
		"production-stack": `
vllm:num_requests_running{server="http://one:1"} 7
vllm:num_requests_running{server="http://two:2"} 5
vllm:num_requests_waiting{server="http://one:1"} 6
vllm:gpu_prefix_cache_hits_total{server="http://one:1"} 140
vllm:gpu_prefix_cache_hits_total{server="http://two:2"} 70
vllm:gpu_prefix_cache_queries_total{server="http://one:1"} 200
vllm:gpu_prefix_cache_queries_total{server="http://two:2"} 100
vllm:gpu_prefix_cache_hit_rate{server="http://one:1"} 0.7
vllm:gpu_prefix_cache_hit_rate{server="http://two:2"} 0.7
vllm:healthy_pods_total{server="http://one:1"} 1
vllm:healthy_pods_total{server="http://two:2"} 0
vllm:num_incoming_requests_total{model="llama"} 3
vllm:num_incoming_requests_total{model="qwen"} 2
vllm:input_tokens_total{model="llama",server="http://two:2"} 100
vllm:input_tokens_total{model="qwen",server="http://one:1"} 200
vllm:output_tokens_total{model="llama",server="http://two:2"} 21
vllm:output_tokens_total{model="qwen",server="http://one:1"} 42
vllm:request_errors_total{error_type="503",model="llama",server="http://two:2"} 1
vllm:request_latency_seconds_bucket{model="qwen",server="http://one:1",le="0.25"} 0
vllm:request_latency_seconds_bucket{model="qwen",server="http://one:1",le="0.5"} 2
vllm:request_latency_seconds_bucket{model="qwen",server="http://one:1",le="+Inf"} 2
vllm:request_latency_seconds_count{model="llama",server="http://two:2"} 3
vllm:request_latency_seconds_count{model="qwen",server="http://one:1"} 2`,
		"trtllm": `
total_requests_total 4
total_responses_total 4
gen_first_token_latency_seconds_count 3
gen_complete_latency_seconds_count 5
queue_latency_seconds_count 3`,
	} {
		m, _ := compatible(peer)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		lines := map[string]bool{}
		for line := range strings.Lines(w.Body.String()) {
			lines[sorted(line)] = true
		}
		for line := range strings.Lines(strings.TrimSpace(want)) {
			if !lines[sorted(line)] {
				t.Errorf("%s: not served: %s", peer, line)
			}
		}
	}
}

// TestCompatibleFamilies: the families of each router are exactly those documented, with their labels, what is served parses as it was
// meant, and nothing is there unasked.
func TestCompatibleFamilies(t *testing.T) {
	plain, _ := compatible()
	before := gather(t, plain)
	for _, p := range peers() {
		m, f := compatible(p.name)
		s := served("qwen", "a")
		s.Status = 500
		m.Listener().Served(s)
		got := gather(t, m)
		want := map[string]family{}
		for _, x := range p.families {
			want[x.Name] = x.family
			g := got[x.Name]
			if g == nil {
				t.Errorf("%s: %s is documented and not served", p.name, x.Name)
				continue
			}
			if kind := strings.ToLower(g.GetType().String()); kind != x.Kind {
				t.Errorf("%s is a %s, documented as %s", x.Name, kind, x.Kind)
			}
			var labels []string
			for _, l := range g.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			if d := cmp.Diff(x.Labels, labels); d != "" {
				t.Errorf("%s: labels (-documented +served):\n%s", x.Name, d)
			}
		}
		var names []string
		for name := range got {
			if _, ok := want[name]; ok {
				names = append(names, name)
			} else if before[name] == nil {
				t.Errorf("%s: %s is served and not documented", p.name, name)
			}
		}
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if err := testutil.GatherAndCompare(m, bytes.NewReader(w.Body.Bytes()), names...); err != nil {
			t.Errorf("%s: what is served reads otherwise: %v", p.name, err)
		}
		f.declare("a") // the others are gone, and so are their series
		for _, name := range []string{"vllm_router_worker_load", "vllm:num_requests_running"} {
			if g := gather(t, m)[name]; g != nil && len(g.GetMetric()) != 1 {
				t.Errorf("%s has %d series of one endpoint", name, len(g.GetMetric()))
			}
		}
	}
}
