package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/wholefile"
)

const (
	usualTimeout = 10 * time.Second // of one delivery (OpenTelemetry's OTEL_EXPORTER_OTLP_TIMEOUT)
	pemBytes     = 4 << 20          // of a file of certificates
)

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
	if transport.TLSClientConfig = c.TLS; c.TLS == nil {
		secure := &tls.Config{MinVersion: tls.VersionTLS12}
		if file, from := variable("CERTIFICATE"); file != "" {
			pem, err := wholefile.Read(file, pemBytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", from, err)
			}
			if secure.RootCAs = x509.NewCertPool(); !secure.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s: %s holds no certificate (PEM)", from, file)
			}
		}
		chain, from := variable("CLIENT_CERTIFICATE")
		key, _ := variable("CLIENT_KEY")
		if chain != "" && key != "" {
			pair, err := keyPair(chain, key)
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

func keyPair(chain, key string) (tls.Certificate, error) {
	certificates, err := wholefile.Read(chain, pemBytes)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := wholefile.Read(key, pemBytes)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificates, private)
}
