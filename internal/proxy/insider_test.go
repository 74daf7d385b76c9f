package proxy_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// TestStrangersLearnNothing: who is no operator is told of no endpoint: on request, in errors of every kind, or by
// /readyz.
func TestStrangersLearnNothing(t *testing.T) {
	proxies, err := forwarded.Parse([]string{"127.0.0.0/8"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		cfg     proxy.Config
		header  []string
		insider bool
	}{
		{"local", proxy.Config{}, nil, true},
		{"an unknown proxy on this machine", proxy.Config{}, []string{"X-Forwarded-For", "203.0.113.9"}, false},
		{"an unknown proxy that writes Forwarded", proxy.Config{}, []string{"Forwarded", "for=127.0.0.1"}, false},
		{"an unknown proxy that writes X-Real-IP", proxy.Config{}, []string{"X-Real-Ip", "127.0.0.1"}, false},
		{"an unknown proxy that says Via alone", proxy.Config{}, []string{"Via", "1.1 edge"}, false},
		{"an unknown proxy that says the scheme alone", proxy.Config{}, []string{"X-Forwarded-Proto", "https"}, false},
		{
			"a trusted proxy's stranger",
			proxy.Config{Proxies: proxies},
			[]string{"X-Forwarded-For", "203.0.113.9"},
			false,
		},
		{
			"a trusted proxy's local client",
			proxy.Config{Proxies: proxies},
			[]string{"X-Forwarded-For", "127.0.0.1"},
			true,
		},
		{
			"a stranger with the admin token",
			proxy.Config{AdminToken: "t0ken"},
			[]string{"X-Forwarded-For", "203.0.113.9", "X-Warmpath-Explain", "t0ken"},
			true,
		},
		{
			"a stranger with a wrong one",
			proxy.Config{AdminToken: "t0ken"},
			[]string{"X-Forwarded-For", "203.0.113.9", "X-Warmpath-Explain", "t0kem"},
			false,
		},
		{"all may", proxy.Config{Details: true}, []string{"X-Forwarded-For", "203.0.113.9"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := 200
			r := newRig(t, c.cfg, func(w http.ResponseWriter, req *http.Request) {
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				answers(status, chatAnswer)(w, req)
			})
			header := append([]string{"X-Warmpath-Explain", "1"}, c.header...)
			if res, _ := r.post("/v1/chat/completions",
				chatBody, header...); (res.Header.Get("X-Warmpath-Endpoint") != "") != c.insider {
				t.Errorf("told %v", res.Header)
			}
			says := func(what, path string) {
				t.Helper()
				method := map[bool]string{true: "GET", false: "POST"}[path == "/readyz"]
				_, body := r.do(method, path, chatBody, header...)
				if told := strings.Contains(body, "e0") || strings.Contains(body, "10.9.8.7"); told != c.insider ||
					body == "" {
					t.Errorf("%s: %s", what, body)
				}
			}
			status = 0
			says("broken off", "/v1/chat/completions")
			says("broken off, Anthropic's API", "/v1/messages")
			r.fleet.Observe(route.Probed{
				Endpoint: "e0", Report: fleet.Report{Detail: "dial tcp 10.9.8.7:80: i/o timeout", Refused: true},
			})
			says("down", "/v1/chat/completions")
			says("down", "/v1/audio/speech")
			says("down", "/readyz")
		})
	}
}

// TestLocation: an engine's address does not leave the router, and no client is sent elsewhere with its key.
func TestLocation(t *testing.T) {
	for _, c := range []struct{ base, sent, want string }{
		{"", "ENGINE/v1/responses", "/v1/responses"},
		{"", "http://ENGINE/v1/responses?a=b%20c#d", "/v1/responses?a=b%20c#d"},
		{"", "HTTP://user:pw@ENGINE/x", "/x"},
		{"/base", "http://ENGINE/base/v1/x", "/v1/x"},
		{"/base", "/base/v1/x", "/v1/x"},
		{"/base", "http://ENGINE/baseless/x", "/baseless/x"},
		{"", "/v1/x", "/v1/x"},
		{"", "x?y", "x?y"},
		{"", "//ENGINE/x", "/x"},
		{"", "http://10.0.0.1:8000/v1/x", ""},
		{"", "//evil.example/x", ""},
		{"", "http://ENGINE//evil.example/x", ""},
		{"", `/\evil.example`, ""},
		{"", "javascript:alert(1)", ""},
		{"", "http://ENGINE", ""},
		{"", "%zz", ""},
	} {
		at := ""
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Location", "Content-Location"} {
				w.Header().Set(name, strings.ReplaceAll(strings.TrimPrefix(c.sent, "ENGINE"), "ENGINE", at))
			}
			w.WriteHeader(307)
		})
		e := r.fleet.Status()[0].Endpoint
		_, at, _ = strings.Cut(e.URL, "://")
		if _, err := netip.ParseAddrPort(at); err != nil {
			t.Fatal(err)
		}
		e.URL += c.base
		r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{e}})
		r.fleet.Observe(route.Probed{
			Endpoint: e.Name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
		r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, ask := range []struct {
			method, path string
			header       []string
		}{{"POST", "/v1/responses/x", nil}, {"GET", "/v1/responses/x", nil}, {"GET", "/v1/realtime", []string{
			"Connection", "Upgrade", "Upgrade", "websocket",
		}}} {
			res, body := r.do(ask.method, ask.path, chatBody, ask.header...)
			if got := res.Header.Get("Location"); got != c.want || res.StatusCode != 307 ||
				res.Header.Get("Content-Location") != c.want {
				t.Errorf("%s %q under %q: %d %q, want %q %s",
					ask.method, c.sent, c.base, res.StatusCode, got, c.want, body)
			}
		}
	}
}
