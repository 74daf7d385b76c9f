// Package otlp is the way to an OpenTelemetry collector: it delivers spans, what the registry of metrics has gathered,
// and lines of the log (OTLP specification 1.x). Who makes these never waits for a collector. What cannot be delivered
// is bounded and lost, and the log says so once. It holds sizes, names and times, never text of requests.
package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/warmpath/warmpath/internal/httpclient"
)

// Scope names the origin of all that is delivered.
const Scope = "github.com/warmpath/warmpath"

// Paths below the collector's address (OTLP specification 1.x, "OTLP/HTTP Request").
const (
	spansPath   = "/v1/traces"
	metricsPath = "/v1/metrics"
	logsPath    = "/v1/logs"
)

// Config says where things go, and what. The zero value is "nowhere". Headers, time-outs and certificates that it does
// not have come from the standard environment variables OTEL_EXPORTER_OTLP_*.
type Config struct {
	Endpoint string // http:// or https:// address of a collector, such as http://127.0.0.1:4318; "" delivers nothing
	GRPC     bool   // the collector speaks gRPC, commonly at port 4317; false is protobuf over HTTP

	Spans, Metrics, Logs bool
	// SpansTo is another address for spans, which are then delivered even without Endpoint. Without a path it is
	// completed.
	SpansTo string

	Headers  map[string]string // sent with each delivery
	TLS      *tls.Config       // for https:// addresses; nil is the system's
	Interval time.Duration     // between two deliveries of metrics; 0 means a minute

	Service string // service.name
	// service.instance.id, which tells the series of several routers apart; OTEL_RESOURCE_ATTRIBUTES may say another
	Instance string
	Version  string // of this program

	Log *slog.Logger // hears when something cannot be delivered; nil is silent
}

// resource describes this router in all that is delivered.
func (c Config) resource(ctx context.Context) (*resource.Resource, error) {
	named := []attribute.KeyValue{attribute.String("service.name", c.Service)}
	if c.Version != "" {
		named = append(named, attribute.String("service.version", c.Version))
	}
	var instance []attribute.KeyValue
	if c.Instance != "" {
		instance = append(instance, attribute.String("service.instance.id", c.Instance))
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(instance...),
		resource.WithFromEnv(), resource.WithAttributes(named...))
	if err != nil {
		return nil, fmt.Errorf("otlp: resource: %w", err)
	}
	return r, nil
}

// below is the address of what is delivered over HTTP at path.
func (c Config) below(path string) string { return strings.TrimRight(c.Endpoint, "/") + path }

// spansAddress is where spans go, "" for nowhere.
func (c Config) spansAddress() string {
	if c.SpansTo != "" {
		if u, err := url.Parse(c.SpansTo); err == nil && strings.Trim(u.Path, "/") == "" {
			u.Path = spansPath
			return u.String()
		}
		return c.SpansTo
	}
	if c.Endpoint == "" || !c.Spans {
		return ""
	}
	return c.below(spansPath)
}

// Collector delivers spans and metrics. nil is valid and delivers nothing.
type Collector struct {
	cfg   Config
	about *resource.Resource
	spans trace.SpanExporter
	meter *metric.MeterProvider
	gone  context.Context // ended by end: deliveries under way are cut
	end   context.CancelFunc
}

// Open makes the way to a collector, nil where cfg delivers neither spans nor metrics. It connects to nothing.
func Open(ctx context.Context, cfg Config) (*Collector, error) {
	if cfg.spansAddress() == "" && (cfg.Endpoint == "" || !cfg.Metrics) {
		return nil, nil
	}
	about, err := cfg.resource(ctx)
	if err != nil {
		return nil, err
	}
	c := &Collector{cfg: cfg, about: about}
	c.gone, c.end = context.WithCancel(context.WithoutCancel(ctx))
	if cfg.spansAddress() != "" {
		to, err := cfg.dialSpans(ctx)
		if err != nil {
			return nil, fmt.Errorf("otlp: %w", err)
		}
		c.spans = &spans{to, cfg.delivery(c.gone, "spans")}
	}
	return c, nil
}

func (c Config) dialSpans(ctx context.Context) (trace.SpanExporter, error) {
	if c.GRPC {
		o := []otlptracegrpc.Option{
			otlptracegrpc.WithEndpointURL(c.spansAddress()),
			otlptracegrpc.WithDialOption(grpc.WithMaxHeaderListSize(httpclient.HeadBytes)),
		}
		if len(c.Headers) > 0 {
			o = append(o, otlptracegrpc.WithHeaders(c.Headers))
		}
		if c.TLS != nil && secure(c.spansAddress()) {
			o = append(o, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(c.TLS)))
		}
		return otlptracegrpc.New(ctx, o...)
	}
	o := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(c.spansAddress())}
	if len(c.Headers) > 0 {
		o = append(o, otlptracehttp.WithHeaders(c.Headers))
	}
	client, err := c.client("TRACES")
	if err != nil {
		return nil, err
	}
	o = append(o, otlptracehttp.WithHTTPClient(client))
	return otlptracehttp.New(ctx, o...)
}

// secure is true of addresses that are reached by TLS.
func secure(address string) bool { return strings.HasPrefix(address, "https://") }

// Spans takes spans, nil where none are delivered.
func (c *Collector) Spans() trace.SpanExporter {
	if c == nil {
		return nil
	}
	return c.spans
}

// About describes this router, for spans; nil where nothing is delivered.
func (c *Collector) About() *resource.Resource {
	if c == nil {
		return nil
	}
	return c.about
}

// Measure begins to deliver what g gathers, where metrics are delivered. It is called once.
func (c *Collector) Measure(ctx context.Context, g prometheus.Gatherer) error {
	if c == nil || c.cfg.Endpoint == "" || !c.cfg.Metrics {
		return nil
	}
	reader, err := c.cfg.newReader(ctx, g, c.gone)
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	c.meter = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(c.about))
	return nil
}

// Close delivers the metrics as they are now, until ctx ends, and then nothing more. Who makes spans ends before.
func (c *Collector) Close(ctx context.Context) error {
	if c == nil {
		return nil
	}
	defer c.end()
	if c.meter == nil {
		return nil
	}
	if err := c.meter.Shutdown(ctx); err != nil {
		return fmt.Errorf("otlp: the last metrics are lost: %w", err)
	}
	return nil
}

func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// delivery is what is known of the deliveries of one kind of thing. It keeps a collector that is away from reaching
// OpenTelemetry's global error handler: it says once when delivery begins to fail, and once when it works again.
type delivery struct {
	what string
	gone context.Context // cuts what is under way, which OpenTelemetry's queues would wait for
	log  *slog.Logger

	mu      sync.Mutex
	failing bool
	lost    int
}

func (c Config) delivery(gone context.Context, what string) delivery {
	return delivery{what: what, gone: gone, log: c.log()}
}

// of delivers n things.
func (t *delivery) of(ctx context.Context, n int, send func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.gone, cancel)()
	t.tell(send(ctx), n)
}

// tell notes the outcome of a delivery of n things.
func (t *delivery) tell(err error, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.lost += n
		if !t.failing {
			t.log.Warn("otlp: "+t.what+" cannot be delivered", "error", err.Error())
		}
	case t.failing:
		t.log.Info("otlp: "+t.what+" are delivered again", "lost", t.lost)
		t.lost = 0
	}
	t.failing = err != nil
}

// spans delivers spans.
type spans struct {
	trace.SpanExporter
	delivery
}

// ExportSpans delivers spans, or counts them as lost.
func (s *spans) ExportSpans(ctx context.Context, all []trace.ReadOnlySpan) error {
	s.of(ctx, len(all), func(ctx context.Context) error { return s.SpanExporter.ExportSpans(ctx, all) })
	return nil
}

// HearFaults has log hear what OpenTelemetry's parts say to nobody in particular, such as that a collector refused some
// of what it was sent: the first at level warn, further ones at debug.
func HearFaults(log *slog.Logger) { otel.SetErrorHandler(faultHandler(log)) }

func faultHandler(log *slog.Logger) otel.ErrorHandler {
	var first sync.Once
	return otel.ErrorHandlerFunc(func(err error) {
		if err == nil || errors.Is(err, context.Canceled) {
			return
		}
		level := slog.LevelDebug
		first.Do(func() { level = slog.LevelWarn })
		log.Log(context.Background(), level, "otlp: fault", "error", err.Error())
	})
}
