package config

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// The values of OTLP.Protocol and OTLP.Signals.
const (
	otlpHTTP = "http"
	otlpGRPC = "grpc"

	signalTraces  = "traces"
	signalMetrics = "metrics"
	signalLogs    = "logs"
)

// OTLP sends spans, metrics and log lines to an OpenTelemetry collector. What it does not say is as the standard
// variables OTEL_EXPORTER_OTLP_* say.
type OTLP struct {
	// Endpoint of the collector, such as http://127.0.0.1:4318. Over HTTP /v1/metrics and the like are put behind its
	// path. Empty sends nothing, except spans to tracing.endpoint.
	Endpoint string `yaml:"endpoint"`
	// Protocol of the collector: http (protobuf over HTTP), or grpc, for which collectors commonly listen at port 4317.
	Protocol string `yaml:"protocol"`
	// Signals are what is sent: traces, metrics, logs. Unset means all three.
	Signals []string `yaml:"signals"`
	// Headers are sent with all of it, such as Authorization. OTEL_EXPORTER_OTLP_HEADERS keeps secrets out of the file.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// CA is a file with authorities, PEM, that the collector's certificate may be of, instead of the system's.
	CA string `yaml:"ca"`
	// Cert is a file with the certificate that is shown to a collector that asks for one, PEM.
	Cert string `yaml:"cert"`
	// Key is the file of its private key, PEM.
	Key string `yaml:"key"`
	// Interval between two deliveries of metrics, at least 1s.
	Interval time.Duration `yaml:"interval"`
}

// GRPC reports whether the collector speaks gRPC.
func (o OTLP) GRPC() bool { return o.Protocol == otlpGRPC }

// Traces reports whether spans are sent to Endpoint.
func (o OTLP) Traces() bool { return slices.Contains(o.Signals, signalTraces) }

// Metrics reports whether metrics are sent.
func (o OTLP) Metrics() bool { return slices.Contains(o.Signals, signalMetrics) }

// Logs reports whether log lines are sent.
func (o OTLP) Logs() bool { return slices.Contains(o.Signals, signalLogs) }

// TLS reads the files; nil as the system says.
func (o OTLP) TLS() (*tls.Config, error) {
	return EngineTLS{CA: o.CA, Cert: o.Cert, Key: o.Key}.load("otlp")
}

// Files are those that are read.
func (o OTLP) Files() []string { return EngineTLS{CA: o.CA, Cert: o.Cert, Key: o.Key}.Files() }

func (o OTLP) check() []error {
	faults := append(checkCollector("otlp.endpoint", o.Endpoint),
		oneOf("otlp.protocol", o.Protocol, otlpHTTP, otlpGRPC)...)
	for i, name := range o.Signals {
		path := fmt.Sprintf("otlp.signals[%d]", i)
		faults = append(faults, oneOf(path, name, signalTraces, signalMetrics, signalLogs)...)
		if slices.Contains(o.Signals[:i], name) {
			faults = append(faults, fault(path, "%q is there already", name))
		}
	}
	for name, value := range o.Headers {
		if name == "" || !headerName(name) || controls(value) {
			faults = append(faults, fault("otlp.headers",
				"%q is not a header's name, or its value has line breaks or other control characters", name))
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		faults = append(faults, fault("otlp", "needs both cert and key"))
	}
	if o.Interval < time.Second {
		faults = append(faults, fault("otlp.interval", "is %v, must be 1s or more", o.Interval))
	}
	return faults
}

// checkCollector reports an address that is not one; it may be empty.
func checkCollector(path, address string) []error {
	if address == "" {
		return nil
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return []error{fault(path, "is not an http:// or https:// address, such as http://127.0.0.1:4318")}
	}
	return nil
}
