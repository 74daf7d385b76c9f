package config

import (
	"crypto/x509"
	"testing"
	"time"
)

// TestCertificateTrouble: a certificate is told in the last tenth of its time, after its end and before its beginning.
func TestCertificateTrouble(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := Certificate{"tls.cert", &x509.Certificate{NotBefore: from, NotAfter: from.Add(100 * time.Hour)}}
	for _, row := range []struct {
		hours int
		want  string
	}{
		{-1, "tls.cert: the certificate is not valid before 2026-01-01 00:00 UTC: it is refused until then; " +
			"see whether this machine's clock is right"},
		{0, ""},
		{90, ""},
		{91, "tls.cert: the certificate ends at 2026-01-05 04:00 UTC; renew it"},
		{100, "tls.cert: the certificate ended at 2026-01-05 04:00 UTC: it is refused; renew it"},
	} {
		if got := c.Trouble(from.Add(time.Duration(row.hours) * time.Hour)); got != row.want {
			t.Errorf("after %d h: %q, want %q", row.hours, got, row.want)
		}
	}
}
