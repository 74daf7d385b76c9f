// Package pemfile reads certificates and keys in PEM from files, for TLS. It promises that no file fills the memory or
// keeps the caller waiting for ever (package wholefile). It knows nothing of settings: callers say whose file it is.
package pemfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"

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

// Renewed has the certificate chain and private key in files read for each handshake, so that they may be renewed while
// connections come and go. While the files have none, it is the one read last. It is an error if they have none now.
func Renewed(chain, key string) (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	first, err := KeyPair(chain, key)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&first)
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if now, err := KeyPair(chain, key); err == nil {
			last.Store(&now)
		}
		return last.Load(), nil
	}, nil
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
	return tls.X509KeyPair(certificates, private)
}
