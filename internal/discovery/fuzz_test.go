package discovery

import (
	"testing"
)

// FuzzLists: what a service-discovery server or etcd says is declared or refused, and what is declared has a URL.
func FuzzLists(f *testing.F) {
	f.Add(`[{"targets": ["10.0.0.1:8000", "b"], "labels": {"__meta_warmpath_kind": "vllm", "__scheme__": "https"}}]`)
	f.Add(`[{"targets": [""]}, null]`)
	f.Add(`{"url": "http://10.0.0.1:8000", "server_type": "context"}`)
	f.Add("url: http://10.0.0.1:8000\nranks: 4")
	f.Add("http://10.0.0.1:8000")
	f.Fuzz(func(t *testing.T, text string) {
		found, _, err := HTTPConfig{URL: "http://sd", Scheme: "http"}.endpoints([]byte(text))
		for _, e := range found {
			if err != nil || e.URL == "" || e.Name == "" {
				t.Errorf("%+v, %v", e, err)
			}
		}
		one, err := EtcdConfig{}.Declares("a", text)
		if err == nil {
			if all, err := Endpoints([]EndpointConfig{one}, None()); err == nil && (len(all) == 0 || all[0].URL == "") {
				t.Errorf("%+v", all)
			}
		}
	})
}
