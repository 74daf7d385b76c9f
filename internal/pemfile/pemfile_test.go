package pemfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// issue writes a certificate with this number, and its key.
func issue(t *testing.T, number int64, chain, private string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		chain: {Type: "CERTIFICATE", Bytes: der}, private: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRenewed: each handshake gets the certificate that is in the files then; while there is none, or one with another
// one's key, the last one goes on.
func TestRenewed(t *testing.T) {
	dir := t.TempDir()
	chain, key := filepath.Join(dir, "chain"), filepath.Join(dir, "key")
	if _, err := Renewed(chain, key); err == nil {
		t.Error("files that are not there are no error")
	}
	issue(t, 1, chain, key)
	current, err := Renewed(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		change func()
		want   int64
	}{
		{"at first", func() {}, 1},
		{"renewed", func() { issue(t, 2, chain, key) }, 2},
		{"half written", func() { issue(t, 3, chain, filepath.Join(dir, "other")) }, 2},
		{"gone", func() { _ = os.Remove(chain) }, 2},
		{"back", func() { issue(t, 4, chain, key) }, 4},
	} {
		row.change()
		got, err := current(nil)
		if err != nil || got.Leaf.SerialNumber.Int64() != row.want {
			t.Errorf("%s: number %v, %v; want %d", row.name, got.Leaf.SerialNumber, err, row.want)
		}
	}
}
