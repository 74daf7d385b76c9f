package handover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// Receiver is the address at which a decoder accepts KV cache: a port of each kind per tensor-parallel rank, in order
// (LMCache's pd_peer_host, pd_peer_init_port, pd_peer_alloc_port).
type Receiver struct {
	Host       string // "" in a registry means the host of the decoder's URL
	InitPorts  []int
	AllocPorts []int
	QueryPorts []int  // newer versions; nil if absent
	RDMAHost   string // newer versions; "" means Host
}

// spec is the prefiller's parameter.
func (r *Receiver) spec(id string) []byte {
	b := append([]byte(`{"ret_first_tok":true,"disagg_spec":{"req_id":`), quotedText(id)...)
	b = append(append(b, `,"receiver_host":`...), quotedText(r.Host)...)
	b = appendPorts(append(b, `,"receiver_init_port":`...), r.InitPorts)
	b = appendPorts(append(b, `,"receiver_alloc_port":`...), r.AllocPorts)
	if r.QueryPorts != nil {
		b = appendPorts(append(b, `,"receiver_query_port":`...), r.QueryPorts)
	}
	if r.RDMAHost != "" {
		b = append(append(b, `,"receiver_rdma_host":`...), quotedText(r.RDMAHost)...)
	}
	return append(b, '}', '}')
}

func appendPorts(b []byte, ports []int) []byte {
	b = append(b, '[')
	for i, p := range ports {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(p), 10)
	}
	return append(b, ']')
}

// Receivers finds the decoders' addresses, in this order: the registry's entry for a decoder, else Host with the given
// ports, else the host of the decoder's URL with these ports.
type Receivers struct {
	Registry   map[string]Receiver // by the endpoint's name or URL
	Host       string              // of the one decoder without an entry; "" for the host of its URL
	InitPorts  []int
	AllocPorts []int
}

// Of is the address of an endpoint; false when unknown.
func (r *Receivers) Of(e fleet.Endpoint) (Receiver, bool) {
	for _, key := range []string{e.Name, e.URL, e.URL + "/"} {
		if found, ok := r.Registry[key]; ok {
			if found.Host == "" {
				found.Host = hostOf(e.URL)
			}
			return found, found.Host != ""
		}
	}
	host := r.Host
	if host == "" {
		host = hostOf(e.URL)
	}
	if host == "" || len(r.InitPorts) == 0 || len(r.AllocPorts) == 0 {
		return Receiver{}, false
	}
	return Receiver{Host: host, InitPorts: r.InitPorts, AllocPorts: r.AllocPorts}, true
}

// Check validates a receiver with this many tensor-parallel ranks; 0 takes the number from the ports.
func (r *Receiver) Check(ranks int) error {
	if ranks == 0 {
		ranks = len(r.InitPorts)
	}
	var errs []error
	for _, of := range []struct {
		name  string
		ports []int
		none  bool // may be left out
	}{{"init_port", r.InitPorts, false}, {"alloc_port", r.AllocPorts, false}, {"query_port", r.QueryPorts, true}} {
		switch n := len(of.ports); {
		case of.none && n == 0:
		case n == 0:
			errs = append(errs, fmt.Errorf("%s is missing", of.name))
		case n < ranks:
			errs = append(errs, fmt.Errorf("%s has too few ports: %d for %d tensor-parallel ranks, each needs one",
				of.name, n, ranks))
		case n > ranks:
			errs = append(errs, fmt.Errorf("%s has %d ports for %d tensor-parallel ranks", of.name, n, ranks))
		}
		for _, p := range of.ports {
			if p < 1 || p > 65535 {
				errs = append(errs, fmt.Errorf("%s: %d is not a port", of.name, p))
			}
		}
	}
	return errors.Join(errs...)
}

// InlineReceivers reports whether the text is a registry itself, a JSON object, instead of a file name.
func InlineReceivers(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// ReadReceivers reads a registry given as JSON or as the name of a file, which read reads.
func ReadReceivers(text string, ranks int, read func(path string) ([]byte, error)) (map[string]Receiver, error) {
	if InlineReceivers(text) {
		found, err := ParseReceivers([]byte(text), ranks)
		if err != nil {
			return nil, fmt.Errorf("the JSON given: %w", err)
		}
		return found, nil
	}
	data, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a JSON object of decoders nor a file that can be read: %w", text, err)
	}
	found, err := ParseReceivers(data, ranks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return found, nil
}

// mostReceivers bounds a registry.
const mostReceivers = 10_000

// ParseReceivers parses a registry of decoders: a JSON object with a member per decoder, named by its URL or name, with
// host, init_port and alloc_port, and optionally query_port and rdma_host. A port is a number or a list with one per
// tensor-parallel rank. The names in the prefiller's parameters (receiver_host, receiver_init_port, ...) are accepted
// too. The keys of production-stack PR 890 (--decoder-registry) are not published; this follows its thread. The error
// lists every fault.
func ParseReceivers(data []byte, ranks int) (map[string]Receiver, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("is not a JSON object of decoders: %w", err)
	}
	names := rawjson.Names(data)
	if len(names) == 0 || len(names) > mostReceivers {
		return nil, fmt.Errorf("has %d decoders, must have 1 to %d", len(names), mostReceivers)
	}
	found := map[string]Receiver{}
	var errs []error
	for _, name := range names {
		value, _ := rawjson.Member(data, name)
		r, err := parseReceiver(value)
		if err == nil {
			err = r.Check(ranks)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("decoder %q: %w", name, err))
		}
		if _, twice := found[name]; twice {
			errs = append(errs, fmt.Errorf("decoder %q is there twice", name))
		}
		found[name] = r
	}
	return found, errors.Join(errs...)
}

// ports is a number or a list of numbers.
type ports []int

// UnmarshalJSON implements json.Unmarshaler.
func (p *ports) UnmarshalJSON(b []byte) error {
	var one int
	if json.Unmarshal(b, &one) == nil && string(b) != "null" {
		*p = ports{one}
		return nil
	}
	var list []int
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("%s is neither a port nor a list of ports", b)
	}
	*p = list
	return nil
}

func parseReceiver(data []byte) (r Receiver, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return r, errors.New("is not an object")
	}
	var v struct {
		Init, Alloc, Query ports
	}
	for _, name := range rawjson.Names(data) {
		var into any
		switch strings.TrimSuffix(strings.TrimPrefix(name, "receiver_"), "s") {
		case "host":
			into = &r.Host
		case "rdma_host":
			into = &r.RDMAHost
		case "init_port":
			into = &v.Init
		case "alloc_port":
			into = &v.Alloc
		case "query_port":
			into = &v.Query
		default:
			return r,
				fmt.Errorf("%q is not known; known are host, init_port, alloc_port, query_port and rdma_host", name)
		}
		value, _ := rawjson.Member(data, name)
		if err := json.Unmarshal(value, into); err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
	}
	r.InitPorts, r.AllocPorts, r.QueryPorts = v.Init, v.Alloc, v.Query
	return r, nil
}
