package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// asked sends a request line as it stands, which Go's client would clean.
func (r *rig) asked(line string) (status int, body string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", line, len(tenantBody), tenantBody); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// TestBasePathIsNotLeft: no path leads out of that of an endpoint's URL, however it is written.
func TestBasePathIsNotLeft(t *testing.T) {
	var seen atomic.Pointer[string]
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, q *http.Request) {
		seen.Store(&q.RequestURI)
		answers(200, chatAnswer)(w, q)
	})
	e := r.fleet.Status()[0].Endpoint
	e.URL += "/tenant-a"
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{e}})
	r.fleet.Observe(route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}}})
	for _, path := range []string{
		"/../tenant-b/v1/responses/m", "/v1/../../tenant-b/v1/responses/m", "/v1/responses/../../../tenant-b", "/v1/responses/%2e%2e/%2E./x", "/v1/responses/..%2f..%2ftenant-b", "/v1/responses/..%5c..%5ctenant-b",
		"/v1/responses/%252e%252e/tenant-b", "/v1/responses/%25252e%25252e%25252f", "/v1/responses/..;a=b/tenant-b", "/v1/responses/./m", "/v1/responses/..", "http://localhost/../tenant-b/v1/responses/m",
	} {
		seen.Store(nil)
		status, body := r.asked("GET " + path)
		if got := seen.Load(); got != nil {
			t.Errorf("%s reached the engine as %s", path, *got)
		}
		if status != 400 || !strings.Contains(body, `"bad_path"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for path, want := range map[string]string{
		"/v1/responses/a..b":     "/tenant-a/v1/responses/a..b",
		"/v1/responses/meta%2Fm": "/tenant-a/v1/responses/meta%2Fm",
		"/v1/responses/.hidden":  "/tenant-a/v1/responses/.hidden",
		"/v1/responses/100%25":   "/tenant-a/v1/responses/100%25",
		"/v1/responses/...":      "/tenant-a/v1/responses/...",
	} {
		seen.Store(nil)
		if status, body := r.asked("GET " + path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if got := seen.Load(); got == nil || *got != want {
			t.Errorf("%s: the engine got %v, want %s", path, got, want)
		}
	}
}
