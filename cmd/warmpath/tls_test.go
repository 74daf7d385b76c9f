package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// authority signs certificates in a folder of its own.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), next: 2}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.put("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) put(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.pem and NAME.key, a certificate for hosts, or of a client if there are none.
func (a *authority) sign(name string, hosts ...string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	a.next++
	for _, h := range hosts {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	sealed, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.put(name+".pem", "CERTIFICATE", der)
	a.put(name+".key", "PRIVATE KEY", sealed)
}

// client calls servers whose certificates are of the authority, and shows the certificate of a name, if there is one.
func (a *authority) client(name string) *http.Client {
	a.t.Helper()
	cert, key := "", ""
	if name != "" {
		cert, key = a.file(name+".pem"), a.file(name+".key")
	}
	c, err := config.ClientTLS(a.file("ca.pem"), cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// engine is a simulated engine behind TLS, which serves only who shows a certificate of the authority. asked is the
// name that was asked for last.
func (a *authority) engine(name string) (url string, asked *atomic.Value) {
	a.t.Helper()
	e, err := enginetest.New(enginetest.Options{Models: []string{"m"}, Speed: 20})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = e.Close() })
	a.sign(name, name)
	c, err := config.TLS{Cert: a.file(name + ".pem"), Key: a.file(name + ".key"), ClientCA: a.file("ca.pem")}.Load("")
	if err != nil {
		a.t.Fatal(err)
	}
	asked = &atomic.Value{}
	s := httptest.NewUnstartedServer(e)
	s.TLS = c
	s.TLS.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		asked.Store(h.ServerName)
		return nil, nil
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	a.t.Cleanup(s.Close)
	return s.URL, asked
}

// TestTLS: certificates on both listeners and towards engines, shown and asked for, by both transports; they are read
// again with the configuration.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"lean", "lean-listener", "net/http"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t)
			for _, name := range []string{"router", "user", "other"} {
				a.sign(name)
			}
			a.sign("front", "127.0.0.1")
			first, askedFirst := a.engine("first.test")
			second, askedSecond := a.engine("second.test")
			settings := fmt.Sprintf(`
listen: 127.0.0.1:0
transport: %s
reload: {watch: false}
probe: {interval: 50ms, timeout: 2m}
policy: round_robin
tls: {cert: DIR/front.pem, key: DIR/front.key, client_ca: DIR/ca.pem}
admin: {listen: "127.0.0.1:0", tls: {cert: DIR/front.pem, key: DIR/front.key, client_ca: DIR/ca.pem}}
engine_tls:
  {ca: DIR/ca.pem, cert: DIR/router.pem, key: DIR/router.key, server_name: first.test, hosts: [{host: %q, server_name: second.test}]}
endpoints: [{url: %q, name: e0}, {url: %q, name: e1}]
`, transport, strings.TrimPrefix(second, "https://"), first, second)
			f := newFileRig(t, strings.ReplaceAll(settings, "DIR", a.dir))
			for _, url := range []string{f.url + "/healthz", f.adminURL + "/healthz"} {
				if !strings.HasPrefix(url, "https://") {
					t.Fatalf("%s is not https", url)
				}
				if res, err := a.client("").Get(url); err == nil {
					_ = res.Body.Close()
					t.Errorf("%s answers a client without a certificate: %d", url, res.StatusCode)
				}
				if res, err := newAuthority(t).client("").Get(url); err == nil {
					_ = res.Body.Close()
					t.Errorf("%s has a certificate of a stranger's authority", url)
				}
			}
			user := a.client("user")
			ask := func() string {
				t.Helper()
				res, err := user.Post(f.url+"/v1/chat/completions", "application/json", strings.NewReader(
					`{"model":"m","stream":true,"max_tokens":3,"messages":[{"role":"user","content":"x"}]}`))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(b), "[DONE]") {
					t.Fatalf("%d %v %s", res.StatusCode, err, b)
				}
				return res.Proto
			}
			for range 4 {
				if proto := ask(); proto != "HTTP/2.0" {
					t.Errorf("the client was answered by %s", proto)
				}
			}
			if askedFirst.Load() != "first.test" || askedSecond.Load() != "second.test" {
				t.Errorf("engines were asked for %v and %v", askedFirst.Load(), askedSecond.Load())
			}
			// The command line reaches the admin listener with the same files.
			run := func(more ...string) (string, int) {
				var out, said bytes.Buffer
				code := Main(context.Background(), append([]string{"endpoints", "--admin", f.adminURL}, more...),
					nil, nil, &out, &said)
				return out.String() + said.String(), code
			}
			if text, code := run("--ca", a.file("ca.pem"), "--cert", a.file("user.pem"),
				"--key", a.file("user.key")); code != exitOK || !strings.Contains(text, "e1") {
				t.Errorf("code %d: %s", code, text)
			}
			for _, more := range [][]string{nil, {"--ca", a.file("ca.pem")}} {
				if text, code := run(more...); code != exitRuntime {
					t.Errorf("%v: code %d: %s", more, code, text)
				}
			}
			if text, code := run("--cert", a.file("user.pem")); code != exitUsage ||
				!strings.Contains(text, "needs its key") {
				t.Errorf("code %d: %s", code, text)
			}
			// New certificates are taken by a reload: the listeners', and that of the router towards engines.
			before := f.current().transport
			a.sign("front", "127.0.0.1")
			a.sign("router")
			if _, err := f.reload(); err != nil {
				t.Fatal(err)
			}
			user.CloseIdleConnections()
			if f.current().transport == before {
				t.Error("engines are still connected to with the old certificate")
			}
			ask()
			c, err := tls.Dial("tcp", strings.TrimPrefix(f.adminURL, "https://"),
				user.Transport.(*http.Transport).TLSClientConfig)
			if err != nil {
				t.Fatal(err)
			}
			if n := c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); n != a.next-2 {
				t.Errorf("the admin listener shows certificate %d, want %d", n, a.next-2)
			}
			_ = c.Close()
			// The same without a change keeps connections.
			before = f.current().transport
			if _, err := f.reload(); err != nil || f.current().transport != before {
				t.Errorf("a reload without a change: %v", err)
			}
			// An authority that is no certificate is refused, and the old one stays.
			if err := os.WriteFile(a.file("ca.pem"), []byte("nothing"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := f.reload(); err == nil ||
				!strings.Contains(err.Error(), "client_ca") && !strings.Contains(err.Error(), "engine_tls") {
				t.Errorf("an empty authority: %v", err)
			}
			ask()
		})
	}
}

// TestEngineOfAStranger: an engine whose certificate is of no authority that is known is not asked anything.
func TestEngineOfAStranger(t *testing.T) {
	t.Parallel()
	a, strangers := newAuthority(t), newAuthority(t)
	url, _ := strangers.engine("e.test")
	a.sign("router")
	f := newFileRig(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
engine_tls: {ca: %s, server_name: e.test}
endpoints: [{url: %q, name: e}]
`, a.file("ca.pem"), url))
	status, said := fetched(t, http.MethodPost, f.url+"/v1/chat/completions", `{"model":"m","messages":[]}`)
	if status != http.StatusServiceUnavailable && status != http.StatusBadGateway && status != http.StatusNotFound {
		t.Errorf("%d %s", status, said)
	}
	s := f.fleet.Status()[0]
	if s.State == fleet.StateUp || !strings.Contains(s.Detail, "certificate") {
		t.Errorf("%s %q", s.State, s.Detail)
	}
}

// TestTLSFaults: what is wrong is said with its setting.
func TestTLSFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tls: {client_ca: /x}":                     "tls.client_ca: needs cert and key",
		"admin: {tls: {cert: /x}}":                 "admin.tls: needs both",
		"engine_tls: {key: /x}":                    "engine_tls: needs both",
		"engine_tls: {hosts: [{host: https://a}]}": "engine_tls.hosts[0].host: is \"https://a\"",
		"engine_tls: {hosts: [{host: A}, {host: 'a:443'}]}": "engine_tls.hosts[1].host: " +
			"a:443 is given twice",
		"engine_tls: {ca: /does/not/exist}": "engine_tls.ca: open /does/not/exist",
		"engine_tls: {hosts: [{host: a, cert: /does/not/exist, key: /no/more}]}": "engine_tls.hosts[0].cert: " +
			"open /does/not/exist",
	} {
		file := filepath.Join(t.TempDir(), "w.yaml")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		if code := Main(t.Context(), []string{"check", "-c", file}, nil, nil, &out, &said); code != exitUsage ||
			!strings.Contains(said.String(), want) ||
			!strings.Contains(text, "/does/not/") && !strings.Contains(said.String(), "w.yaml:1:") {
			t.Errorf("%s: code %d: %s", text, code, said.String())
		}
	}
}
