package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/embedded"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/warmpath/warmpath/internal/httpclient"
)

// The bounds of lines that wait: how many, and how long a value in them may be. When they are full the oldest are lost.
const (
	mostLines = 2048
	longest   = 4096
)

// Logs delivers lines of the log, to the collector that Use said last. Nothing is kept before the first.
type Logs struct {
	embedded.LoggerProvider
	level slog.Leveler
	now   atomic.Pointer[way]
}

// way is that of lines to one collector.
type way struct {
	to    log.Logger
	queue *sdk.BatchProcessor // it ends whatever ctx it is told to end within, the provider does not
	end   context.CancelFunc  // cuts a delivery under way
}

// NewLogs makes the way of lines of a level or above.
func NewLogs(level slog.Leveler) *Logs { return &Logs{level: level} }

// Handler takes lines. It never waits.
func (l *Logs) Handler() slog.Handler {
	return otelslog.NewHandler(Scope, otelslog.WithLoggerProvider(l))
}

// Use delivers further lines as cfg says, and what is left to the collector before, until ctx ends. Close is Use of a
// zero Config.
func (l *Logs) Use(ctx context.Context, cfg Config) error {
	next, err := cfg.newWay(ctx)
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	if before := l.now.Swap(next); before != nil {
		defer before.end()
		if err := before.queue.Shutdown(ctx); err != nil {
			return fmt.Errorf("otlp: the last log lines are lost: %w", err)
		}
	}
	return nil
}

// Logger is the same for all scopes, of which there is one.
func (l *Logs) Logger(string, ...log.LoggerOption) log.Logger { return lines{Logs: l} }

// lines passes lines on to the delivery of the moment.
type lines struct {
	embedded.Logger
	*Logs
}

// Emit queues a line.
func (l lines) Emit(ctx context.Context, r log.Record) {
	if d := l.now.Load(); d != nil {
		d.to.Emit(ctx, r)
	}
}

// Enabled is true of the log's level and above, while lines are delivered. OpenTelemetry's INFO is 9, slog's 0, and
// both leave four between their levels.
func (l lines) Enabled(_ context.Context, p log.EnabledParameters) bool {
	return l.now.Load() != nil && p.Severity-log.SeverityInfo >= log.Severity(l.level.Level())
}

func (c Config) newWay(ctx context.Context) (*way, error) {
	if c.Endpoint == "" || !c.Logs {
		return nil, nil
	}
	about, err := c.resource(ctx)
	if err != nil {
		return nil, err
	}
	to, err := c.dialLogs(ctx)
	if err != nil {
		return nil, err
	}
	gone, end := context.WithCancel(context.WithoutCancel(ctx))
	queue := sdk.NewBatchProcessor(&records{to, c.delivery(gone, "log lines")}, sdk.WithMaxQueueSize(mostLines))
	p := sdk.NewLoggerProvider(sdk.WithResource(about), sdk.WithProcessor(queue),
		sdk.WithAttributeValueLengthLimit(longest))
	return &way{p.Logger(Scope, log.WithInstrumentationVersion(c.Version)), queue, end}, nil
}

func (c Config) dialLogs(ctx context.Context) (sdk.Exporter, error) {
	if c.GRPC {
		o := []otlploggrpc.Option{
			otlploggrpc.WithEndpointURL(c.Endpoint),
			otlploggrpc.WithDialOption(grpc.WithMaxHeaderListSize(httpclient.HeadBytes)),
		}
		if len(c.Headers) > 0 {
			o = append(o, otlploggrpc.WithHeaders(c.Headers))
		}
		if c.TLS != nil && secure(c.Endpoint) {
			o = append(o, otlploggrpc.WithTLSCredentials(credentials.NewTLS(c.TLS)))
		}
		return otlploggrpc.New(ctx, o...)
	}
	o := []otlploghttp.Option{otlploghttp.WithEndpointURL(c.below(logsPath))}
	if len(c.Headers) > 0 {
		o = append(o, otlploghttp.WithHeaders(c.Headers))
	}
	client, err := c.client("LOGS")
	if err != nil {
		return nil, err
	}
	o = append(o, otlploghttp.WithHTTPClient(client))
	return otlploghttp.New(ctx, o...)
}

// records delivers lines.
type records struct {
	sdk.Exporter
	delivery
}

// Export delivers lines, or counts them as lost.
func (r *records) Export(ctx context.Context, all []sdk.Record) error {
	r.of(ctx, len(all), func(ctx context.Context) error { return r.Exporter.Export(ctx, all) })
	return nil
}
