package otlp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	spanspb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/warmpath/warmpath/internal/httpclient"
)

// exports delivers one of each kind by exporters of their own.
func exports(ctx context.Context, cfg Config) map[string]error {
	got := map[string]error{}
	spans, err := cfg.dialSpans(ctx)
	if err == nil {
		err = spans.ExportSpans(ctx, tracetest.SpanStubs{{Name: "a"}}.Snapshots())
		_ = spans.Shutdown(ctx)
	}
	got["spans"] = err
	metrics, err := cfg.dialMetrics(ctx)
	if err == nil {
		err = metrics.Export(ctx, &metricdata.ResourceMetrics{ScopeMetrics: []metricdata.ScopeMetrics{{
			Metrics: []metricdata.Metrics{{Name: "a", Data: metricdata.Gauge[int64]{
				DataPoints: []metricdata.DataPoint[int64]{{Value: 1}},
			}}},
		}}})
		_ = metrics.Shutdown(ctx)
	}
	got["metrics"] = err
	logs, err := cfg.dialLogs(ctx)
	if err == nil {
		err = logs.Export(ctx, make([]sdklog.Record, 1))
		_ = logs.Shutdown(ctx)
	}
	got["logs"] = err
	return got
}

// TestLongHeads: a collector whose answers have endless heads is one that cannot be reached, whatever it is sent.
func TestLongHeads(t *testing.T) {
	fill := strings.Repeat("a", 1000)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range httpclient.HeadBytes / len(fill) {
			w.Header().Add("x-fill", fill)
		}
	}))
	defer web.Close()
	long := func(
		ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		for range httpclient.HeadBytes / len(fill) {
			_ = grpc.SetHeader(ctx, metadata.Pairs("x-fill", fill))
		}
		return next(ctx, m)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(long))
	spanspb.RegisterTraceServiceServer(s, spanService{collector: &collector{}})
	metricspb.RegisterMetricsServiceServer(s, metricService{collector: &collector{}})
	logspb.RegisterLogsServiceServer(s, logService{collector: &collector{}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	for _, c := range []struct {
		cfg  Config
		said string
	}{
		{Config{Endpoint: web.URL, Spans: true}, "headers exceeded"},
		// the server is told the bound, and keeps to it
		{Config{Endpoint: "http://" + l.Addr().String(), Spans: true, GRPC: true}, "INTERNAL_ERROR"},
	} {
		for what, err := range exports(t.Context(), c.cfg) {
			if err == nil || !strings.Contains(err.Error(), c.said) {
				t.Errorf("%s to %s: %v, want %q", what, c.cfg.Endpoint, err, c.said)
			}
		}
	}
}

// TestStandardVariables: what the client reads itself is as OpenTelemetry's own does, and a fault names the variable.
func TestStandardVariables(t *testing.T) {
	_, trust := listen(t, false, true)
	for _, c := range []struct{ name, value, fault string }{
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "250", ""},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "OTEL_EXPORTER_OTLP_TIMEOUT is"},
		{"OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "-1", "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT is"},
		{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon", ""}, // of another kind
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/dev/null", "OTEL_EXPORTER_OTLP_CERTIFICATE: /dev/null holds no cert"},
		{"OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", "/none", "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE: open /none"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			client, err := Config{}.client("LOGS")
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Fatalf("%v, want %q", err, c.fault)
			}
			if err == nil && c.value == "250" && client.Timeout.Milliseconds() != 250 {
				t.Errorf("the limit is %v", client.Timeout)
			}
			if strings.HasSuffix(c.name, "CERTIFICATE") {
				if _, err := (Config{TLS: trust}).client("LOGS"); err != nil {
					t.Errorf("the setting does not come first: %v", err)
				}
			}
		})
	}
}
