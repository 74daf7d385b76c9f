package discovery

import (
	"errors"
	"slices"
	"strings"
)

// KubernetesConfig declares engines in pods of a Kubernetes cluster, selected by an InferencePool, a Service or labels.
type KubernetesConfig struct {
	// Pool is the name of an InferencePool of the Gateway API inference extension (v1 or v1alpha2). It selects pods and
	// target ports. Give one of pool, service and selector.
	Pool string `yaml:"pool"`
	// Service is the name of a Service, whose EndpointSlices list the engines.
	Service string `yaml:"service"`
	// Selector is a label selector of pods, as in kubectl: app=vllm,tier in (gpu).
	Selector string `yaml:"selector"`
	// Namespace of the pool, Service or pods. Empty means that of the router, or of the kubeconfig.
	Namespace string `yaml:"namespace"`
	// Port of the engines: a number, or its name in the Service or the pod. Empty means the only one. A pool has its
	// own.
	Port string `yaml:"port"`
	// Scheme of the engines: http or https. Empty means http.
	Scheme string `yaml:"scheme"`
	// Kubeconfig is the file with the cluster's address and credentials. Empty means the service account of the
	// router's pod, or else KUBECONFIG or ~/.kube/config.
	Kubeconfig string `yaml:"kubeconfig"`
	// Engine has the settings of each engine, as in a list of endpoints without url and name; in kv_events and
	// kv_replay, * is the engine's own host (tcp://*:5557). Annotations of a pod (warmpath.dev/role and others)
	// override them.
	Engine EndpointConfig `yaml:"engine"`
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c KubernetesConfig) Validate() error {
	var faults []error
	given := 0
	for _, s := range []string{c.Pool, c.Service, c.Selector} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		faults = append(faults, fault("pool", "give one of pool, service and selector"))
	}
	if c.Pool != "" && c.Port != "" {
		faults = append(faults, fault("port", "an InferencePool has its own ports; leave it out"))
	}
	for _, n := range []struct{ field, name string }{
		{"pool", c.Pool}, {"service", c.Service}, {"namespace", c.Namespace},
	} {
		if strings.ContainsFunc(n.name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.')
		}) {
			faults = append(faults,
				fault(n.field, "%q is not a Kubernetes name: lower-case letters, digits, - and . are allowed", n.name))
		}
	}
	if !slices.Contains([]string{"", "http", "https"}, c.Scheme) {
		faults = append(faults, fault("scheme", "is %q, must be http or https", c.Scheme))
	}
	return errors.Join(append(faults, c.Engine.checkTemplate()...)...)
}

// Source is the name of the source.
func (c KubernetesConfig) Source() string {
	name := "pods/" + c.Selector
	if c.Pool != "" {
		name = "pool/" + c.Pool
	} else if c.Service != "" {
		name = "service/" + c.Service
	}
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return "kubernetes:" + name
}
