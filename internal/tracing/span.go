package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// Span is the server span of one client request. nil is valid and does nothing.
type Span struct {
	t    *Tracer
	ctx  context.Context
	span trace.Span
}

// Attempt is the client span of one attempt at an endpoint. nil is valid and does nothing.
type Attempt struct {
	t    *Tracer
	ctx  context.Context
	span trace.Span
}

// Attempt begins the span of an attempt at the endpoint that was decided on.
func (s *Span) Attempt(d *route.Decision) *Attempt {
	if s == nil {
		return nil
	}
	ctx, span := s.t.tracer.Start(s.ctx, "attempt", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(decided(d)...)
	}
	return &Attempt{t: s.t, ctx: ctx, span: span}
}

// Inject puts the attempt into the header of the request to the engine, in place of the client's own trace context.
func (a *Attempt) Inject(h http.Header) {
	if a == nil {
		return
	}
	a.t.wire.Inject(a.ctx, propagation.HeaderCarrier(h))
}

// FirstByte notes the moment the answer's first data came.
func (a *Attempt) FirstByte() {
	if a == nil {
		return
	}
	a.span.AddEvent("first_byte")
}

// End ends the span of an attempt. status is the engine's HTTP status, 0 when none came.
func (a *Attempt) End(o fleet.Outcome, status int) {
	if a == nil {
		return
	}
	if a.span.IsRecording() {
		a.span.SetAttributes(attribute.String("warmpath.outcome", o.String()))
		if status > 0 {
			a.span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if blamed(o) || o == fleet.ClientError {
			a.span.SetStatus(codes.Error, o.String())
		}
	}
	a.span.End()
}

// End ends the span of a request with all that is known of it, and notes the trace there. A client's own mistake (4xx)
// does not make a server span an error (OpenTelemetry semantic conventions 1.37, HTTP spans, "Status").
func (s *Span) End(served *live.Served) {
	if s == nil {
		return
	}
	if s.span.IsRecording() && served != nil {
		if is := s.span.SpanContext(); is.IsSampled() {
			served.Trace = is.TraceID().String()
		}
		s.span.SetAttributes(story(served)...)
		if !served.FirstByte.IsZero() {
			s.span.AddEvent("first_byte", trace.WithTimestamp(served.FirstByte))
		}
		if served.Status >= 500 || (served.Outcome != fleet.OK && blamed(served.Outcome)) {
			s.span.SetStatus(codes.Error, served.Outcome.String())
		}
	}
	s.span.End()
}

// blamed is true of outcomes that are the engine's or the network's doing.
func blamed(o fleet.Outcome) bool {
	switch o {
	case fleet.Busy, fleet.EngineError, fleet.ConnectFailed, fleet.TimedOut:
		return true
	}
	return false
}

// decided describes a decision. Names under gen_ai and http are OpenTelemetry's (semantic conventions 1.37), those
// under warmpath are ours.
func decided(d *route.Decision) []attribute.KeyValue {
	kv := []attribute.KeyValue{
		attribute.String("warmpath.endpoint", d.Endpoint.Name),
		attribute.String("warmpath.pool", d.Pool),
		attribute.String("warmpath.policy", d.Policy),
		attribute.String("warmpath.reason", string(d.Reason)),
		attribute.String("warmpath.engine", string(d.Kind)),
		attribute.Int("warmpath.candidates", d.Candidates),
		attribute.Bool("warmpath.first_turn", d.FirstTurn),
		attribute.Int("warmpath.predicted_prompt_tokens", d.PromptTokens),
		attribute.Int("warmpath.predicted_cached_tokens", d.CachedTokens),
		attribute.String("gen_ai.request.model", d.Model),
	}
	if d.Why != "" {
		kv = append(kv, attribute.String("warmpath.leg", d.Leg.String()),
			attribute.String("warmpath.split", string(d.Why)))
	}
	return kv
}

func story(s *live.Served) []attribute.KeyValue {
	kv := []attribute.KeyValue{
		attribute.String("http.request.method", s.Method),
		attribute.String("url.path", s.Path),
		attribute.Int("http.response.status_code", s.Status),
		attribute.Int64("http.request.body.size", s.BytesIn),
		attribute.Int64("http.response.body.size", s.BytesOut),
		attribute.String("warmpath.request_id", s.ID),
		attribute.String("warmpath.api", s.API),
		attribute.Int("warmpath.attempts", s.Attempts),
		attribute.Bool("warmpath.stream", s.Stream),
	}
	if s.Error != "" {
		kv = append(kv, attribute.String("error.type", s.Error))
	}
	if s.Attempts > 0 {
		kv = append(kv, attribute.String("warmpath.outcome", s.Outcome.String()))
		kv = append(kv, decided(&s.Decision)...)
	}
	if d, ok := s.FirstToken(); ok {
		kv = append(kv, attribute.Float64("warmpath.ttft_seconds", d.Seconds()))
	}
	if u := s.Usage; u.PromptTokens > 0 || u.OutputTokens > 0 {
		kv = append(kv,
			attribute.Int("gen_ai.usage.input_tokens", u.PromptTokens),
			attribute.Int("gen_ai.usage.output_tokens", u.OutputTokens))
		if u.CachedKnown {
			kv = append(kv, attribute.Int("warmpath.cached_tokens", u.CachedTokens))
		}
	}
	return kv
}
