package guard

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestNetworks(t *testing.T) {
	n, err := ParseNetworks([]string{"10.1.0.0/16", "192.0.2.7", "fd00::/8", "::ffff:198.51.100.1"})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "192.0.2.7": true, "192.0.2.8": false,
		"fd00::1": true, "fd00::1%eth0": true, "fe80::1": false, "198.51.100.1": true, "127.0.0.1": false,
	} {
		if got := n.Contain(netip.MustParseAddr(at)); got != want {
			t.Errorf("%s: %t, want %t", at, got, want)
		}
	}
	if n.Contain(netip.Addr{}) {
		t.Error("an unknown source is in a network")
	}
	for _, bad := range []string{"", "node", "10.0.0.0/33", "10.0.0"} {
		if _, err := ParseNetworks([]string{bad}); err == nil {
			t.Errorf("%q is taken for a network", bad)
		}
	}
}

func TestHosts(t *testing.T) {
	h, err := ParseHosts([]string{"Node-17", "*.workers.local", "10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"node-17": true, "NODE-17": true, "node-17.": true, "node-18": false, "a.workers.local": true,
		"a.b.workers.local": true, "workers.local": false, "evil/x.workers.local": false, "evil@.workers.local": false,
		".workers.local": false, "xworkers.local": false, "10.9.9.9": true, "11.0.0.1": false, "": false,
	} {
		if got := h.Contain(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
	if (Hosts{}).Contain("node-17") {
		t.Error("the empty set is not told from others")
	}
	for _, bad := range []string{"", "*", "*.", "*x", "a b", "http://a", "a:1", "*.a/b", ".a"} {
		if _, err := ParseHosts([]string{bad}); err == nil {
			t.Errorf("%q is taken for a host", bad)
		}
	}
}

func TestSource(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	for at, want := range map[string]string{
		"[::ffff:10.0.0.1]:80": "10.0.0.1", "[fe80::1%eth0]:80": "fe80::1", "10.0.0.1:9": "10.0.0.1", "@": "invalid IP",
		"": "invalid IP",
	} {
		r.RemoteAddr = at
		if got := Source(r).String(); got != want {
			t.Errorf("%q: %s, want %s", at, got, want)
		}
	}
}

func TestHostname(t *testing.T) {
	for at, want := range map[string]string{"a:1": "a", "a": "a", "[::1]:80": "::1", "[::1]": "::1", "": ""} {
		if got := Hostname(at); got != want {
			t.Errorf("%q: %q, want %q", at, got, want)
		}
	}
}
