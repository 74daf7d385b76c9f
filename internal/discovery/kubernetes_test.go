package discovery

import (
	"strings"
	"testing"
)

func TestKubernetesConfig(t *testing.T) {
	for want, c := range map[string]KubernetesConfig{
		"":                          {Pool: "llama", Engine: EndpointConfig{KVEvents: "tcp://*:5557", Ranks: 2}},
		"give one of pool, service": {},
		"pool: give one of pool":    {Pool: "a", Service: "b"},
		"port: an InferencePool has its own ports": {Pool: "a", Port: "8000"},
		`service: "A b" is not a Kubernetes name`:  {Service: "A b"},
		"scheme: is \"ftp\"":                       {Service: "a", Scheme: "ftp"},
		"engine.url: comes from the source":        {Service: "a", Engine: EndpointConfig{URL: "http://x"}},
		"the same address for all engines": {
			Service: "a", Engine: EndpointConfig{KVEvents: "tcp://10.0.0.1:5557"},
		},
		"engine.ranks: is -1": {Service: "a", Engine: EndpointConfig{Ranks: -1}},
	} {
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
