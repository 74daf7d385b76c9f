package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestNames: host names are looked at on loopback addresses, and where they are given.
func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		"listen: 127.0.0.1:1":                   true,
		"listen: localhost:1":                   true,
		"listen: '[::1]:1'":                     true,
		"listen: 0.0.0.0:1":                     false,
		"listen: ':1'":                          false,
		"{listen: ':1', hosts: [a.b]}":          true,
		"{listen: '127.0.0.1:1', hosts: ['*']}": false,
		"hosts: [a, '*']":                       false,
	} {
		c, err := config.Parse("f", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Names(); err != nil || (n != nil) != want {
			t.Errorf("%s: %v, %v", text, n, err)
		}
	}
	if _, err := config.Parse("f", []byte("hosts: ['http://a']"), nil); err == nil ||
		!strings.Contains(err.Error(), `hosts: "http://a" is not a host name`) {
		t.Errorf("got %v", err)
	}
}
