package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestForeignPages: on loopback nothing of the traffic listener answers under a foreign name or to a page of another
// site, and everything does under the names that clients use and those that are configured.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, func(c *config.Config) {
		c.Hosts = []string{"router.lan"}
		c.TRTLLM.Paths = true
	})
	ask := func(method, path, host, origin string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, r.url+path,
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":2}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Host = host
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	for _, of := range []struct{ method, path string }{
		{"POST", "/v1/chat/completions"}, {"GET", "/v1/models"}, {"GET", "/cluster_info"}, {"GET", "/version"},
	} {
		for _, c := range []struct {
			host, origin, want string
		}{
			{"evil.example", "http://evil.example", "foreign_host"},
			{"evil.example", "", ""},
			{"localhost:1", "https://evil.example", "foreign_origin"},
			{"localhost:1", "", ""},
			{"127.0.0.1:1", "", ""},
			{"[::1]:1", "http://localhost:3000", ""},
			{"router.lan", "", ""},
		} {
			status, body := ask(of.method, of.path, c.host, c.origin)
			switch {
			case c.want == "" && status != 200, c.want != "" && (status != 403 || !strings.Contains(body, c.want) ||
				!strings.Contains(body, `(WARMPATH_HOSTS=evil.example)`)):
				t.Errorf("%s under %q from %q: %d %s", of.path, c.host, c.origin, status, body)
			}
		}
	}
	if status, _ := ask("GET", "/readyz", "evil.example", ""); status != 200 {
		t.Errorf("/readyz: %d", status)
	}
}
