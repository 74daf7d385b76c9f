package admin

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTokensAndAudit: the token that reads answers what is asked and changes nothing; each call that may change
// something has a line that says what it was, who made it and what became of it, and no other call has one.
func TestTokensAndAudit(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	h := handler(newFleet(), func(c *Config) {
		c.Token, c.ReadToken = "t-all", "t-read"
		c.Log, c.Now = slog.New(slog.NewJSONHandler(&log, nil)), func() time.Time { return now }
		c.Reload = func() (Running, error) { return Running{}, nil }
	})
	type line struct {
		Msg, Method, Path, Client, Token, Endpoint, URL, Level string
		Status                                                 int
	}
	lines := func() (all []line) {
		for l := range strings.Lines(log.String()) {
			var x line
			if err := json.Unmarshal([]byte(l), &x); err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		log.Reset()
		return all
	}
	for _, tt := range []struct {
		method, path, body string
		all, read          int // status with either token
		endpoint           string
	}{
		{"GET", "/admin/endpoints", "", 200, 200, ""},
		{"HEAD", "/admin/stats", "", 200, 200, ""},
		{"GET", "/metrics", "", 200, 200, ""},
		{"GET", "/admin/config", "", 200, 200, ""},
		{"GET", "/debug/pprof/cmdline", "", 200, 403, ""},
		{"GET", "/debug/pprof/", "", 200, 403, ""},
		{"POST", "/admin/endpoints", `{"url":"http://u:secret@10.0.0.9:1","name":"n"}`, 201, 403, "n"},
		{"POST", "/admin/endpoints", `{"url":"x"}`, 400, 403, ""},
		{"POST", "/admin/endpoints/a/drain", "", 200, 403, "a"},
		{"POST", "/admin/endpoints/a/undrain", "", 200, 403, "a"},
		{"DELETE", "/admin/endpoints/n", "", 200, 403, "n"},
		{"DELETE", "/admin/endpoints/none", "", 404, 403, ""},
		{"POST", "/admin/reload", "", 200, 403, ""},
		{"PATCH", "/admin/anything", "", 404, 403, ""},
		{"POST", "/debug/pprof/symbol", "", 200, 403, ""}, // it writes no header of its own
	} {
		reads := tt.method == "GET" || tt.method == "HEAD"
		for _, by := range []struct {
			token, word string
			status      int
		}{{"t-read", "read", tt.read}, {"t-none", "wrong", 401}, {"t-all", "admin", tt.all}} {
			now = now.Add(2 * time.Second)
			res := call(h, tt.method, tt.path, tt.body, "Authorization: Bearer "+by.token)
			if res.Code != by.status {
				t.Errorf("%s %s with %s: %d %s, want %d", tt.method, tt.path, by.token, res.Code, res.Body, by.status)
			}
			got := lines()
			if reads {
				if len(got) > 0 {
					t.Errorf("%s %s has lines %+v", tt.method, tt.path, got)
				}
				continue
			}
			want := line{
				Msg: "admin call", Method: tt.method, Path: tt.path, Client: "192.0.2.1:1234", Token: by.word,
				Status: by.status, Level: "INFO",
			}
			if by.status >= 400 {
				want.Level = "WARN"
			}
			if by.word == "admin" {
				want.Endpoint = tt.endpoint
			}
			if len(got) != 1 {
				t.Fatalf("%s %s with %s: %+v, want one line", tt.method, tt.path, by.token, got)
			}
			if strings.Contains(got[0].URL, "secret") {
				t.Errorf("a password is in the line: %+v", got[0])
			}
			if got[0].URL = ""; got[0] != want {
				t.Errorf("%s %s with %s:\n%+v, want\n%+v", tt.method, tt.path, by.token, got[0], want)
			}
		}
	}
}

// TestAuditIsBounded: who has no token cannot fill the log, and a client certificate is named.
func TestAuditIsBounded(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	h := handler(newFleet(), func(c *Config) {
		c.Token, c.Log, c.Now = "t", slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
	})
	paths := []string{
		"/admin/reload", "/healthz", "/metrics", "/", "/debug/pprof/cmdline", "/admin/endpoints/a/drain",
		"/none", "/v1/models",
	}
	for i := range 100 {
		for _, path := range paths {
			call(h, []string{"POST", "PUT", "DELETE", "OPTIONS", "X"}[i%5], path, "")
		}
	}
	now = now.Add(time.Second)
	call(h, "POST", "/admin/reload", "")
	if n := strings.Count(log.String(), "\n"); n != 2 ||
		!strings.Contains(log.String(), fmt.Sprint("left_out=", 100*len(paths)-1)) {
		t.Errorf("%d lines: %.1000s", n, log.String())
	}
	log.Reset()
	r := httptest.NewRequest(http.MethodPost, "/admin/endpoints/a/drain", nil)
	r.Header.Set("Authorization", "Bearer t")
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "ops"}}}}}
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !strings.Contains(log.String(), fmt.Sprintf("certificate=%q", "CN=ops")) {
		t.Error(log.String())
	}
}
