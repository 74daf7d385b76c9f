package config

import (
	"strings"
	"testing"
)

// TestDialIn: an endpoint that is to dial in needs a port to dial.
func TestDialIn(t *testing.T) {
	const dns = "discovery: {dns: [{name: e, port: 8000, kv_events: listen}]}\n"
	const static = "endpoints: [{url: http://h:1, kv_events: listen}]\n"
	for text, want := range map[string]string{
		static: "endpoints[0].kv_events", dns: "discovery.dns[0].kv_events",
		static + "kv_events: {listen: 'tcp://*:5557'}":                     "",
		dns + "kv_events: {listen: 'tcp://0.0.0.0:5557', listen_ranks: 4}": "",
		static + "kv_events: {listen: '*:5557'}":                           "kv_events.listen",
		static + "kv_events: {listen: 'tcp://*:5557', listen_ranks: 0}":    "kv_events.listen_ranks",
	} {
		_, err := Parse("f.yaml", []byte(text), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestCompatible: only routers whose names are known.
func TestCompatible(t *testing.T) {
	if _, err := Parse("f.yaml",
		[]byte("metrics: {compatible: [vllm-router, production-stack, trtllm]}"), nil); err != nil {
		t.Error(err)
	}
	if _, err := Parse("f.yaml", []byte("metrics: {compatible: [trtllm, envoy]}"), nil); err == nil ||
		!strings.Contains(err.Error(), "metrics.compatible[1]") {
		t.Errorf("got %v", err)
	}
}
