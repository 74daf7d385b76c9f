package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/warmpath/warmpath/internal/discovery"
)

// FuzzObjects: whatever an API server says of pods, slices and pools, an engine that is found has a URL.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"warmpath.io/kind":"vllm"}},"spec":{"containers":[{"ports":[{"name":"http","containerPort":8000}]}]},"status":{"podIP":"10.0.0.1","phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`))
	f.Add([]byte(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"s"},"ports":[{"name":null,"port":8000}],"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":null},"targetRef":null}]}`))
	f.Add([]byte(`{"apiVersion":"inference.networking.k8s.io/v1","kind":"InferencePool","metadata":{"name":"p"},"spec":{"selector":{"matchLabels":{"a":"b"}},"targetPorts":[{"number":8000}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(b) != nil {
			return
		}
		if p, err := slim[pod](u); err == nil {
			for _, port := range []string{"", "http", "8000"} {
				_, _ = podPort(p.(*pod), port)
			}
			e, err := declare(&discovery.KubernetesConfig{}, p.(*pod), "10.0.0.1:8000")
			if err == nil && e.URL == "" {
				t.Errorf("%+v", e)
			}
		}
		if s, err := slim[endpointSlice](u); err == nil {
			_, _ = slicePort(s.(*endpointSlice), "")
		}
		if p, err := slim[inferencePool](u); err == nil {
			_, _ = p.(*inferencePool).labels(), p.(*inferencePool).ports()
		}
	})
}
