package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// behind asks the router over a connection that begins with a header of the PROXY protocol, "" for none.
func behind(t *testing.T, r *router, proxied string) *http.Client {
	t.Helper()
	_, at, _ := strings.Cut(r.url, "://")
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
			if err == nil {
				_, err = io.WriteString(c, proxied)
			}
			return c, err
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

const proxied = "PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n"

const question = `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`

// TestTrustedProxies: who may do what by where it calls from is judged by the client, not by the proxy on the router's
// machine, and a reload changes who is trusted.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'http://127.0.0.1:1'")+
		"trusted_proxies: [127.0.0.0/8]\n")
	from := func() netip.Addr {
		req, err := http.NewRequest(http.MethodGet, f.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.RemoteAddr = "127.0.0.1:4711"
		req.Header.Set("X-Forwarded-For", "198.51.100.7")
		return f.source(req)
	}
	if got := from(); got != netip.MustParseAddr("198.51.100.7") {
		t.Errorf("through a trusted proxy: %v", got)
	}
	f.write(fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'http://127.0.0.1:1'"))
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if got := from(); !got.IsLoopback() {
		t.Errorf("through one that is trusted no more: %v", got)
	}
}

// TestPerfMetricsBehindAProxy: a proxy on the router's machine makes no operators of its clients.
func TestPerfMetricsBehindAProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0, func(c *config.Config) { c.TRTLLM.Paths, c.TrustedProxies = true, []string{"127.0.0.1"} })
	for client, want := range map[string]int{"127.0.0.1": 200, "198.51.100.7": 401} {
		req, err := http.NewRequest(http.MethodGet, r.url+"/perf_metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", client)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("for %s: %d, want %d", client, res.StatusCode, want)
		}
	}
}

// TestProxyProtocol: connections of trusted proxies are those of their clients, in plain text and over TLS; those
// without the header, and of others, get nothing.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		dir := t.TempDir()
		log := filepath.Join(dir, "access.jsonl")
		r := newRig(t, 1, func(c *config.Config) {
			c.ProxyProtocol, c.TrustedProxies, c.AccessLog.File = true, []string{"127.0.0.1"}, log
			if encrypted {
				c.TLS.Cert, c.TLS.Key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
				selfSigned(t, c.TLS.Cert, c.TLS.Key, 1)
			}
		})
		client := behind(t, r.router, proxied)
		for range 2 { // the second on a kept connection
			res, err := client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(question))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != 200 {
				t.Errorf("%d %s %v", res.StatusCode, b, err)
			}
		}
		for range aWhile / (10 * time.Millisecond) {
			if b, _ := os.ReadFile(log); strings.Count(string(b), "\n") == 2 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if b, _ := os.ReadFile(log); strings.Count(string(b), `"client":"198.51.100.7:4711"`) != 2 {
			t.Errorf("the access log has %s", b)
		}
		if res, err := behind(t, r.router, "").Get(r.url + "/healthz"); err == nil {
			_ = res.Body.Close()
			t.Errorf("without the header: %d", res.StatusCode)
		}
	}
	r := newRig(t, 0, func(c *config.Config) { c.ProxyProtocol, c.TrustedProxies = true, []string{"10.0.0.0/8"} })
	if res, err := behind(t, r.router, proxied).Get(r.url + "/healthz"); err == nil {
		_ = res.Body.Close()
		t.Errorf("from a peer that is not trusted: %d", res.StatusCode)
	}
}

// TestProxiedClientLeaves: a client behind the PROXY protocol that leaves ends its request at the engine as any other,
// on each kind of listener.
func TestProxiedClientLeaves(t *testing.T) {
	for _, transport := range []string{"lean", "lean-listener", "net/http"} {
		t.Run(transport, func(t *testing.T) { proxiedClientLeaves(t, transport) })
	}
}

func proxiedClientLeaves(t *testing.T, transport string) {
	t.Parallel()
	ended := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			_, _ = io.WriteString(w, "{}")
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
		close(ended)
	}))
	t.Cleanup(engine.Close)
	r := newRig(t, 0, func(c *config.Config) {
		c.Transport, c.ProxyProtocol, c.TrustedProxies = transport, true, []string{"127.0.0.1"}
		c.Endpoints = []discovery.EndpointConfig{{URL: engine.URL, Kind: "other", Models: []string{"m"}}}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	_, _ = fmt.Fprintf(conn, "%sPOST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", proxied, len(body), body)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q %v", line, err)
	}
	_ = conn.Close()
	select {
	case <-ended:
	case <-time.After(aWhile):
		t.Error("its request goes on")
	}
}
