package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// DNSConfig declares the engines behind one DNS name. Everything but the first six fields holds for each of them.
type DNSConfig struct {
	// Name that is looked up: a host name, or with type srv the whole name of the SRV record.
	Name string `yaml:"name"`
	// Type of record: host (A, or AAAA where there is no A, so that an engine with both counts once), a, aaaa or srv.
	// Empty means host.
	Type string `yaml:"type"`
	// Port of the engines; needed unless the type is srv, whose records carry it.
	Port int `yaml:"port"`
	// Scheme of the engines: http or https. Empty means http. With https the certificates must hold for the addresses
	// (for the record's target names with srv).
	Scheme string `yaml:"scheme"`
	// Interval between look-ups. 0 means 10s.
	Interval time.Duration `yaml:"interval"`
	// RemoveAfter is how many answers in a row must say "no such name" before the endpoints are withdrawn. 0 means 3. A
	// look-up that fails otherwise never withdraws anything.
	RemoveAfter int `yaml:"remove_after"`
	// Kind of engine: vllm, sglang, trtllm, llamacpp, ollama or other. Empty means that probing recognises it.
	Kind string `yaml:"kind"`
	// Role of each: prefill, decode or both, as of an endpoint.
	Role string `yaml:"role"`
	// Weight is the share of new traffic of each. 0 takes none; not stated means 1. Differing weights of SRV records scale it.
	Weight *float64 `yaml:"weight"`
	// Models they serve. Empty means what the engines report.
	Models []string `yaml:"models"`
	// Ranks declares so many data-parallel ranks of each as endpoints of their own.
	Ranks int `yaml:"ranks"`
	// Slots declares so many llama.cpp slots of each as endpoints of their own.
	Slots int `yaml:"slots"`
	// ConversationID is as of an endpoint.
	ConversationID string `yaml:"conversation_id"`
	// KVEvents is as of an endpoint, with * for each engine's own address: tcp://*:5557, poll (TensorRT-LLM) or off. Empty goes by what the
	// engine tells.
	KVEvents string `yaml:"kv_events"`
	// KVReplay is where messages can be had again, such as tcp://*:5657.
	KVReplay string `yaml:"kv_replay"`
	// KVTopic is as of an endpoint.
	KVTopic string `yaml:"kv_topic"`
	// APIKey is sent to the engines as a bearer token.
	APIKey string `yaml:"api_key" secret:"true"`
	// APIKeyEnv names the environment variable that holds the key.
	APIKeyEnv string `yaml:"api_key_env"`
	// APIKeyFile names the file that holds the key.
	APIKeyFile string `yaml:"api_key_file"`
}

// WithDefaults fills in what is zero.
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

// engine is the declaration of one engine found at an address (host:port), or with "" of any.
func (c DNSConfig) engine(address string) EndpointConfig {
	return EndpointConfig{
		Kind: c.Kind, Role: c.Role, Weight: c.Weight, Models: c.Models,
		Ranks: c.Ranks, Slots: c.Slots, ConversationID: c.ConversationID, APIKey: c.APIKey, APIKeyEnv: c.APIKeyEnv, APIKeyFile: c.APIKeyFile,
		KVEvents: c.KVEvents, KVReplay: c.KVReplay, KVTopic: c.KVTopic,
	}.At(c.Scheme, address)
}

// Resolver is the part of net.Resolver that the DNS source uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// DNS looks a name up again and again and publishes what it finds as source "dns:NAME". Names are host:port, in order.
type DNS struct {
	c        DNSConfig
	source   string
	key      string
	resolver Resolver
	log      *slog.Logger

	last   []fleet.Endpoint // as published
	told   bool             // something was published: who had the source before may have published more
	misses int              // answers in a row that said "no such name"
	failed bool             // the last look-up failed; said once, not each time
}

// NewDNS makes a source. Its faults are those of the configuration and of keys; names are first looked up by Run.
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

// Source is the name under which it publishes.
func (d *DNS) Source() string { return d.source }

// Run looks the name up at once and then once an interval, until ctx ends.
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
	var dnsErr *net.DNSError
	gone := err == nil && len(found) == 0 || errors.As(err, &dnsErr) && dnsErr.IsNotFound
	switch {
	case gone:
		d.misses++
		if d.misses == 1 {
			d.log.Warn("no endpoints under this DNS name", "source", d.source, "kept", len(d.last), "remove_after", d.c.RemoveAfter)
		}
		if d.misses < d.c.RemoveAfter {
			return
		}
		found = nil
	case err != nil:
		if !d.failed {
			d.log.Warn("DNS look-up failed; the last answer stays", "source", d.source, "kept", len(d.last), "error", err)
		}
		d.failed = true
		return
	default:
		d.misses = 0
	}
	d.failed = false
	if Equal(found, d.last) && d.told {
		return
	}
	d.log.Info("endpoints changed", "source", d.source, "endpoints", len(found))
	d.last, d.told = found, true
	publish(route.Declared{Source: d.source, Endpoints: slices.Clone(found)})
}

// target is one address that DNS knows, and its share beside the others (1 is the mean).
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
		return nil, fmt.Errorf("the answer makes %d endpoints, more than %d", len(out), MaxEndpoints)
	}
	return out, nil
}

func (d *DNS) hosts(ctx context.Context) ([]target, error) {
	network := map[string]string{"host": "ip", "a": "ip4", "aaaa": "ip6"}[d.c.Type]
	addrs, err := d.resolver.LookupNetIP(ctx, network, d.c.Name)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	if d.c.Type == "host" && slices.ContainsFunc(addrs, netip.Addr.Is4) {
		addrs = slices.DeleteFunc(addrs, netip.Addr.Is6)
	}
	var out []target
	for _, a := range addrs {
		// A zone ("fe80::1%eth0") cannot stand in a URL's host unescaped, nor in a name.
		out = append(out, target{net.JoinHostPort(a.WithZone("").String(), strconv.Itoa(d.c.Port)), 1})
	}
	return out, nil
}

// srv keeps the records of the most preferred priority (RFC 2782: the lowest number that can be reached) and turns their
// weights into shares. A weight of 0 beside others means "almost never" there, so it counts as 1.
func (d *DNS) srv(ctx context.Context) ([]target, error) {
	_, records, err := d.resolver.LookupSRV(ctx, "", "", d.c.Name)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, nil
	}
	best := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	records = slices.DeleteFunc(slices.Clone(records), func(r *net.SRV) bool { return r.Priority != best || r.Target == "." })
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
