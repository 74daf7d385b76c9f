package metrics

import (
	"bytes"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// compatible is a registry with the names of routers, of three endpoints, two of which are one engine, and five
// requests.
func compatible(names ...string) (*Metrics, *fakeFleet) {
	m, f := New(Config{Compatible: names}), &fakeFleet{stats: route.Stats{SessionHits: 5, SessionMisses: 2}}
	f.declare("a", "b", "c")
	f.status[0].Endpoint.URL, f.status[1].Endpoint.URL, f.status[2].Endpoint.URL = "http://one:1", "http://one:1",
		"http://two:2"
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

// TestCompatible: what is served under other routers' names, to the byte: names, types, labels, bounds of buckets and
// values.
func TestCompatible(t *testing.T) {
	for _, p := range peers() {
		m, _ := compatible(p.name)
		m.Listener().Entry(&route.Entry{
			Prefill:  &route.Decision{Policy: "session", Endpoint: fleet.Endpoint{Name: "a"}, Leg: fleet.LegPrefill},
			Decision: &route.Decision{Policy: "session", Endpoint: fleet.Endpoint{Name: "c"}, Leg: fleet.LegDecode},
		})
		split := served("qwen", "c")
		split.Prefill.Lease, split.Attempts, split.Stream = 7, 3, false
		m.Listener().Served(split)
		var got strings.Builder
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(w.Body.String()) {
			name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
			if slices.ContainsFunc(p.families, func(f peerFamily) bool {
				rest, ok := strings.CutPrefix(name, f.Name)
				return ok && strings.ContainsAny(rest[:1], " {_")
			}) && !strings.HasPrefix(line, "# HELP") {
				got.WriteString(line)
			}
		}
		path := "testdata/compatible/" + p.name + ".txt"
		if *update {
			if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Errorf("%s (-want +got), -update writes it anew:\n%s", p.name, d)
		}
	}
}

// TestOpenMetrics: no family is declared twice where OpenMetrics is spoken, whatever names are served, and each sample
// belongs to one. The classic text keeps every family.
func TestOpenMetrics(t *testing.T) {
	m, _ := compatible(vllmRouter, stackRouter, trtllm)
	text := func(accept string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		m.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	open := text("application/openmetrics-text;version=1.0.0")
	declared, family := map[string]string{}, ""
	for line := range strings.Lines(open) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if declared[name] != "" {
				t.Errorf("%s is declared as %s and as %s", name, declared[name], kind)
			}
			declared[name], family = kind, name
		} else if !strings.HasPrefix(line, "#") {
			rest, ok := strings.CutPrefix(line, family)
			if !ok || rest == "" || !strings.ContainsAny(rest[:1], " {_") {
				t.Errorf("%s is a sample of %s", line, family)
			}
		}
	}
	if !strings.HasSuffix(open, "# EOF\n") || len(declared) < 80 || declared["go_memstats_alloc_bytes"] != "gauge" {
		t.Errorf("%d families, the last bytes are %q", len(declared), open[max(0, len(open)-20):])
	}
	if classic := text("text/plain"); !strings.Contains(classic, "# TYPE go_memstats_alloc_bytes_total counter") {
		t.Error("the classic text lacks go_memstats_alloc_bytes_total")
	}
}

// TestCompatibleFamilies: the families of each router are exactly those documented, with their labels, what is served
// parses as it was meant, and nothing is there unasked.
func TestCompatibleFamilies(t *testing.T) {
	plain, _ := compatible()
	before := gather(t, plain)
	for _, p := range peers() {
		m, f := compatible(p.name)
		for _, status := range []int{400, 500, 503} {
			s := served("qwen", "a")
			s.Status, s.Prefill.Lease = status, 7
			m.Listener().Served(s)
		}
		not := served("qwen", "a")
		not.Stream = false
		m.Listener().Served(not)
		for _, leg := range []fleet.Leg{fleet.LegPrefill, fleet.LegDecode} {
			m.Listener().Entry(&route.Entry{
				Decision: &route.Decision{Policy: "session", Endpoint: fleet.Endpoint{Name: "a"}, Leg: leg},
			})
		}
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
