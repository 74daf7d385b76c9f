package kvevents

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// publication is one publisher's messages: a topic, the data-parallel rank in them, and the address that they come
// from.
type publication struct {
	topic string
	rank  int
	from  netip.Addr
}

// directory finds the endpoint of a publication. It is rebuilt when endpoints change.
type directory struct {
	endpoints []fleet.Endpoint
	models    func(endpoint string) []string // of its engine, besides those declared
	first     func(endpoint string) int      // number of its engine's first rank
	judge     func(e *fleet.Endpoint, from netip.Addr) from

	byTopic, byName, byAddress, byHost map[string][]int
}

func newDirectory(endpoints []fleet.Endpoint, models func(string) []string, first func(string) int,
	judge func(*fleet.Endpoint, netip.Addr) from,
) *directory {
	d := &directory{
		endpoints: endpoints, models: models, first: first, judge: judge,
		byTopic: map[string][]int{}, byName: map[string][]int{}, byAddress: map[string][]int{},
		byHost: map[string][]int{},
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

var (
	errPending = errors.New("the endpoint's name is being looked up")
	errForeign = errors.New("it comes from elsewhere")
)

// owner is the endpoint of a publication: the one with this kv_topic, or whose name, address or host is POD in a topic
// kv@POD@MODEL; MODEL selects among several. A topic that is no kv_topic must come from the endpoint's own address: who
// can reach the port could otherwise speak for every engine. The error says why there is none.
func (d *directory) owner(p publication) (*fleet.Endpoint, error) {
	found, model := d.byTopic[p.topic], ""
	stated := len(found) > 0
	if !stated {
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
		return e.Part == (fleet.Part{}) && p.rank < mostRanks ||
			e.Part.Kind == fleet.Rank && e.Part.Index+d.first(e.Name) == p.rank
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
	e := &d.endpoints[found[0]]
	if !stated {
		switch d.judge(e, p.from) {
		case another:
			return nil, fmt.Errorf(
				"%w: %s is not the address of endpoint %s (%s); if it must be, state the topic as its kv_topic",
				errForeign, p.from, e.Name, e.URL)
		case pending:
			return nil, errPending
		case itsOwn:
		}
	}
	return e, nil
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
