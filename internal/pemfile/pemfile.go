// Package pemfile reads certificates and keys in PEM from files, for TLS. It promises that no file fills the memory or
// keeps the caller waiting for ever (package wholefile). It knows nothing of settings: callers say whose file it is.
package pemfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// most is the largest file, in bytes.
const most = 4 << 20

// Authorities reads the certificates of authorities. A file without any is an error.
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := wholefile.Read(file, most)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate (PEM)", file)
	}
	return pool, nil
}

// KeyPair reads a certificate chain and its private key.
func KeyPair(chain, key string) (tls.Certificate, error) {
	certificates, err := wholefile.Read(chain, most)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := wholefile.Read(key, most)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certificates, private)
	if err != nil {
		return pair, fmt.Errorf("%s with the key %s: %w", chain, key, err)
	}
	return pair, nil
}
