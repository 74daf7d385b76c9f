package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// selfSigned writes a certificate with a number, and its key.
func selfSigned(t *testing.T, cert, key string, number int64) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: sealed},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificateIsReloaded: the next handshake has the new certificate; one that does not fit its key is rejected, and
// the old one stays.
func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key, 1)
	var log lockedBuffer
	f := newFileRigWith(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'http://127.0.0.1:1'")+
		"tls: {cert: "+cert+", key: "+key+"}\n", &log)
	shown := func() int64 {
		t.Helper()
		c, err := tls.Dial("tcp", strings.TrimPrefix(f.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := shown(); n != 1 {
		t.Errorf("certificate %d", n)
	}
	selfSigned(t, cert, key, 2)
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if n := shown(); n != 2 {
		t.Errorf("certificate %d after the reload, want 2", n)
	}
	if said := log.String(); !strings.Contains(said, `changed="`+cert+", "+key+`"`) {
		t.Errorf("the log does not say which files changed:\n%s", said)
	}
	selfSigned(t, cert, filepath.Join(dir, "other.pem"), 3)
	if _, err := f.reload(); err == nil || !strings.Contains(err.Error(), "tls") {
		t.Errorf("a certificate without its key: %v", err)
	}
	if n := shown(); n != 2 {
		t.Errorf("certificate %d, want the one of before", n)
	}
}

// TestCertificateThatEnds: metrics and the page name a certificate near its end, and one more once a reload has read
// it.
func TestCertificateThatEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key, 1) // the last hour of a long time
	text := fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'http://127.0.0.1:1'")
	f := newFileRig(t, text+"tls: {cert: "+cert+", key: "+key+"}\n")
	told := func(setting string) (series, trouble bool) {
		t.Helper()
		_, metrics := fetched(t, "GET", f.adminURL+"/metrics", "")
		_, troubles := fetched(t, "GET", f.adminURL+"/admin/troubles", "")
		return strings.Contains(metrics, "warmpath_certificate_end_timestamp_seconds{setting=\""+setting+"\"}"),
			strings.Contains(troubles, setting+": the certificate ends at ")
	}
	if series, trouble := told("tls.cert"); !series || !trouble {
		t.Errorf("at the start: series %v, trouble %v", series, trouble)
	}
	if series, trouble := told("engine_tls.cert"); series || trouble {
		t.Errorf("without one: series %v, trouble %v", series, trouble)
	}
	f.write(text + "tls: {cert: " + cert + ", key: " + key + "}\nengine_tls: {cert: " + cert + ", key: " + key + "}\n")
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if series, trouble := told("engine_tls.cert"); !series || !trouble {
		t.Errorf("after the reload: series %v, trouble %v", series, trouble)
	}
	cfg, err := config.Load(f.path, nil, discovery.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(cfg.Warnings(), "\n")
	for _, setting := range []string{"tls.cert", "engine_tls.cert"} {
		if !strings.Contains(warnings, setting+": the certificate ends at ") {
			t.Errorf("check and the log do not name %s: %s", setting, warnings)
		}
	}
}
