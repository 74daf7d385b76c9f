// Package tracing tells OpenTelemetry the story of each request: a server span for the client's request and a client
// span for each attempt at an endpoint, joined to the caller's trace by W3C Trace Context
// (https://www.w3.org/TR/trace-context/). Spans hold names, sizes and times, never text. A nil *Tracer is valid, does
// nothing and costs a comparison.
package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmpath/warmpath/internal/otlp"
)

// Config says where spans go. The zero value is "nowhere".
type Config struct {
	To    sdk.SpanExporter   // nil turns tracing off
	About *resource.Resource // describes this router
	// 0..1: share of requests traced whose caller sends no trace of its own; a caller's choice is obeyed
	SampleRatio float64
	Version     string // of this program
}

// Tracer starts spans. Its methods may be called concurrently.
type Tracer struct {
	tracer trace.Tracer
	wire   propagation.TraceContext
}

// New makes a tracer, and the function that delivers what is left and ends it. Without a place for spans the tracer is
// nil and the function does nothing.
func New(c Config) (*Tracer, func(context.Context) error) {
	if c.To == nil {
		return nil, func(context.Context) error { return nil }
	}
	return newTracer(c, sdk.WithBatcher(c.To))
}

func newTracer(c Config, to sdk.TracerProviderOption) (*Tracer, func(context.Context) error) {
	p := sdk.NewTracerProvider(to, sdk.WithResource(c.About),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.SampleRatio))))
	return &Tracer{tracer: p.Tracer(otlp.Scope, trace.WithInstrumentationVersion(c.Version))}, p.Shutdown
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
