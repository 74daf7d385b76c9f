package kvevents

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// publication is one publisher's messages: a topic, and the data-parallel rank in them.
type publication struct {
	topic string
	rank  int
}

// directory finds the endpoint of a publication. It is rebuilt when endpoints change.
type directory struct {
	endpoints []fleet.Endpoint
	models    func(endpoint string) []string // of its engine, besides those declared

	byTopic, byName, byAddress, byHost map[string][]int
}

func newDirectory(endpoints []fleet.Endpoint, models func(string) []string) *directory {
	d := &directory{
		endpoints: endpoints, models: models,
		byTopic: map[string][]int{}, byName: map[string][]int{}, byAddress: map[string][]int{}, byHost: map[string][]int{},
	}
	add := func(to map[string][]int, key string, i int) {
		if key != "" {
			to[key] = append(to[key], i)
		}
	}
	for i := range endpoints {
		e := &endpoints[i]
		add(d.byTopic, e.KVTopic, i)
		add(d.byName, e.Name, i)
		if e.Part != (fleet.Part{}) {
			add(d.byName, strings.TrimSuffix(e.Name, "/"+e.Part.String()), i)
		}
		if u, err := url.Parse(e.URL); err == nil {
			add(d.byHost, strings.ToLower(u.Hostname()), i)
			add(d.byAddress, strings.ToLower(net.JoinHostPort(u.Hostname(), portOf(u))), i)
		}
	}
	return d
}

// portOf is the port of an endpoint's URL, explicit or default.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// owner is the endpoint of a publication: the one with this kv_topic, or whose name, address or host is POD in a topic
// kv@POD@MODEL; MODEL selects among several. The error says why there is none.
func (d *directory) owner(p publication) (*fleet.Endpoint, error) {
	found, model := d.byTopic[p.topic], ""
	if len(found) == 0 {
		rest, ok := strings.CutPrefix(p.topic, "kv@")
		pod, m, both := strings.Cut(rest, "@")
		if !ok || !both || pod == "" {
			return nil, fmt.Errorf("it is no endpoint's kv_topic, and not of the form kv@POD@MODEL")
		}
		model = m
		if found = d.byName[pod]; len(found) == 0 {
			found = d.byAddress[strings.ToLower(pod)]
		}
		if len(found) == 0 {
			found = d.byHost[strings.ToLower(strings.Trim(pod, "[]"))]
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no endpoint has the name, address or host %q", pod)
		}
	}
	name := d.endpoints[found[0]].Name
	found = d.where(found, func(e *fleet.Endpoint) bool { return e.KVEvents == "" || e.KVEvents == listenEvents })
	if len(found) == 0 {
		return nil, fmt.Errorf("the kv_events of endpoint %s say otherwise", name)
	}
	found = d.where(found, func(e *fleet.Endpoint) bool {
		return e.Part == (fleet.Part{}) || e.Part.Kind == fleet.Rank && e.Part.Index == p.rank
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("endpoint %s has no such rank", name)
	}
	if len(found) > 1 {
		found = d.where(found, func(e *fleet.Endpoint) bool {
			return slices.Contains(e.Models, model) || slices.Contains(d.models(e.Name), model)
		})
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("several endpoints have that address, and not one of them alone serves the model")
	}
	return &d.endpoints[found[0]], nil
}

// where returns the elements of a list for which ok holds.
func (d *directory) where(list []int, ok func(*fleet.Endpoint) bool) (out []int) {
	for _, i := range list {
		if ok(&d.endpoints[i]) {
			out = append(out, i)
		}
	}
	return out
}
