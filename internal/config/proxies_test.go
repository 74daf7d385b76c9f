package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestTrustedProxies: faults are told with their place.
func TestTrustedProxies(t *testing.T) {
	for text, want := range map[string]string{
		"trusted_proxies: [10.0.0.0/8, '::1', unix]\nproxy_protocol: true\nclient_header: x-real-ip": "",
		"trusted_proxies:\n- 10.0.0.0/8\n" +
			"- proxy.lan": `f:3:3: trusted_proxies[1]: "proxy.lan" is ` +
			`not an IP address, a network such as 10.0.0.0/8, or unix`,
		"listen: ':1'\nproxy_protocol: true": "f:2:1: proxy_protocol: needs trusted_proxies",
		"client_header: Forwarded":           "f:1:1: client_header: needs trusted_proxies",
		"trusted_proxies: [10.0.0.1]\n" +
			"client_header: a b": `f:2:1: client_header: "a b" is not a ` +
			`header name`,
	} {
		c, err := config.Parse("f", []byte(text), nil)
		if want == "" {
			if p, bad := c.Proxies(); err != nil || bad != nil || p == nil {
				t.Errorf("%s: %v, %v", text, err, bad)
			}
		} else if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestEveryoneIsTrusted: networks of everybody are said.
func TestEveryoneIsTrusted(t *testing.T) {
	for text, want := range map[string]bool{"0.0.0.0/0": true, "'::/0'": true, "10.0.0.0/8": false} {
		c, err := config.Parse("f", []byte("trusted_proxies: ["+text+"]"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(c.Warnings(), "\n"), "trusted_proxies"); got != want {
			t.Errorf("%s: %v", text, c.Warnings())
		}
	}
}
