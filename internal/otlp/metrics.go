package otlp

import (
	"context"
	"encoding/hex"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/warmpath/warmpath/internal/httpclient"
)

// newReader gathers and delivers all metrics at each interval. They are cumulative: what a collector misses, the next
// delivery makes up for, and nothing is kept meanwhile.
func (c Config) newReader(ctx context.Context, g prometheus.Gatherer, gone context.Context) (metric.Reader, error) {
	to, err := c.dialMetrics(ctx)
	if err != nil {
		return nil, err
	}
	o := []metric.PeriodicReaderOption{
		metric.WithProducer(&families{bridge.NewMetricProducer(bridge.WithGatherer(classic{g})), c.Version}),
	}
	if c.Interval > 0 {
		o = append(o, metric.WithInterval(c.Interval))
	}
	return metric.NewPeriodicReader(&counts{to, c.delivery(gone, "metrics")}, o...), nil
}

func (c Config) dialMetrics(ctx context.Context) (metric.Exporter, error) {
	if c.GRPC {
		o := []otlpmetricgrpc.Option{
			otlpmetricgrpc.WithEndpointURL(c.Endpoint),
			otlpmetricgrpc.WithDialOption(grpc.WithMaxHeaderListSize(httpclient.HeadBytes)),
		}
		if len(c.Headers) > 0 {
			o = append(o, otlpmetricgrpc.WithHeaders(c.Headers))
		}
		if c.TLS != nil && secure(c.Endpoint) {
			o = append(o, otlpmetricgrpc.WithTLSCredentials(credentials.NewTLS(c.TLS)))
		}
		return otlpmetricgrpc.New(ctx, o...)
	}
	o := []otlpmetrichttp.Option{otlpmetrichttp.WithEndpointURL(c.below(metricsPath))}
	if len(c.Headers) > 0 {
		o = append(o, otlpmetrichttp.WithHeaders(c.Headers))
	}
	client, err := c.client("METRICS")
	if err != nil {
		return nil, err
	}
	o = append(o, otlpmetrichttp.WithHTTPClient(client))
	return otlpmetrichttp.New(ctx, o...)
}

// counts delivers metrics.
type counts struct {
	metric.Exporter
	delivery
}

// Export delivers what was gathered, or says that it cannot.
func (c *counts) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	c.of(ctx, 1, func(ctx context.Context) error { return c.Exporter.Export(ctx, m) })
	return nil
}

// classic gathers histograms by their bounds alone. Those of the registry have native buckets too, which the bridge
// would take instead: then the names and bounds of /metrics would not be there, nor the exemplars, which it takes from
// bounds only.
type classic struct{ prometheus.Gatherer }

// Gather gathers all families.
func (c classic) Gather() ([]*dto.MetricFamily, error) {
	all, err := c.Gatherer.Gather()
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); len(h.GetBucket()) > 0 {
				h.Schema, h.ZeroThreshold, h.ZeroCount, h.ZeroCountFloat = nil, nil, nil, nil
				h.PositiveSpan, h.PositiveDelta, h.PositiveCount = nil, nil, nil
				h.NegativeSpan, h.NegativeDelta, h.NegativeCount = nil, nil, nil
				h.Exemplars = nil
			}
		}
	}
	return all, err
}

// families are the registry's metrics in OpenTelemetry's form.
type families struct {
	metric.Producer
	version string
}

// Produce gathers and converts them. The bridge takes the trace of an exemplar as it is written in the label: OTLP has
// the 16 bytes that these hexadecimal digits mean.
func (f *families) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	all, err := f.Producer.Produce(ctx)
	for i, scope := range all {
		all[i].Scope = instrumentation.Scope{Name: Scope, Version: f.version}
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					decode(p.Exemplars)
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					decode(p.Exemplars)
				}
			}
		}
	}
	return all, err
}

func decode(all []metricdata.Exemplar[float64]) {
	for i := range all {
		for _, id := range []*[]byte{&all[i].TraceID, &all[i].SpanID} {
			if b, err := hex.DecodeString(string(*id)); err == nil {
				*id = b
			}
		}
	}
}
