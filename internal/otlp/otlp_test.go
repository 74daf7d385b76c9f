package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	spanspb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	linepb "go.opentelemetry.io/proto/otlp/logs/v1"
	familypb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is one in this process, which keeps what it gets, over either protocol.
type collector struct {
	spanspb.UnimplementedTraceServiceServer
	url string

	mu      sync.Mutex
	headers []string // authorization, of each delivery
	paths   []string // of deliveries over HTTP
	spans   []*spanspb.ExportTraceServiceRequest
	metrics []*metricspb.ExportMetricsServiceRequest
	logs    []*logspb.ExportLogsServiceRequest
}

func (c *collector) took(authorization, path string, m proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers, c.paths = append(c.headers, authorization), append(c.paths, path)
	switch m := m.(type) {
	case *spanspb.ExportTraceServiceRequest:
		c.spans = append(c.spans, m)
	case *metricspb.ExportMetricsServiceRequest:
		c.metrics = append(c.metrics, m)
	case *logspb.ExportLogsServiceRequest:
		c.logs = append(c.logs, m)
	}
}

// ServeHTTP is OTLP/HTTP with binary protobuf.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m proto.Message
	switch r.URL.Path[strings.LastIndex(r.URL.Path, "/v1/"):] {
	case "/v1/traces":
		m = &spanspb.ExportTraceServiceRequest{}
	case "/v1/metrics":
		m = &metricspb.ExportMetricsServiceRequest{}
	case "/v1/logs":
		m = &logspb.ExportLogsServiceRequest{}
	}
	if err != nil || m == nil || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		proto.Unmarshal(body, m) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	c.took(r.Header.Get("Authorization"), r.URL.Path, m)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// The three services of OTLP/gRPC.
type (
	spanService struct {
		spanspb.UnimplementedTraceServiceServer
		*collector
	}
	metricService struct {
		metricspb.UnimplementedMetricsServiceServer
		*collector
	}
	logService struct {
		logspb.UnimplementedLogsServiceServer
		*collector
	}
)

func authorization(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("authorization"), ",")
}

func (s spanService) Export(
	ctx context.Context, m *spanspb.ExportTraceServiceRequest,
) (*spanspb.ExportTraceServiceResponse, error) {
	s.took(authorization(ctx), "", m)
	return &spanspb.ExportTraceServiceResponse{}, nil
}

func (s metricService) Export(
	ctx context.Context, m *metricspb.ExportMetricsServiceRequest,
) (*metricspb.ExportMetricsServiceResponse, error) {
	s.took(authorization(ctx), "", m)
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

func (s logService) Export(
	ctx context.Context, m *logspb.ExportLogsServiceRequest,
) (*logspb.ExportLogsServiceResponse, error) {
	s.took(authorization(ctx), "", m)
	return &logspb.ExportLogsServiceResponse{}, nil
}

// listen runs a collector, and returns what its certificate is checked by.
func listen(t *testing.T, grpcs, secure bool) (*collector, *tls.Config) {
	t.Helper()
	c := &collector{}
	web := httptest.NewUnstartedServer(c)
	if secure {
		web.StartTLS()
	} else {
		web.Start()
	}
	c.url = web.URL
	t.Cleanup(web.Close)
	var trust *tls.Config
	if secure {
		pool := x509.NewCertPool()
		pool.AddCert(web.Certificate())
		trust = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if !grpcs {
		return c, trust
	}
	var o []grpc.ServerOption
	if secure {
		o = append(o, grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12,
		})))
	}
	s := grpc.NewServer(o...)
	spanspb.RegisterTraceServiceServer(s, spanService{collector: c})
	metricspb.RegisterMetricsServiceServer(s, metricService{collector: c})
	logspb.RegisterLogsServiceServer(s, logService{collector: c})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	scheme, _, _ := strings.Cut(web.URL, "://")
	c.url = scheme + "://" + l.Addr().String()
	return c, trust
}

const trace1 = "4bf92f3577b34da6a3ce929d0e0e4736"

// registry has a family of each kind, as the router's has them.
func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."},
		[]string{"code"})
	requests.WithLabelValues("200").Add(3)
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "open", Help: "Open."})
	open.Set(2)
	first := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ttft_seconds", Help: "First tokens.", Buckets: []float64{0.1, 1},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMaxExemplars: -1,
	})
	first.Observe(0.05)
	first.Observe(7)
	first.(prometheus.ExemplarObserver).ObserveWithExemplar(0.5, prometheus.Labels{"trace_id": trace1})
	r.MustRegister(requests, open, first)
	return r
}

func about(r *resourcepb.Resource) string {
	var all []string
	for _, a := range r.GetAttributes() {
		if slices.Contains([]string{"service.name", "service.instance.id", "service.version"}, a.GetKey()) {
			all = append(all, a.GetKey()+"="+a.GetValue().GetStringValue())
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

const aboutEdge = "service.instance.id=gpu-7:8080 service.name=edge service.version=1.2"

// deliver sends a span, the metrics and a line to a collector.
func deliver(t *testing.T, cfg Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Measure(ctx, registry()); err != nil {
		t.Fatal(err)
	}
	logs := NewLogs(slog.LevelInfo)
	log := slog.New(logs.Handler()).With("endpoint", "a")
	log.Error("before there is a collector")
	if err := logs.Use(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	log.Debug("too little")
	log.Warn("an endpoint is down", "error", errors.New("refused"), "after", 2*time.Second,
		"text", strings.Repeat("x", 2*longest))
	if s := c.Spans(); s != nil {
		p := trace.NewTracerProvider(trace.WithBatcher(s), trace.WithResource(c.About()))
		_, span := p.Tracer(Scope).Start(ctx, "POST /v1/messages")
		span.End()
		if err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(c.Close(ctx), logs.Use(ctx, Config{})); err != nil {
		t.Error(err)
	}
	log.Error("after the end")
}

// TestCollectorReceives: over each protocol, in plain text and over TLS, a collector gets what was sent, by whom, with
// the headers.
func TestCollectorReceives(t *testing.T) {
	for _, over := range []struct{ grpc, secure bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", over), func(t *testing.T) {
			c, trust := listen(t, over.grpc, over.secure)
			deliver(t, Config{
				Endpoint: c.url, GRPC: over.grpc, Spans: true, Metrics: true, Logs: true,
				Headers: map[string]string{"authorization": "Bearer k"}, TLS: trust, Service: "edge",
				Instance: "gpu-7:8080", Version: "1.2", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			})
			if len(c.spans) != 1 || len(c.metrics) != 1 || len(c.logs) != 1 ||
				strings.Join(c.headers, ",") != "Bearer k,Bearer k,Bearer k" {
				t.Fatalf("%d spans, %d metrics, %d logs, headers %q",
					len(c.spans), len(c.metrics), len(c.logs), c.headers)
			}
			spans := c.spans[0].GetResourceSpans()[0]
			if got := spans.GetScopeSpans()[0].GetSpans()[0].GetName(); got != "POST /v1/messages" ||
				about(spans.GetResource()) != aboutEdge {
				t.Errorf("span %q of %q", got, about(spans.GetResource()))
			}
			checkMetrics(t, c.metrics[0].GetResourceMetrics())
			checkLines(t, c.logs[0].GetResourceLogs())
		})
	}
}

func checkMetrics(t *testing.T, all []*familypb.ResourceMetrics) {
	t.Helper()
	if len(all) != 1 || about(all[0].GetResource()) != aboutEdge || len(all[0].GetScopeMetrics()) != 1 ||
		all[0].GetScopeMetrics()[0].GetScope().GetName() != Scope {
		t.Fatalf("metrics of %v", all)
	}
	families := map[string]*familypb.Metric{}
	for _, f := range all[0].GetScopeMetrics()[0].GetMetrics() {
		families[f.GetName()] = f
	}
	sum := families["requests_total"].GetSum()
	if p := sum.GetDataPoints(); len(p) != 1 || p[0].GetAsDouble() != 3 || !sum.GetIsMonotonic() ||
		p[0].GetAttributes()[0].GetValue().GetStringValue() != "200" ||
		sum.GetAggregationTemporality() != familypb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
		t.Errorf("counter %v", sum)
	}
	if p := families["open"].GetGauge().GetDataPoints(); len(p) != 1 || p[0].GetAsDouble() != 2 ||
		families["open"].GetDescription() != "Open." {
		t.Errorf("gauge %v", p)
	}
	h := families["ttft_seconds"].GetHistogram().GetDataPoints()
	if len(h) != 1 || h[0].GetCount() != 3 || h[0].GetSum() != 7.55 || !slices.Equal(h[0].GetExplicitBounds(),
		[]float64{0.1, 1}) || !slices.Equal(h[0].GetBucketCounts(), []uint64{1, 1, 1}) {
		t.Fatalf("histogram %v", h)
	}
	if e := h[0].GetExemplars(); len(e) != 1 || hex.EncodeToString(e[0].GetTraceId()) != trace1 ||
		e[0].GetAsDouble() != 0.5 {
		t.Errorf("exemplars %v", e)
	}
}

func checkLines(t *testing.T, all []*linepb.ResourceLogs) {
	t.Helper()
	lines := all[0].GetScopeLogs()[0].GetLogRecords()
	if len(all) != 1 || about(all[0].GetResource()) != aboutEdge || len(lines) != 1 {
		t.Fatalf("lines %v", all)
	}
	r := lines[0]
	values := map[string]*commonpb.AnyValue{}
	for _, a := range r.GetAttributes() {
		values[a.GetKey()] = a.GetValue()
	}
	if r.GetBody().GetStringValue() != "an endpoint is down" ||
		r.GetSeverityNumber() != linepb.SeverityNumber_SEVERITY_NUMBER_WARN ||
		values["endpoint"].GetStringValue() != "a" || values["after"].GetIntValue() != int64(2*time.Second) ||
		len(values["text"].GetStringValue()) != longest {
		t.Errorf("line %v", r)
	}
	said := false
	for _, v := range values {
		said = said || v.GetStringValue() == "refused"
	}
	if !said {
		t.Errorf("the error is not told: %v", r)
	}
}

// TestWhatIsSent: only the signals that are wanted go, below the path of the address; spans may go elsewhere, even
// alone.
func TestWhatIsSent(t *testing.T) {
	for name, row := range map[string]struct {
		cfg  Config
		want string
	}{
		"all": {
			Config{Endpoint: "/tenant/", Spans: true, Metrics: true, Logs: true},
			"/tenant/v1/logs /tenant/v1/metrics /tenant/v1/traces",
		},
		"metrics": {Config{Endpoint: "/", Metrics: true}, "/v1/metrics"},
		"logs":    {Config{Endpoint: "/", Logs: true}, "/v1/logs"},
		"none":    {Config{Endpoint: "/"}, ""},
		"nowhere": {Config{Spans: true, Metrics: true, Logs: true}, ""},
		"spans elsewhere": {
			Config{Endpoint: "/", Logs: true, SpansTo: "/other/v1/traces"}, "/other/v1/traces /v1/logs",
		},
		"spans alone":           {Config{Spans: true, Metrics: true, Logs: true, SpansTo: "/"}, "/v1/traces"},
		"spans alone, no path":  {Config{SpansTo: "?"}, "/v1/traces"},
		"spans, other and this": {Config{Endpoint: "/", Spans: true, SpansTo: "/o/v1/traces"}, "/o/v1/traces"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := listen(t, false, false)
			for _, at := range []*string{&row.cfg.Endpoint, &row.cfg.SpansTo} {
				if *at != "" {
					*at = c.url + strings.TrimPrefix(*at, "?")
				}
			}
			deliver(t, row.cfg)
			slices.Sort(c.paths)
			if got := strings.Join(c.paths, " "); got != row.want {
				t.Errorf("delivered to %q, want %q", got, row.want)
			}
		})
	}
}

// TestCollectorIsAway: nobody waits for a collector that takes connections and says nothing; what waits is bounded, and
// the end comes when it is told to.
func TestCollectorIsAway(t *testing.T) {
	for _, grpcs := range []bool{false, true} {
		t.Run(fmt.Sprint("gRPC ", grpcs), func(t *testing.T) {
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			cfg := Config{Endpoint: "http://" + silent.Addr().String(), GRPC: grpcs, Metrics: true, Logs: true}
			c, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Measure(t.Context(), registry()); err != nil {
				t.Fatal(err)
			}
			logs := NewLogs(slog.LevelInfo)
			if err := logs.Use(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			log := slog.New(logs.Handler())
			for range 10 * mostLines { // more than the queue, and a batch under way
				log.Info("line")
			}
			now, cancel := context.WithCancel(t.Context())
			cancel()
			_ = logs.Use(now, Config{})
			_ = c.Close(now)
		})
	}
}

// broken fails while err is set.
type broken struct{ err error }

func (b *broken) fail() error { return b.err }

type (
	brokenSpans struct {
		trace.SpanExporter
		*broken
	}
	brokenMetrics struct {
		metric.Exporter
		*broken
	}
	brokenLogs struct {
		sdklog.Exporter
		*broken
	}
)

func (b brokenSpans) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return b.fail() }
func (b brokenMetrics) Export(context.Context, *metricdata.ResourceMetrics) error {
	return b.fail()
}
func (b brokenLogs) Export(context.Context, []sdklog.Record) error { return b.fail() }

// TestLossIsSaidOnce: when delivery begins to fail, and when it works again.
func TestLossIsSaidOnce(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	b := &broken{}
	s := &spans{brokenSpans{tracetest.NewNoopExporter(), b}, Config{Log: log}.delivery(t.Context(), "spans")}
	m := &counts{brokenMetrics{broken: b}, Config{Log: log}.delivery(t.Context(), "metrics")}
	l := &records{brokenLogs{broken: b}, Config{Log: log}.delivery(t.Context(), "log lines")}
	for name, export := range map[string]func() error{
		"spans":     func() error { return s.ExportSpans(t.Context(), make([]trace.ReadOnlySpan, 2)) },
		"metrics":   func() error { return m.Export(t.Context(), &metricdata.ResourceMetrics{}) },
		"log lines": func() error { return l.Export(t.Context(), make([]sdklog.Record, 2)) },
	} {
		out.Reset()
		for _, err := range []error{nil, errors.New("refused"), errors.New("refused"), nil, nil} {
			b.err = err
			if err := export(); err != nil {
				t.Fatal(err)
			}
		}
		if got := out.String(); strings.Count(got, "\n") != 2 ||
			!strings.Contains(got, "otlp: "+name+" cannot be delivered") || !strings.Contains(got, "delivered again") {
			t.Errorf("%s, log:\n%s", name, got)
		}
	}
}

// TestFaultsAreHeard: what the library says to nobody in particular comes to the log: the first as a warning.
func TestFaultsAreHeard(t *testing.T) {
	var out strings.Builder
	h := faultHandler(slog.New(slog.NewTextHandler(&out, nil)))
	for _, err := range []error{nil, context.Canceled, errors.New("partial success"), errors.New("another")} {
		h.Handle(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") ||
		!strings.Contains(got, "partial success") {
		t.Errorf("log:\n%s", got)
	}
}
