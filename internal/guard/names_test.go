package guard

import (
	"errors"
	"net/http/httptest"
	"testing"
)

func TestNames(t *testing.T) {
	hosts, err := ParseHosts([]string{"router.lan", "*.corp.example", "10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	n := &Names{Hosts: hosts}
	for _, c := range []struct {
		method, host, origin, site string
		want                       error
	}{
		{"POST", "localhost:8080", "", "", nil},
		{"POST", "127.0.0.1:8080", "", "", nil},
		{"POST", "[::1]:8080", "", "", nil},
		{"POST", "app.localhost", "", "", nil},
		{"POST", "", "", "", nil},
		{"POST", "192.0.2.1:8080", "", "", nil},
		{"POST", "Router.LAN:8080", "", "", nil},
		{"POST", "a.corp.example", "", "", nil},
		{"POST", "evil.example", "", "", ErrForeignHost},
		{"GET", "evil.example:8080", "", "", ErrForeignHost},
		{"POST", "localhost.evil.example", "", "", ErrForeignHost},
		{"POST", "127.0.0.1.evil.example", "", "", ErrForeignHost},
		{"POST", "localhost:8080", "http://localhost:3000", "same-site", nil},
		{"POST", "localhost:8080", "https://router.lan", "cross-site", nil},
		{"POST", "192.0.2.1:8080", "http://192.0.2.1:8080", "same-origin", nil},
		{"POST", "localhost:8080", "http://10.1.2.3", "", nil},
		{"POST", "localhost:8080", "http://192.0.2.1", "", ErrForeignOrigin},
		{"POST", "localhost:8080", "https://evil.example", "cross-site", ErrForeignOrigin},
		{"GET", "localhost:8080", "https://evil.example", "", ErrForeignOrigin},
		{"POST", "localhost:8080", "null", "", ErrForeignOrigin},
		{"POST", "localhost:8080", "", "cross-site", ErrForeignOrigin},
		{"GET", "localhost:8080", "", "cross-site", nil},
		{"POST", "localhost:8080", "vscode-webview://abc", "", nil},
		{"POST", "localhost:8080", "chrome-extension://abc", "cross-site", nil},
	} {
		r := httptest.NewRequest(c.method, "/v1/models", nil)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := n.Check(r); !errors.Is(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
		if got := (*Names)(nil).Check(r); got != nil {
			t.Errorf("%+v without names: %v", c, got)
		}
	}
}
