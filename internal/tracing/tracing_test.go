package tracing

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The example of the W3C recommendation, section 3.2.
const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent      = "00-" + parentTrace + "-00f067aa0ba902b7-01"
)

func inMemory(t *testing.T, ratio float64) (*Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	e := tracetest.NewInMemoryExporter()
	tr, shutdown := newTracer(Config{SampleRatio: ratio}, sdk.WithSyncer(e))
	t.Cleanup(func() { _ = shutdown(context.Background()) })
	return tr, e
}

func decision() route.Decision {
	return route.Decision{
		Endpoint: fleet.Endpoint{Name: "gpu-1"}, Pool: "qwen", Model: "qwen", Policy: "session",
		Reason: pick.ReasonSession, CachedTokens: 60,
	}
}

func served() *live.Served {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &live.Served{
		ID: "req-1", API: "chat", Method: "POST", Path: "/v1/chat/completions", Status: 200, Attempts: 1,
		Started: t0, FirstByte: t0.Add(80 * time.Millisecond), Ended: t0.Add(time.Second), Stream: true,
		Decision: decision(),
		Usage:    fleet.Usage{PromptTokens: 100, CachedTokens: 70, OutputTokens: 20, CachedKnown: true},
	}
}

func attributes(s tracetest.SpanStub) map[attribute.Key]string {
	out := map[attribute.Key]string{}
	for _, kv := range s.Attributes {
		out[kv.Key] = kv.Value.String()
	}
	return out
}

func TestRequestAndAttempt(t *testing.T) {
	tr, e := inMemory(t, 0)
	d := decision()
	_, span := tr.Start(t.Context(), http.Header{"Traceparent": {parent}, "Tracestate": {"a=b"}},
		"POST /v1/chat/completions")
	a := span.Attempt(&d)
	h := http.Header{"Traceparent": {parent}}
	a.Inject(h)
	a.FirstByte()
	a.End(fleet.OK, 200)
	story := served()
	span.End(story)
	if story.Trace != parentTrace {
		t.Errorf("the request's trace is %q", story.Trace)
	}

	got := e.GetSpans()
	if len(got) != 2 {
		t.Fatalf("%d spans, want 2", len(got))
	}
	client, server := got[0], got[1]
	if server.SpanContext.TraceID().String() != parentTrace || server.Parent.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("the server span is not the caller's child: %v of %v",
			server.SpanContext.TraceID(), server.Parent.SpanID())
	}
	if client.Parent.SpanID() != server.SpanContext.SpanID() || client.SpanKind != trace.SpanKindClient ||
		server.SpanKind != trace.SpanKindServer {
		t.Error("the attempt is not a client span under the server span")
	}
	if want := "00-" + parentTrace + "-" + client.SpanContext.SpanID().String() + "-01"; h.Get("traceparent") != want {
		t.Errorf("sent to the engine: %q, want %q", h.Get("traceparent"), want)
	}
	if h.Get("tracestate") != "a=b" {
		t.Errorf("tracestate: %q, want a=b", h.Get("tracestate"))
	}
	for k, want := range map[attribute.Key]string{
		"warmpath.request_id": "req-1", "warmpath.endpoint": "gpu-1", "warmpath.reason": "session",
		"gen_ai.request.model":      "qwen",
		"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "20", "warmpath.cached_tokens": "70",
		"warmpath.ttft_seconds": "0.08", "http.response.status_code": "200", "warmpath.outcome": "ok",
	} {
		if got := attributes(server)[k]; got != want {
			t.Errorf("%s: got %q, want %q", k, got, want)
		}
	}
	if got := attributes(client)["warmpath.endpoint"]; got != "gpu-1" {
		t.Errorf("the attempt's endpoint: got %q", got)
	}
	if server.Status.Code != codes.Unset || len(client.Events) != 1 || len(server.Events) != 1 {
		t.Errorf("status %v, %d and %d events", server.Status, len(client.Events), len(server.Events))
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome fleet.Outcome
		status  int
		client  codes.Code
		server  codes.Code
	}{
		{"ok", fleet.OK, 200, codes.Unset, codes.Unset},
		{"client's mistake", fleet.ClientError, 400, codes.Error, codes.Unset},
		{"client left", fleet.ClientGone, 499, codes.Unset, codes.Unset},
		{"engine broke", fleet.EngineError, 500, codes.Error, codes.Error},
		{"broke within the stream", fleet.EngineError, 200, codes.Error, codes.Error},
	} {
		tr, e := inMemory(t, 1)
		d := decision()
		_, span := tr.Start(t.Context(), http.Header{}, "x")
		span.Attempt(&d).End(c.outcome, c.status)
		s := served()
		s.Outcome, s.Status = c.outcome, c.status
		span.End(s)
		if got := e.GetSpans(); got[0].Status.Code != c.client || got[1].Status.Code != c.server {
			t.Errorf("%s: got %v and %v, want %v and %v", c.name, got[0].Status.Code, got[1].Status.Code,
				c.client, c.server)
		}
	}
}

func TestNotSampledStillPropagates(t *testing.T) {
	tr, e := inMemory(t, 0)
	d := decision()
	_, span := tr.Start(t.Context(), http.Header{"Traceparent": {"garbage"}}, "x")
	a, h := span.Attempt(&d), http.Header{}
	a.Inject(h)
	a.End(fleet.OK, 200)
	span.End(served())
	if got := h.Get("traceparent"); !strings.HasSuffix(got, "-00") || len(got) != len(parent) {
		t.Errorf("traceparent: %q, want one that is not sampled", got)
	}
	if n := len(e.GetSpans()); n != 0 {
		t.Errorf("%d spans of a request that is not sampled", n)
	}
}

func TestOff(t *testing.T) {
	tr, shutdown := New(Config{SampleRatio: 7})
	if tr != nil || shutdown(t.Context()) != nil {
		t.Fatalf("off: %v", tr)
	}
	d, h := decision(), http.Header{"Traceparent": {parent}}
	allocs := testing.AllocsPerRun(100, func() {
		ctx, span := tr.Start(t.Context(), h, "x")
		a := span.Attempt(&d)
		a.Inject(h)
		a.FirstByte()
		a.End(fleet.OK, 200)
		span.End(nil)
		if ctx != t.Context() {
			t.Error("something was done")
		}
	})
	if allocs != 0 || h.Get("traceparent") != parent {
		t.Errorf("%v allocations, header %v", allocs, h)
	}
}

// TestDelivers: a tracer that ends has delivered what it was told.
func TestDelivers(t *testing.T) {
	e := &kept{}
	tr, shutdown := New(Config{To: e, SampleRatio: 1})
	_, span := tr.Start(t.Context(), http.Header{}, "POST /v1/messages")
	span.End(served())
	if err := shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(e.names, ","); got != "POST /v1/messages" {
		t.Errorf("delivered %q", got)
	}
}

// kept is an exporter that keeps names, also after its end.
type kept struct {
	sdk.SpanExporter
	names []string
}

func (k *kept) ExportSpans(_ context.Context, all []sdk.ReadOnlySpan) error {
	for _, s := range all {
		k.names = append(k.names, s.Name())
	}
	return nil
}

func (k *kept) Shutdown(context.Context) error { return nil }

func BenchmarkOff(b *testing.B) {
	var tr *Tracer
	d, h := decision(), http.Header{}
	for b.Loop() {
		_, span := tr.Start(b.Context(), h, "x")
		span.Attempt(&d).Inject(h)
		span.End(nil)
	}
}
