package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/explain"
)

// onItsOwn is a client with one connection, which it keeps.
func onItsOwn(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// asks sends a request, and returns the status, the code of an error, and whether the connection stays open; 0 for a
// failed connection.
func asks(t *testing.T, c *http.Client, url string, header ...string) (status int, code string, stays bool) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, "", false
	}
	defer func() { _ = res.Body.Close() }()
	var said struct{ Error struct{ Code string } }
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(b, &said)
	return res.StatusCode, said.Error.Code, !res.Close
}

// TestConnectionLimits: one connection too many of all, of a client address or of a tenant is refused, in plain text
// and over TLS, and one that ends makes room.
func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		change       func(*config.Config)
		status       int
		told         bool // over TLS too
		limit        string
		alike, other []string // headers of the connection too many, and of one that is counted apart; nil for none
	}{
		{"of all", func(c *config.Config) { c.Limits.Connections = 1 }, 503, false, "limits.connections", nil, nil},
		{
			"of a client address", func(c *config.Config) { c.Limits.Client.Connections = 1 }, 429, false,
			"limits.client.connections", nil, nil,
		},
		{"of each tenant", func(c *config.Config) {
			c.Tenants.Header, c.Tenants.Each.Connections = "X-Tenant-Id", 1
		}, 429, true, "tenants.each.connections", []string{"X-Tenant-Id", "red"}, []string{"X-Tenant-Id", "blue"}},
		{"of one tenant", func(c *config.Config) {
			c.Tenants.Header, c.Tenants.Limits = "X-Tenant-Id", []config.TenantLimits{{Tenant: "red", Connections: 1}}
		}, 429, true, "tenants.limits.connections", []string{"X-Tenant-Id", "red"}, []string{"X-Tenant-Id", "blue"}},
	} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, encrypted), func(t *testing.T) {
				dir := t.TempDir()
				r := newRig(t, 1, func(c *config.Config) {
					if tt.change(c); encrypted {
						c.TLS.Cert, c.TLS.Key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
						selfSigned(t, c.TLS.Cert, c.TLS.Key, 1)
					}
				})
				first := onItsOwn(t)
				for range 2 { // the second time on the same connection
					if status, code, _ := asks(t, first, r.url, tt.alike...); status != 200 {
						t.Fatalf("the first is answered %d %s", status, code)
					}
				}
				want, wantCode := tt.status, "too_many_connections"
				if encrypted && !tt.told {
					want, wantCode = 0, ""
				}
				if status, code, stays := asks(t, onItsOwn(t), r.url, tt.alike...); status != want ||
					code != wantCode || stays {
					t.Errorf("the second is answered %d %s, stays open: %v", status, code, stays)
				}
				if tt.other != nil {
					if status, code, _ := asks(t, onItsOwn(t), r.url, tt.other...); status != 200 {
						t.Errorf("another is answered %d %s", status, code)
					}
					if got := refusals(t, r.router); len(got) != 1 || got[0].Limit != tt.limit ||
						got[0].Tenant != "red" || got[0].Status != 429 {
						t.Errorf("explained: %+v", got)
					}
				}
				first.CloseIdleConnections()
				status := 0
				for range aWhile / (10 * time.Millisecond) {
					if status, _, _ = asks(t, onItsOwn(t), r.url, tt.alike...); status == 200 {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if status != 200 {
					t.Errorf("in the place of one that has ended: %d", status)
				}
			})
		}
	}
}

// refusals are the refused requests that the admin listener tells.
func refusals(t *testing.T, r *router) []explain.Decision {
	t.Helper()
	w := httptest.NewRecorder()
	r.admin.Handler.ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "http://127.0.0.1/admin/decisions?reason=refused", nil))
	var a explain.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return a.Decisions
}

// TestConnectionsOfProxies: those of trusted proxies, which carry requests of many, count for the whole only; a client
// that the PROXY protocol names counts as itself.
func TestConnectionsOfProxies(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, func(c *config.Config) {
		c.TrustedProxies, c.Limits.Client.Connections = []string{"127.0.0.1"}, 1
		c.Tenants.Header, c.Tenants.Each.Connections = "X-Tenant-Id", 1
	})
	for range 3 {
		if status, code, _ := asks(t, onItsOwn(t), r.url, "X-Forwarded-For", "198.51.100.7",
			"X-Tenant-Id", "red"); status != 200 {
			t.Errorf("through a proxy: %d %s", status, code)
		}
	}
	r = newRig(t, 1, func(c *config.Config) {
		c.ProxyProtocol, c.TrustedProxies, c.Limits.Client.Connections = true, []string{"127.0.0.1"}, 1
	})
	first := behind(t, r.router, proxied)
	if status, code, _ := asks(t, first, r.url); status != 200 {
		t.Errorf("by the PROXY protocol: %d %s", status, code)
	}
	if status, code, _ := asks(t, behind(t, r.router, proxied), r.url); status != 429 ||
		code != "too_many_connections" {
		t.Errorf("a second one of its client: %d %s", status, code)
	}
	if status, code, _ := asks(t, behind(t, r.router, strings.Replace(proxied, ".7", ".8", 1)), r.url); status != 200 {
		t.Errorf("one of another client: %d %s", status, code)
	}
}

// TestConnectionLimitsAreReloaded: a bound on connections holds from the reload on.
func TestConnectionLimitsAreReloaded(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'http://127.0.0.1:1'")
	f := newFileRig(t, text)
	_, at, _ := strings.Cut(f.url, "://")
	kept, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	if status, _, _ := asks(t, onItsOwn(t), f.url); status == 0 {
		t.Error("refused without a limit")
	}
	f.write(text + "limits: {connections: 1}\n")
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if status, code, _ := asks(t, onItsOwn(t), f.url); status != 503 || code != "too_many_connections" {
		t.Errorf("beyond the new limit: %d %s", status, code)
	}
}
