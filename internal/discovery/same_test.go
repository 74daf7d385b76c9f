package discovery

import (
	"net/http"
	"testing"
	"time"
)

// TestSame: a source that is made anew is the one before if it would find the same, with the same key.
func TestSame(t *testing.T) {
	t.Setenv("SAME_KEY", "a")
	dns := DNSConfig{Name: "x", Port: 1, APIKeyEnv: "SAME_KEY"}
	list := HTTPConfig{URL: "http://x", Engine: EndpointConfig{APIKeyEnv: "SAME_KEY"}}
	wire, other := new(http.Transport), new(http.Transport)
	makes := func(dns DNSConfig, list HTTPConfig, wire http.RoundTripper) []Runner {
		d, err := NewDNS(dns, nil, Keys{}, nil)
		h, fault := NewHTTP(list, &http.Client{Transport: wire}, Keys{}, nil)
		if err != nil || fault != nil {
			t.Fatal(err, fault)
		}
		return []Runner{d, h}
	}
	before := makes(dns, list, wire)
	check := func(name string, now []Runner, want ...bool) {
		t.Helper()
		for i := range now {
			if now[i].Same(before[i]) != want[i] || now[i].Same(before[1-i]) {
				t.Errorf("%s: %s is the same: %v, want %v", name, now[i].Source(), !want[i], want[i])
			}
		}
	}
	check("unchanged", makes(dns, list, wire), true, true)
	check("another transport", makes(dns, list, other), true, false)
	dns.Interval, list.Interval = time.Minute, time.Minute
	check("another interval", makes(dns, list, wire), false, false)
	dns.Interval, list.Interval = 0, 0
	t.Setenv("SAME_KEY", "b")
	check("another key", makes(dns, list, wire), false, false)
}
