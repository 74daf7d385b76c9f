package otlp

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/pemfile"
)

// usualTimeout is that of one delivery (OpenTelemetry's OTEL_EXPORTER_OTLP_TIMEOUT).
const usualTimeout = 10 * time.Second

// client delivers one kind of thing (TRACES, METRICS, LOGS) over HTTP. It is not the exporter's own, which follows
// redirects and takes answers whose head fills the memory; so it reads the standard variables for a client itself, one
// for this kind before one for all (OpenTelemetry specification, "OpenTelemetry Protocol Exporter").
func (c Config) client(kind string) (*http.Client, error) {
	variable := func(name string) (value, from string) {
		for _, from := range []string{"OTEL_EXPORTER_OTLP_" + kind + "_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if v := os.Getenv(from); v != "" {
				return v, from
			}
		}
		return "", ""
	}
	transport := httpclient.Transport()
	transport.Proxy = http.ProxyFromEnvironment // a collector may be elsewhere; over gRPC it is asked so too
	if transport.TLSClientConfig = c.TLS; c.TLS == nil {
		secure := &tls.Config{MinVersion: tls.VersionTLS12}
		if file, from := variable("CERTIFICATE"); file != "" {
			var err error
			if secure.RootCAs, err = pemfile.Authorities(file); err != nil {
				return nil, fmt.Errorf("%s: %w", from, err)
			}
		}
		chain, from := variable("CLIENT_CERTIFICATE")
		key, _ := variable("CLIENT_KEY")
		if chain != "" && key != "" {
			pair, err := pemfile.KeyPair(chain, key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", from, err)
			}
			secure.Certificates = []tls.Certificate{pair}
		}
		transport.TLSClientConfig = secure
	}
	client := httpclient.New(transport)
	client.Timeout = usualTimeout
	if text, from := variable("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 0 {
			return nil, fmt.Errorf("%s is %q, must be a number of milliseconds", from, text)
		}
		client.Timeout = time.Duration(ms) * time.Millisecond
	}
	return client, nil
}
