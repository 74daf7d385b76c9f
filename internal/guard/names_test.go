package guard

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	hosts, err := ParseHosts([]string{"router.lan", "*.corp.example", "10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	n := &Names{Hosts: hosts, Origins: []string{"https://app.example", "http://old.example:3000", "none"}}
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
		{"POST", "evil.example", "http://evil.example", "", ErrForeignHost},
		{"GET", "evil.example:8080", "", "same-origin", ErrForeignHost},
		{"POST", "localhost.evil.example", "http://localhost.evil.example", "", ErrForeignHost},
		{"POST", "127.0.0.1.evil.example", "null", "", ErrForeignHost},
		{"POST", "evil.example", "", "", nil},
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
		{"POST", "localhost:8080", "https://app.example", "cross-site", nil},
		{"OPTIONS", "localhost:8080", "https://App.example", "cross-site", nil},
		{"POST", "localhost:8080", "http://old.example:3000", "", nil},
		{"POST", "localhost:8080", "http://app.example", "cross-site", ErrForeignOrigin},
		{"POST", "localhost:8080", "https://app.example:8443", "", ErrForeignOrigin},
		{"POST", "localhost:8080", "http://old.example", "", ErrForeignOrigin},
		{"POST", "localhost:8080", "none", "", ErrForeignOrigin},
		{"POST", "app.example", "https://app.example", "same-origin", ErrForeignHost},
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

// TestBrowsersUnderForeignNames: what browsers send to a name that was rebound is refused, in each way in which a page
// can send it, and what programs send through a proxy that passes on another name is not.
func TestBrowsersUnderForeignNames(t *testing.T) {
	const (
		chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, " +
			"like Gecko) Chrome/143.0.0.0 Safari/537.36"
		firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	)
	type header map[string]string
	for _, c := range []struct {
		what, method string
		h            header
		refused      bool
	}{
		{"Chrome, fetch of a rebound page over http, without Referer", "GET", header{
			"User-Agent": chrome, "Accept": "*/*", "Accept-Language": "en-US,en;q=0.9",
			"Accept-Encoding": "gzip, deflate",
		}, true},
		{"Firefox, the same with a User-Agent and a language of the page's choice", "GET", header{
			"User-Agent": "curl/8", "Accept": "*/*", "Accept-Language": "*",
		}, true},
		{"the same, an empty language", "GET", header{"User-Agent": "curl/8", "Accept-Language": ""}, true},
		{"Firefox, navigation", "GET", header{
			"User-Agent": firefox, "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
			"Upgrade-Insecure-Requests": "1",
		}, true},
		{"navigation, all else unknown", "GET", header{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}, true},
		{"form post", "POST", header{"Origin": "http://evil.example", "Content-Type": "text/plain"}, true},
		{"form post without Referer", "POST", header{"Origin": "null"}, true},
		{"form post of an older browser", "POST", header{"Referer": "http://evil.example/x"}, true},
		{"WebSocket", "GET", header{
			"Upgrade": "websocket", "Sec-WebSocket-Key": "x", "Origin": "http://evil.example",
		}, true},
		{"EventSource", "GET", header{
			"Accept": "text/event-stream", "Cache-Control": "no-cache", "Accept-Language": "de",
		}, true},
		{"an image", "GET", header{
			"Accept": "image/avif,image/webp,*/*;q=0.8", "Referer": "http://evil.example/",
		}, true},
		{"fetch over https", "GET", header{
			"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty",
		}, true},
		{"no-cors over https", "GET", header{"Sec-Fetch-Mode": "no-cors"}, true},
		{"preflight", "OPTIONS", header{
			"Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
		}, true},
		{"beacon", "POST", header{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, true},
		{"old Safari", "GET", header{
			"User-Agent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_13_6) AppleWebKit/605.1.15 Version/13.1.2 " +
				"Safari/605.1.15",
		}, true},

		{"nothing", "GET", nil, false},
		{"curl", "POST", header{"User-Agent": "curl/8.14.1", "Accept": "*/*"}, false},
		{"OpenAI, Python", "POST", header{
			"User-Agent": "OpenAI/Python 2.8.1", "Accept": "application/json",
			"Accept-Encoding": "gzip, deflate, br, zstd", "X-Stainless-Lang": "python",
		}, false},
		{"OpenAI, Node", "POST", header{
			"User-Agent": "OpenAI/JS 6.9.0", "Accept": "application/json", "Accept-Language": "*",
			"Sec-Fetch-Mode": "cors",
		}, false},
		{"Go", "GET", header{"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip"}, false},
		{"PowerShell", "POST", header{
			"User-Agent": "Mozilla/5.0 (Windows NT 10.0; Microsoft Windows 10.0.26100; en-US) PowerShell/7.5.4",
		}, false},
		{"nginx for a program", "POST", header{
			"X-Forwarded-For": "192.0.2.9", "X-Real-Ip": "192.0.2.9", "X-Forwarded-Proto": "https",
		}, false},
		{"websockets, Python", "GET", header{
			"Upgrade": "websocket", "Sec-WebSocket-Key": "x", "User-Agent": "Python/3.13 websockets/15.0",
		}, false},
	} {
		for _, host := range []string{"evil.example", "evil.example:8080", "llm"} {
			r := httptest.NewRequest(c.method, "/v1/models", nil)
			r.Host = host
			for name, value := range c.h {
				r.Header.Set(name, value)
			}
			got := new(Names).Check(r)
			if errors.Is(got, ErrForeignHost) != c.refused || got != nil && !c.refused {
				t.Errorf("%s, Host %s: %v, want refused: %t", c.what, host, got, c.refused)
			}
			r.Host = "localhost:8080"
			if err := new(Names).Check(r); errors.Is(err, ErrForeignHost) {
				t.Errorf("%s under localhost: %v", c.what, err)
			}
		}
	}
}

// TestForeignErrorNamesItsCure: the setting that allows the name, as a line that works.
func TestForeignErrorNamesItsCure(t *testing.T) {
	for _, c := range []struct{ host, origin, referer, want string }{
		{
			"LLM:8080", "http://llm", "",
			`("llm"); add hosts: ["llm"] to the router's configuration (WARMPATH_HOSTS=llm)`,
		},
		{
			"localhost", "https://app.example:8443", "",
			`("app.example"); add hosts: ["app.example"] to the router's configuration (WARMPATH_HOSTS=app.example)`,
		},
		{"localhost", "", "https://old.example/page?x", `add hosts: ["old.example"]`},
		{"localhost", "http://192.0.2.7:3000", "", `add hosts: ["192.0.2.7"]`},
		{"localhost", "null", "", `only hosts: ["*"]`},
		{`a"b`, "null", "", `only hosts: ["*"]`},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Referer": c.referer} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if err := new(Names).Check(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
