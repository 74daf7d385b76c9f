package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/discovery"
)

// world is a snapshot of the cluster.
type world struct {
	pods   []*pod
	slices []*endpointSlice // of the Service, if one is named
	pool   *inferencePool   // if one is named
}

// engine is an engine in the cluster.
type engine struct {
	config discovery.EndpointConfig
	// ready is false for an engine that is terminating or not ready: it gets no new traffic.
	ready bool
	// ending is true for an engine that is terminating.
	ending bool
}

// engines returns the engines of a snapshot, sorted by name, and the problems of others, each with advice.
func engines(c *discovery.KubernetesConfig, home string, w world) (found []engine, problems []string) {
	if c.Service != "" {
		found, problems = fromSlices(c, w)
	} else {
		found, problems = fromPods(c, w)
	}
	for i := range found {
		if c.Namespace != "" && c.Namespace != home {
			found[i].config.Name += "." + c.Namespace
		}
	}
	found = slices.DeleteFunc(found, func(e engine) bool {
		err := e.config.Validate()
		if err != nil {
			problems = append(problems, "pod "+e.config.Name+" is left out: "+err.Error())
		}
		return err != nil
	})
	// An address counts once, and so does a name: an engine may be in slices of two address families, and a pod that
	// ends may still be told with an address or a name that a new one has. The one that takes requests counts.
	slices.SortFunc(found, func(a, b engine) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.config.Name, b.config.Name),
			cmp.Compare(a.config.URL, b.config.URL))
	})
	addresses, names := map[string]bool{}, map[string]bool{}
	found = slices.DeleteFunc(found, func(e engine) bool {
		name, at := e.config.Place()
		twice := addresses[at] || names[name]
		addresses[at], names[name] = true, true
		return twice
	})
	slices.SortFunc(found, func(a, b engine) int { return cmp.Compare(a.config.Name, b.config.Name) })
	if len(found) == 0 && len(problems) == 0 {
		problems = append(problems, "no pods found: "+c.Source()+" selects none with an address; "+
			"compare it with kubectl get pods --show-labels, and see whether the namespace is right")
	}
	return found, problems
}

// rank orders engines of one name or address: first what takes requests, then what may take them again.
func rank(e engine) int {
	switch {
	case e.ready:
		return 0
	case !e.ending:
		return 1
	}
	return 2
}

// fromPods returns the engines in the pods that a selector or a pool selects.
func fromPods(c *discovery.KubernetesConfig, w world) (found []engine, problems []string) {
	ports := []string{c.Port}
	if c.Pool != "" {
		if w.pool == nil {
			return nil, []string{"there is no InferencePool " + c.Pool +
				" in the namespace; create it, or correct discovery.kubernetes.pool"}
		}
		if len(w.pool.labels()) == 0 {
			return nil, []string{
				"the InferencePool " + c.Pool + " has no selector and selects no pods; set spec.selector",
			}
		}
		if ports = w.pool.ports(); len(ports) == 0 {
			return nil, []string{
				"the InferencePool " + c.Pool + " has no targetPorts; set spec.targetPorts to the engines' port",
			}
		}
	}
	for _, p := range w.pods {
		if p.ended() || p.Status.PodIP == "" {
			continue
		}
		for _, want := range ports {
			number, err := podPort(p, cmp.Or(p.Annotations[prefix+"port"], want))
			if err == nil {
				var e discovery.EndpointConfig
				if e, err = declare(c, p, net.JoinHostPort(p.Status.PodIP, strconv.Itoa(number))); err == nil {
					e.Name = p.Name
					if len(ports) > 1 {
						e.Name += ":" + strconv.Itoa(number)
					}
					ending := p.DeletionTimestamp != nil
					found = append(found, engine{config: e, ready: p.ready() && !ending, ending: ending})
				}
			}
			if err != nil {
				problems = append(problems, "pod "+p.Name+" is left out: "+err.Error())
			}
		}
	}
	return found, problems
}

// podPort returns the number of a pod's port, given by name or number, or "" for the only one, which is no sidecar's:
// those of llm-d take requests for the engine beside them.
func podPort(p *pod, want string) (int, error) {
	if n, err := strconv.Atoi(want); err == nil {
		return n, checkPort(n)
	}
	containers := p.Spec.Containers
	if want != "" {
		containers = slices.Concat(containers, slices.DeleteFunc(slices.Clone(p.Spec.InitContainers),
			func(c container) bool { return c.RestartPolicy != "Always" }))
	}
	var all []port
	for _, c := range containers {
		for _, at := range c.Ports {
			all = append(all, port{Name: at.Name, Port: at.ContainerPort, Protocol: at.Protocol})
		}
	}
	at, err := choose(all, want)
	if err != nil {
		return 0, fmt.Errorf("%w; set discovery.kubernetes.port or the annotation %sport", err, prefix)
	}
	return at.Port, nil
}

// choose returns the TCP port with a name. For "" it returns the only one, or the one named http.
func choose(all []port, want string) (port, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(p port) bool { return p.Protocol != "" && p.Protocol != "TCP" })
	var names []string
	for _, at := range all {
		if want != "" && at.Name == want || want == "" && (len(all) == 1 || at.Name == "http") {
			return at, nil
		}
		names = append(names, cmp.Or(at.Name, strconv.Itoa(at.Port)))
	}
	switch {
	case len(all) == 0:
		return port{}, errors.New("it declares no port")
	case want == "":
		return port{}, fmt.Errorf("it has several ports (%s)", strings.Join(names, ", "))
	default:
		return port{}, fmt.Errorf("it has no port %q, but %s", want, strings.Join(names, ", "))
	}
}

func checkPort(n int) error {
	if n < 1 || n > 65535 {
		return fmt.Errorf("port %d is not between 1 and 65535", n)
	}
	return nil
}

// fromSlices returns the engines in a Service's EndpointSlices, with the annotations of their pods.
func fromSlices(c *discovery.KubernetesConfig, w world) (found []engine, problems []string) {
	byName := map[string]*pod{}
	for _, p := range w.pods {
		byName[p.Name] = p
	}
	four := map[string]bool{} // pods with an IPv4 address: their IPv6 address is the same engine
	for _, s := range w.slices {
		for _, at := range s.Endpoints {
			if s.AddressType == "IPv4" && at.TargetRef != nil {
				four[at.TargetRef.Name] = true
			}
		}
	}
	for _, s := range w.slices {
		if s.AddressType == "FQDN" || len(s.Endpoints) == 0 {
			continue
		}
		number, err := slicePort(s, c.Port)
		if err != nil {
			problems = append(problems, "the Service "+c.Service+" is left out: "+err.Error())
			continue
		}
		for _, at := range s.Endpoints {
			if len(at.Addresses) == 0 {
				continue
			}
			own := &pod{}
			name := ""
			if ref := at.TargetRef; ref != nil && (ref.Kind == "" || ref.Kind == "Pod") {
				if name = ref.Name; four[name] && s.AddressType != "IPv4" {
					continue
				}
				if p := byName[name]; p != nil {
					own = p
				}
			}
			if _, err := netip.ParseAddr(at.Addresses[0]); err != nil {
				problems = append(problems, fmt.Sprintf("%q in the EndpointSlice %s is not an address",
					at.Addresses[0], s.Name))
				continue
			}
			e, err := declare(c, own, net.JoinHostPort(at.Addresses[0], strconv.Itoa(number)))
			if err != nil {
				problems = append(problems, "pod "+name+" is left out: "+err.Error())
				continue
			}
			if name != "" {
				e.Name = name
			}
			ending := own.DeletionTimestamp != nil || at.Conditions.Terminating != nil && *at.Conditions.Terminating
			ready := at.Conditions.Ready == nil || *at.Conditions.Ready
			found = append(found, engine{config: e, ready: ready && !ending, ending: ending})
		}
	}
	return found, problems
}

// slicePort returns the number of a slice's port, given by name or number, or "" for the only one.
func slicePort(s *endpointSlice, want string) (int, error) {
	if n, err := strconv.Atoi(want); err == nil {
		return n, checkPort(n)
	}
	at, err := choose(s.Ports, want)
	if err != nil {
		return 0, fmt.Errorf("%w; set discovery.kubernetes.port", err)
	}
	return at.Port, nil
}

// declare returns the declaration of a pod's engine at an address: the common settings and the pod's annotations.
func declare(c *discovery.KubernetesConfig, p *pod, address string) (discovery.EndpointConfig, error) {
	e := c.Engine
	if err := annotate(&e, p); err != nil {
		return e, err
	}
	e = e.At(cmp.Or(p.Annotations[prefix+"scheme"], c.Scheme), address)
	return e, e.Validate()
}
