package kube

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The fields of Kubernetes objects that are used. The others are dropped on arrival, so that 5,000 pods use little
// memory.

// pod is a Pod of the core API, v1.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// container is one of a pod. An initial one that is always restarted runs beside the others: a sidecar.
type container struct {
	RestartPolicy string `json:"restartPolicy"`
	Ports         []port `json:"ports"`
}

// port is a port of a container (ContainerPort) or of a slice (Port).
type port struct {
	Name          string `json:"name"`
	ContainerPort int    `json:"containerPort"`
	Port          int    `json:"port"`
	Protocol      string `json:"protocol"`
}

// ready reports whether the pod is ready for traffic.
func (p *pod) ready() bool {
	if p.Status.Phase != "Running" {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// ended reports whether the pod has ended for good.
func (p *pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// endpointSlice is an EndpointSlice of discovery.k8s.io/v1.
type endpointSlice struct {
	metav1.ObjectMeta `json:"metadata"`
	AddressType       string `json:"addressType"`
	Endpoints         []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready       *bool `json:"ready"`
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
		TargetRef *struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []port `json:"ports"`
}

// inferencePool is an InferencePool, of inference.networking.k8s.io/v1 or of inference.networking.x-k8s.io/v1alpha2.
type inferencePool struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector    map[string]any `json:"selector"` // v1: matchLabels inside; v1alpha2: the labels themselves
		TargetPorts []struct {
			Number int `json:"number"`
		} `json:"targetPorts"` // v1
		TargetPortNumber int `json:"targetPortNumber"` // v1alpha2
	} `json:"spec"`
}

// labels returns the labels that select the pool's pods.
func (p *inferencePool) labels() map[string]string {
	from := p.Spec.Selector
	if inner, ok := from["matchLabels"].(map[string]any); ok {
		from = inner
	}
	labels := map[string]string{}
	for k, v := range from {
		if text, ok := v.(string); ok {
			labels[k] = text
		}
	}
	return labels
}

// ports returns the ports of each pod at which there is an engine, or one rank of it.
func (p *inferencePool) ports() []string {
	var out []string
	for _, t := range p.Spec.TargetPorts {
		out = append(out, strconv.Itoa(t.Number))
	}
	if len(out) == 0 && p.Spec.TargetPortNumber != 0 {
		out = []string{strconv.Itoa(p.Spec.TargetPortNumber)}
	}
	return out
}

// slim converts an object to T, which has only the fields that are used.
func slim[T any](obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, err
	}
	if m, ok := any(out).(metav1.ObjectMetaAccessor); ok {
		m.GetObjectMeta().SetManagedFields(nil)
		m.GetObjectMeta().SetOwnerReferences(nil)
	}
	return out, nil
}
