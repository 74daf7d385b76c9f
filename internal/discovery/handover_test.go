package discovery

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestHandover: what is declared for handing KV cache over reaches the endpoints, and what engines could not use is a
// fault.
func TestHandover(t *testing.T) {
	c, err := ParseEndpoint("http://h:8000,role=prefill,bootstrap_port=9001,tp_size=4,ranks=2")
	if err != nil {
		t.Fatal(err)
	}
	c.KVAddress = "host:10.0.0.5,handshake:6301,notify:61005"
	for _, e := range c.expand("") {
		if e.BootstrapPort != 9001 || e.TPSize != 4 || e.KVAddress != c.KVAddress || e.Role != fleet.RolePrefill {
			t.Errorf("%+v", e)
		}
	}
	other := c.expand("")
	other[1].BootstrapPort++
	if Equal(c.expand(""), other) {
		t.Error("another bootstrap port is no change")
	}
	for want, bad := range map[string]EndpointConfig{
		"bootstrap_port: is 70000":               {URL: "http://h", BootstrapPort: 70000},
		"bootstrap_port: is for prefillers":      {URL: "http://h", BootstrapPort: 9001, Role: "decode"},
		"kv_address: \"h:1\" is not of the form": {URL: "http://h", KVAddress: "h:1"},
		"tp_size: is -1":                         {URL: "http://h", TPSize: -1},
	} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
