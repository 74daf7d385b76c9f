package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	spanspb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// collected is what a collector got: names of spans and metrics, and texts of lines.
type collected struct {
	mu  sync.Mutex
	all map[string][]string // by path
}

func newCollector(t *testing.T) (*collected, string) {
	t.Helper()
	c := &collected{all: map[string][]string{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, s.URL
}

// ServeHTTP takes OTLP over HTTP.
func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var names []string
	switch r.URL.Path {
	case "/v1/traces":
		var m spanspb.ExportTraceServiceRequest
		_ = proto.Unmarshal(body, &m)
		for _, s := range m.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans() {
			names = append(names, s.GetName())
		}
	case "/v1/metrics":
		var m metricspb.ExportMetricsServiceRequest
		_ = proto.Unmarshal(body, &m)
		for _, f := range m.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
			names = append(names, f.GetName())
		}
	case "/v1/logs":
		var m logspb.ExportLogsServiceRequest
		_ = proto.Unmarshal(body, &m)
		for _, l := range m.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords() {
			names = append(names, l.GetBody().GetStringValue())
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[r.URL.Path] = append(c.all[r.URL.Path], names...)
}

func (c *collected) has(path, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.all[path], name)
}

// TestCollectorOfSeveral: a collector that several configurations had, one after the other, gets the spans of all
// requests that began under one of them.
func TestCollectorOfSeveral(t *testing.T) {
	t.Parallel()
	first, at := newCollector(t)
	_, next := newCollector(t)
	held := make(chan chan struct{}, 2) // each request waits until one of these is closed
	one, other := make(chan struct{}), make(chan struct{})
	held <- one
	held <- other
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-<-held
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n")
		}
	}))
	defer engine.Close()
	text := func(policy, collector string) string {
		return fmt.Sprintf(reloadable, false, policy, "k", false, "{url: '"+engine.URL+"', kind: other, models: [m]}") +
			"otlp: {endpoint: " + collector + ", interval: 1h, signals: [traces]}\n"
	}
	f := newFileRig(t, text("least_ttft", at))
	var asked sync.WaitGroup
	under := func(policy, collector string, requests int) {
		asked.Go(func() {
			if status, body := f.ask("k", 3); status != 200 {
				t.Error(status, body)
			}
		})
		eventually(t, "the request is open", func() bool { return f.doors.Open() == requests })
		f.write(text(policy, collector))
		if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
	}
	under("round_robin", at, 1)
	under("round_robin", next, 2)
	close(one)
	eventually(t, "one of both has ended", func() bool { return f.entrances() == 2 })
	close(other)
	asked.Wait()
	eventually(t, "the collector has both", func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		requests := slices.DeleteFunc(slices.Clone(first.all["/v1/traces"]), func(span string) bool {
			return span != "POST chat"
		})
		return len(requests) == 2
	})
}

// TestCollectors: a router's spans, metrics and lines go to the collector of its configuration. After a reload they go
// to another, and the first has what was left; a router that stops has delivered all to its last line.
func TestCollectors(t *testing.T) {
	first, at := newCollector(t)
	second, next := newCollector(t)
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 100})
	text := fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'"+engine+"'")
	t.Run("router", func(t *testing.T) { // it stops at its end
		f := newFileRig(t, text+"otlp: {endpoint: "+at+", interval: 1h}\n")
		if status, body := f.ask("k", 3); status != 200 {
			t.Fatal(status, body)
		}
		f.write(text + "otlp: {endpoint: " + next + ", interval: 1h, signals: [metrics, logs]}\n")
		if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the first collector has what was left", func() bool {
			return first.has("/v1/traces", "POST chat") && first.has("/v1/metrics", "warmpath_ttft_seconds")
		})
		if status, body := f.ask("k", 3); status != 200 {
			t.Fatal(status, body)
		}
		f.log.Info("the last line")
	})
	if !second.has("/v1/metrics", "warmpath_requests_total") || !second.has("/v1/logs", "configuration reloaded") ||
		!second.has("/v1/logs", "the last line") {
		t.Errorf("the second collector got %v", second.all)
	}
	if first.has("/v1/logs", "the last line") || second.all["/v1/traces"] != nil {
		t.Errorf("a collector got what is not its own: %v, %v", first.all, second.all)
	}
}
