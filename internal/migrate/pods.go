package migrate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// pods are engines that Kubernetes is asked for: an entry of discovery.kubernetes.
type pods struct {
	pool, selector, namespace, port string
	kind, role                      string
}

// follow has the router follow pods.
func (d *draft) follow(p pods) { d.pods = append(d.pods, p) }

// followed is the list of what Kubernetes is asked.
func (d *draft) followed() []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, p := range d.pods {
		var m, engine yaml.MapSlice
		for _, s := range []struct{ key, value string }{
			{"pool", p.pool}, {"selector", p.selector}, {"namespace", p.namespace}, {"port", p.port},
		} {
			if s.value != "" {
				m = append(m, yaml.MapItem{Key: s.key, Value: s.value})
			}
		}
		if kind := cmp.Or(p.kind, d.kind); kind != "" {
			engine = append(engine, yaml.MapItem{Key: "kind", Value: kind})
		}
		if p.role != roleBoth {
			engine = append(engine, yaml.MapItem{Key: "role", Value: p.role})
		}
		if d.ranks > 1 {
			engine = append(engine, yaml.MapItem{Key: "ranks", Value: d.ranks})
		}
		if len(engine) > 0 {
			m = append(m, yaml.MapItem{Key: "engine", Value: engine})
		}
		out = append(out, m)
	}
	return out
}

// gatewayPods are the flags by which SMG and vllm-router find pods.
func gatewayPods(d *draft, kind string) []flag {
	on, line := false, 0
	port, namespace := "80", ""
	selectors := map[string]string{}
	flags := []flag{
		{name: "service-discovery", do: func(l int, _ []string) { on, line = true, l }},
		one("service-discovery-port", func(_ int, v string) { port = v }),
		one("service-discovery-namespace", func(_ int, v string) { namespace = v }),
	}
	roles := []struct{ flag, role string }{
		{"selector", roleBoth}, {"prefill-selector", rolePrefill}, {"decode-selector", roleDecode},
	}
	for _, r := range roles {
		flags = append(flags, flag{name: r.flag, takes: many, do: func(_ int, pairs []string) {
			selectors[r.flag] = strings.Join(pairs, ",")
		}})
	}
	d.ends = append(d.ends, func() {
		if !on {
			return
		}
		split := selectors["prefill-selector"] != "" || selectors["decode-selector"] != ""
		for _, r := range roles {
			if s := selectors[r.flag]; s != "" && (r.role != roleBoth) == split {
				d.follow(pods{selector: s, namespace: namespace, port: port, kind: kind, role: r.role})
			}
		}
		switch {
		case len(d.pods) == 0:
			d.miss(line, "--service-discovery",
				"no --selector says which pods: give discovery.kubernetes a selector, service or pool")
		case namespace == "":
			d.miss(line, "--service-discovery", "pods of all namespaces are followed there, "+
				"here those of the router's own: state an entry of discovery.kubernetes for each namespace")
		}
	})
	return flags
}

// stackPods says which pods production-stack's router follows.
func (s *stack) stackPods() {
	d, line := s.d, s.lines["service-discovery"]
	switch {
	case s.discovery == "" || s.discovery == "static":
		return
	case s.discovery != "k8s":
		d.miss(line, "--service-discovery "+s.discovery, "declare an endpoint of kind other for each provider")
		return
	case s.services == "service-name":
		d.miss(line, "--k8s-service-discovery-type service-name",
			"name each Service in discovery.kubernetes (service: NAME)")
		return
	case s.selector == "":
		d.miss(line, "--service-discovery k8s",
			"no --k8s-label-selector says which pods: give discovery.kubernetes a selector, service or pool")
		return
	}
	p := pods{
		selector: s.selector, namespace: cmp.Or(s.namespace, "default"), port: cmp.Or(s.podPort, "8000"), kind: "vllm",
	}
	if !strings.HasPrefix(s.logic, "disaggregated_prefill") || len(s.prefill) == 0 && len(s.decode) == 0 {
		d.follow(p)
		return
	}
	for _, side := range []struct {
		role   string
		labels []string
	}{{rolePrefill, s.prefill}, {roleDecode, s.decode}} {
		if len(side.labels) == 0 {
			continue
		}
		labels := slices.Clone(side.labels)
		slices.Sort(labels)
		with := p // production-stack takes the pod's label "model" for the label of an engine
		with.selector += ",model in (" + strings.Join(labels, ",") + ")"
		with.role = side.role
		d.follow(with)
	}
}

// poolFlags are the flags by which llm-d's endpoint picker finds pods.
func poolFlags(d *draft) []flag {
	var pool, namespace, selector, port string
	line := 0
	d.ends = append(d.ends, func() {
		switch {
		case pool != "":
			d.follow(pods{pool: pool, namespace: cmp.Or(namespace, "default")})
		case selector != "":
			d.follow(pods{selector: selector, namespace: namespace, port: port})
			if strings.Contains(port, ",") {
				d.pods[len(d.pods)-1].port = ""
				d.miss(line, "--endpoint-target-ports "+port, "state an entry of discovery.kubernetes for each port")
			}
		}
	})
	return []flag{
		one("pool-name", func(_ int, v string) { pool = v }),
		one("pool-namespace", func(_ int, v string) { namespace = v }),
		one("endpoint-selector", func(_ int, v string) { selector = v }),
		one("endpoint-target-ports", func(l int, v string) { port, line = v, l }),
	}
}
