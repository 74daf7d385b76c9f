// Package tracing tells OpenTelemetry the story of each request: a server span for the client's request and a client
// span for each attempt at an endpoint, joined to the caller's trace by W3C Trace Context
// (https://www.w3.org/TR/trace-context/). Spans hold names, sizes and times, never text. A nil *Tracer is valid, does
// nothing and costs a comparison.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	scope = "github.com/warmpath/warmpath"
	// where OTLP/HTTP receives spans by default (OTLP specification 1.x, "OTLP/HTTP Request")
	tracesPath  = "/v1/traces"
	defaultName = "warmpath"
)

// Config says where spans go. The zero value is "nowhere".
type Config struct {
	Endpoint string // OTLP/HTTP address of a collector, such as http://127.0.0.1:4318; "" turns tracing off
	// 0..1: share of requests traced whose caller sends no trace of its own; a caller's choice is obeyed
	SampleRatio float64
	ServiceName string       // "" means "warmpath"
	Version     string       // of this program
	Log         *slog.Logger // hears when spans cannot be delivered; nil is silent
}

// Tracer starts spans. Its methods may be called concurrently.
type Tracer struct {
	tracer trace.Tracer
	wire   propagation.TraceContext
}

// New makes a tracer, and the function that delivers what is left and ends it. Without an endpoint the tracer is nil
// and the function does nothing. Headers, time-outs and certificates for the collector come from the standard
// environment variables OTEL_EXPORTER_OTLP_*. New connects to nothing.
func New(ctx context.Context, c Config) (*Tracer, func(context.Context) error, error) {
	if c.Endpoint == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.address()))
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: %w", err)
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t, provider, err := newTracer(ctx, c, sdk.WithBatcher(&quiet{SpanExporter: exporter, log: log}))
	if err != nil {
		return nil, nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	return t, provider.Shutdown, nil
}

func newTracer(ctx context.Context, c Config, to sdk.TracerProviderOption) (*Tracer, *sdk.TracerProvider, error) {
	name := c.ServiceName
	if name == "" {
		name = defaultName
	}
	about := []attribute.KeyValue{attribute.String("service.name", name)}
	if c.Version != "" {
		about = append(about, attribute.String("service.version", c.Version))
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv(), resource.WithAttributes(about...))
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: resource: %w", err)
	}
	p := sdk.NewTracerProvider(to, sdk.WithResource(res), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.SampleRatio))))
	return &Tracer{tracer: p.Tracer(scope, trace.WithInstrumentationVersion(c.Version))}, p, nil
}

// check reports all faults.
func (c Config) check() error {
	var faults []error
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil:
		faults = append(faults, fmt.Errorf("tracing: endpoint: %w", err))
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		faults = append(faults, fmt.Errorf("tracing: endpoint %q is not an http:// or https:// address", c.Endpoint))
	}
	if !(c.SampleRatio >= 0 && c.SampleRatio <= 1) { // also true of NaN
		faults = append(faults, fmt.Errorf("tracing: sample ratio %v is not between 0 and 1", c.SampleRatio))
	}
	return errors.Join(faults...)
}

// address is the endpoint with the path that collectors listen on when it names none.
func (c Config) address() string {
	u, _ := url.Parse(c.Endpoint)
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
	}
	return u.String()
}

// Start begins the server span of a client's request, as a child of the trace in its header if there is one. name has
// low cardinality: the method and the path's pattern. The context carries the span.
func (t *Tracer) Start(ctx context.Context, h http.Header, name string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx = t.wire.Extract(ctx, propagation.HeaderCarrier(h))
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, &Span{t: t, ctx: ctx, span: span}
}

// quiet keeps a collector that is away from reaching OpenTelemetry's global error handler, which prints; it says once
// when delivery starts to fail and once when it works again. The batcher calls it one batch at a time.
type quiet struct {
	sdk.SpanExporter
	log     *slog.Logger
	failing bool
	lost    int
}

// ExportSpans delivers spans, or counts them as lost.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		q.lost += len(spans)
		if !q.failing {
			q.log.Warn("tracing: spans cannot be delivered", "error", err.Error())
		}
	case q.failing:
		q.log.Info("tracing: spans are delivered again", "lost", q.lost)
		q.lost = 0
	}
	q.failing = err != nil
	return nil
}
