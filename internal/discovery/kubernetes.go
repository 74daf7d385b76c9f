package discovery

import (
	"errors"
	"slices"
	"strings"
)

// KubernetesConfig declares engines that run as pods of a Kubernetes cluster: those of an InferencePool, behind a Service, or with labels.
type KubernetesConfig struct {
	// Pool is the name of an InferencePool of the Gateway API's inference extension (v1 or v1alpha2): the pods that it selects, at each of
	// its target ports. Give one of pool, service and selector.
	Pool string `yaml:"pool"`
	// Service is the name of a Service: the engines in its EndpointSlices.
	Service string `yaml:"service"`
	// Selector are labels of pods as kubectl takes them: app=vllm,tier in (gpu).
	Selector string `yaml:"selector"`
	// Namespace of the pool, Service or pods. Empty means the router's own, or that of the kubeconfig.
	Namespace string `yaml:"namespace"`
	// Port of the engines, as a number or by its name in the Service or the pod. Empty means the only one that there is; a pool names its own.
	Port string `yaml:"port"`
	// Scheme of the engines: http or https. Empty means http.
	Scheme string `yaml:"scheme"`
	// Kubeconfig is the file with the cluster's address and credentials. Empty means those of the pod that the router runs in, or else of
	// KUBECONFIG or ~/.kube/config.
	Kubeconfig string `yaml:"kubeconfig"`
	// Engine holds for each engine found, as in a list of endpoints; kv_events and kv_replay with * for the engine's own address
	// (tcp://*:5557). Annotations of a pod (warmpath.dev/role and others) come before it. url and name are Kubernetes' own.
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
		faults = append(faults, fault("pool", "give one of pool, service and selector, to say which pods are meant"))
	}
	if c.Pool != "" && c.Port != "" {
		faults = append(faults, fault("port", "an InferencePool names the ports itself; leave it out"))
	}
	for _, n := range []struct{ field, name string }{{"pool", c.Pool}, {"service", c.Service}, {"namespace", c.Namespace}} {
		if strings.ContainsFunc(n.name, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.') }) {
			faults = append(faults, fault(n.field, "%q is not a name of Kubernetes: small letters, digits, - and .", n.name))
		}
	}
	if !slices.Contains([]string{"", "http", "https"}, c.Scheme) {
		faults = append(faults, fault("scheme", "is %q, must be http or https", c.Scheme))
	}
	return errors.Join(append(faults, c.Engine.checkTemplate()...)...)
}

// Source is the name under which the engines are published.
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
