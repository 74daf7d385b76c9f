package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// DNSConfig declares the engines behind one DNS name. All but the first six fields apply to each engine.
type DNSConfig struct {
	// Name to look up: a host name, or with type srv the full name of the SRV record.
	Name string `yaml:"name"`
	// Type of record: host (A, or AAAA if there is no A, so that an engine with both counts once), a, aaaa or srv.
	// Empty means host.
	Type string `yaml:"type"`
	// Port of the engines. Required unless the type is srv, whose records contain it.
	Port int `yaml:"port"`
	// Scheme of the engines: http or https. Empty means http. With https the certificates must be valid for the
	// addresses (with srv, for the target names of the records).
	Scheme string `yaml:"scheme"`
	// Interval between lookups. 0 means 10s.
	Interval time.Duration `yaml:"interval"`
	// RemoveAfter is the number of consecutive "no such name" answers after which the endpoints are removed. 0 means 3.
	// Other failures never remove endpoints.
	RemoveAfter int `yaml:"remove_after"`
	// Kind of engine: vllm, sglang, trtllm, llamacpp, ollama or other. Empty: probes detect it.
	Kind string `yaml:"kind"`
	// Role of each engine: prefill, decode or both, as for an endpoint.
	Role string `yaml:"role"`
	// Weight of each engine in the distribution of new traffic. 0 means none; not set means 1. Weights of SRV records
	// scale it.
	Weight *float64 `yaml:"weight"`
	// Models that the engines serve. Empty: the ones that they report. * as for endpoints.
	Models []string `yaml:"models"`
	// Ranks is the number of data-parallel ranks of each engine; each rank becomes an endpoint.
	Ranks int `yaml:"ranks"`
	// Slots is the number of llama.cpp slots of each engine; each slot becomes an endpoint.
	Slots int `yaml:"slots"`
	// ConversationID is the same as for an endpoint.
	ConversationID string `yaml:"conversation_id"`
	// KVEvents is the same as for an endpoint, with * for each engine's own address: tcp://*:5557, poll (TensorRT-LLM)
	// or off. Empty: probes ask the engine.
	KVEvents string `yaml:"kv_events"`
	// KVReplay is the address of the engine's replay socket, such as tcp://*:5657.
	KVReplay string `yaml:"kv_replay"`
	// KVTopic is the same as for an endpoint.
	KVTopic string `yaml:"kv_topic"`
	// APIKey is sent to the engines as a bearer token.
	APIKey string `yaml:"api_key" secret:"true"`
	// APIKeyEnv is the name of an environment variable with the key.
	APIKeyEnv string `yaml:"api_key_env"`
	// APIKeyFile is the name of a file with the key.
	APIKeyFile string `yaml:"api_key_file"`
}

// WithDefaults replaces zero values with the defaults.
func (c DNSConfig) WithDefaults() DNSConfig {
	c.Type = cmp.Or(c.Type, "host")
	c.Scheme = cmp.Or(c.Scheme, "http")
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	c.RemoveAfter = cmp.Or(c.RemoveAfter, 3)
	return c
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c DNSConfig) Validate() error {
	c = c.WithDefaults()
	var faults []error
	if strings.Trim(c.Name, ".") == "" || strings.ContainsAny(c.Name, " /:") || len(c.Name) > 254 {
		faults = append(faults, fault("name", "%q is not a DNS name", c.Name))
	}
	if !slices.Contains([]string{"host", "a", "aaaa", "srv"}, c.Type) {
		faults = append(faults, fault("type", "is %q, must be host, a, aaaa or srv", c.Type))
	}
	switch {
	case c.Type == "srv" && c.Port != 0:
		faults = append(faults, fault("port", "SRV records carry the port; leave it out"))
	case c.Type != "srv" && (c.Port < 1 || c.Port > 65535):
		faults = append(faults, fault("port", "is %d, must be between 1 and 65535", c.Port))
	}
	if c.Scheme != "http" && c.Scheme != "https" {
		faults = append(faults, fault("scheme", "is %q, must be http or https", c.Scheme))
	}
	if c.Interval < time.Second {
		faults = append(faults, fault("interval", "is %v, must be 1s or more", c.Interval))
	}
	if c.RemoveAfter < 1 {
		faults = append(faults, fault("remove_after", "is %d, must be 1 or more", c.RemoveAfter))
	}
	faults = append(faults, ownAddresses("", c.engine(""))...)
	return errors.Join(append(faults, c.engine("host:1").checkTraits()...)...)
}

// engine is the declaration of an engine at an address (host:port); "" for any.
func (c DNSConfig) engine(address string) EndpointConfig {
	return EndpointConfig{
		Kind: c.Kind, Role: c.Role, Weight: c.Weight, Models: c.Models,
		Ranks: c.Ranks, Slots: c.Slots, ConversationID: c.ConversationID, APIKey: c.APIKey, APIKeyEnv: c.APIKeyEnv,
		APIKeyFile: c.APIKeyFile, KVEvents: c.KVEvents, KVReplay: c.KVReplay, KVTopic: c.KVTopic,
	}.At(c.Scheme, address)
}

// DNS looks a name up periodically and publishes the engines as source "dns:NAME". Their names are host:port, sorted.
type DNS struct {
	c        DNSConfig
	source   string
	key      string
	resolver Resolver
	log      *slog.Logger

	last []fleet.Endpoint // last published
	// published at least once; before that, the source may have endpoints of an earlier configuration
	sent   bool
	misses int  // consecutive "no such name" answers
	failed bool // the last lookup failed; logged once
	left   bool // the last answer had records that are left out; logged once
}

// NewDNS makes a source. It fails for faults of the configuration and for missing keys. Run does the first lookup.
func NewDNS(c DNSConfig, resolver Resolver, keys Keys, log *slog.Logger) (*DNS, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	key, err := keys.of(c.engine(""))
	if err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	source := "dns:" + c.Name
	if c.Port != 0 {
		source += ":" + strconv.Itoa(c.Port)
	}
	return &DNS{c: c, source: source, key: key, resolver: resolver, log: log}, nil
}

// Source is the name of the source.
func (d *DNS) Source() string { return d.source }

// Same implements Runner.
func (d *DNS) Same(before Runner) bool {
	o, ok := before.(*DNS)
	return ok && reflect.DeepEqual(d.c, o.c) && d.key == o.key
}

// Run looks the name up at once and then at each interval, until ctx ends.
func (d *DNS) Run(ctx context.Context, publish Publish) {
	tick := time.NewTicker(d.c.Interval)
	defer tick.Stop()
	for {
		d.look(ctx, publish)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *DNS) look(ctx context.Context, publish Publish) {
	limited, cancel := context.WithTimeout(ctx, min(d.c.Interval, 5*time.Second))
	found, err := d.resolve(limited)
	cancel()
	if ctx.Err() != nil {
		return
	}
	gone := err == nil && len(found) == 0 || isNotFound(err)
	switch {
	case gone:
		d.misses++
		if d.misses == 1 {
			d.log.Warn("the DNS name has no endpoints", "source", d.source, "kept", len(d.last),
				"remove_after", d.c.RemoveAfter)
		}
		if d.misses < d.c.RemoveAfter {
			return
		}
		found = nil
	case err != nil:
		if !d.failed {
			d.log.Warn("DNS lookup failed; keeping the last answer",
				"source", d.source, "kept", len(d.last), "error", err)
		}
		d.failed = true
		return
	default:
		d.misses = 0
	}
	d.failed = false
	if Equal(found, d.last) && d.sent {
		return
	}
	d.log.Info("endpoints changed", "source", d.source, "endpoints", len(found))
	d.last, d.sent = found, true
	publish(route.Declared{Source: d.source, Endpoints: slices.Clone(found)})
}

// target is one address in a DNS answer, and its weight relative to the mean.
type target struct {
	address string
	share   float64
}

func (d *DNS) resolve(ctx context.Context) ([]fleet.Endpoint, error) {
	var targets []target
	var err error
	if d.c.Type == "srv" {
		targets, err = d.srv(ctx)
	} else {
		targets, err = d.hosts(ctx)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.address, b.address) })
	targets = slices.CompactFunc(targets, func(a, b target) bool { return a.address == b.address })
	var out []fleet.Endpoint
	for _, t := range targets {
		c := d.c.engine(t.address)
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("answer %q: %w", t.address, err)
		}
		for _, e := range c.expand(d.key) {
			e.Weight *= t.share
			out = append(out, e)
		}
	}
	if len(out) > MaxEndpoints {
		return nil, fmt.Errorf("the answer has %d endpoints, more than %d", len(out), MaxEndpoints)
	}
	return out, nil
}

// hosts looks addresses up, those of the second family only once it is known that there are none of the first: asked
// for both at once, package net leaves out the family whose look-up fails.
func (d *DNS) hosts(ctx context.Context) ([]target, error) {
	networks := map[string][]string{"host": {"ip4", "ip6"}, "a": {"ip4"}, "aaaa": {"ip6"}}[d.c.Type]
	var addrs []netip.Addr
	for i := 0; i < len(networks) && len(addrs) == 0; i++ {
		var err error
		if addrs, err = d.resolver.LookupNetIP(ctx, networks[i], d.c.Name); err != nil && !isNotFound(err) {
			return nil, err
		}
	}
	for i := range addrs {
		a := addrs[i].Unmap()
		if a.IsUnspecified() || a.IsMulticast() { // 0.0.0.0 would be this machine
			return nil, fmt.Errorf("%s is no host's address; name servers that filter answer so for what they block", a)
		}
		addrs[i] = a
	}
	var out []target
	for _, a := range addrs {
		// A zone ("fe80::1%eth0") is not allowed unescaped in the host of a URL, nor in a name.
		out = append(out, target{net.JoinHostPort(a.WithZone("").String(), strconv.Itoa(d.c.Port)), 1})
	}
	return out, nil
}

// srv keeps the records with the best priority (RFC 2782: the lowest number) and turns their weights into shares. RFC
// 2782 gives a weight of 0 very little traffic, so it counts as 1. One that names no engine, such as that of a service
// without a port, must not keep the others from coming and going.
func (d *DNS) srv(ctx context.Context) ([]target, error) {
	_, answer, err := d.resolver.LookupSRV(ctx, "", "", d.c.Name)
	if err != nil && len(answer) == 0 {
		return nil, err
	}
	records := slices.DeleteFunc(slices.Clone(answer), func(r *net.SRV) bool { return r.Target == "." || r.Port == 0 })
	// package net has left out the records without a proper name where there is an error too
	if left := err != nil || len(records) < len(answer); left != d.left {
		if d.left = left; left {
			d.log.Warn("records without a port or a proper name are left out", "source", d.source, "kept", len(records))
		}
	}
	if len(records) == 0 {
		return nil, nil
	}
	best := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	records = slices.DeleteFunc(records, func(r *net.SRV) bool { return r.Priority != best })
	total := 0.0
	for _, r := range records {
		total += float64(max(r.Weight, 1))
	}
	var out []target
	for _, r := range records {
		host := strings.ToLower(strings.TrimSuffix(r.Target, "."))
		share := float64(max(r.Weight, 1)) * float64(len(records)) / total
		out = append(out, target{net.JoinHostPort(host, strconv.Itoa(int(r.Port))), share})
	}
	return out, nil
}
