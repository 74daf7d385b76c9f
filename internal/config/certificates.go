package config

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/pemfile"
)

// Certificate is one that this router shows, to clients or to servers.
type Certificate struct {
	Setting string // that names its file
	*x509.Certificate
}

// Certificates reads those that this router shows. Faults of files are those of their settings.
func (c Config) Certificates() (all []Certificate) {
	add := func(setting, chain, key string) {
		if chain == "" {
			return
		}
		if pair, err := pemfile.KeyPair(chain, key); err == nil {
			all = append(all, Certificate{setting, pair.Leaf})
		}
	}
	add("tls.cert", c.TLS.Cert, c.TLS.Key)
	add("admin.tls.cert", c.Admin.TLS.Cert, c.Admin.TLS.Key)
	add("engine_tls.cert", c.EngineTLS.Cert, c.EngineTLS.Key)
	for i, h := range c.EngineTLS.Hosts {
		add(fmt.Sprintf("engine_tls.hosts[%d].cert", i), h.Cert, h.Key)
	}
	add("peers.redis.cert_file", c.Peers.Redis.CertFile, c.Peers.Redis.KeyFile)
	add("otlp.cert", c.OTLP.Cert, c.OTLP.Key)
	return all
}

// Trouble says that the certificate is not valid, or soon no longer will be: less than a tenth of its time is left, so
// that what renews it is late. It is "" while all is well.
func (c Certificate) Trouble(now time.Time) string {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
	switch left := c.NotAfter.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("%s: the certificate ended at %s: it is refused; renew it", c.Setting, at(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Sprintf("%s: the certificate is not valid before %s: it is refused until then; see whether this "+
			"machine's clock is right", c.Setting, at(c.NotBefore))
	case left < c.NotAfter.Sub(c.NotBefore)/10:
		return fmt.Sprintf("%s: the certificate ends at %s; renew it", c.Setting, at(c.NotAfter))
	}
	return ""
}

func (c Config) certificateWarnings(now time.Time) (out []string) {
	for _, own := range c.Certificates() {
		if trouble := own.Trouble(now); trouble != "" {
			out = append(out, trouble)
		}
	}
	return out
}
