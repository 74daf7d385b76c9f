package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/kvstream"
)

// EndpointKV is what an endpoint's event streams brought, in all.
type EndpointKV struct {
	Endpoint string
	Counts   kvstream.Counts
}

// KVEvents is what is counted of KV events; cmd makes one of kvevents.Follower.
type KVEvents interface {
	// Figures are the counts by endpoint, and how many requests' tokens could not be had.
	Figures() (byEndpoint []EndpointKV, unasked uint64)
	// Publishers is what dials in.
	Publishers() KVPublishers
}

// KVPublishers are engines that dial in, by whether their endpoint is known, the messages of those that are nobody's, and connections that
// were refused. Listening is false where nobody can dial in.
type KVPublishers struct {
	Listening        bool
	Tied, Untied     int
	Dropped, Refused uint64
}

// kvCollector turns the counts at the moment of a scrape into series, and what the fleet knows of the events.
type kvCollector struct {
	m      *Metrics
	source KVEvents
	descs  map[string]*prometheus.Desc
}

// WatchKVEvents counts what KV events bring. It is called once, before the first scrape.
func (m *Metrics) WatchKVEvents(k KVEvents) {
	c := &kvCollector{m: m, source: k, descs: map[string]*prometheus.Desc{}}
	for _, f := range kvFamilies() {
		c.descs[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	m.replace("kvevents", c)
}

// Describe sends the fixed set of families.
func (c *kvCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect reads the snapshot of the fleet and the counts of the streams.
func (c *kvCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(name string, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], kind, v, labels...)
	}
	declared := map[string]bool{}
	if s := &c.m.snapshot; s.known {
		for i := range s.status {
			kv, name := &s.status[i].KV, s.status[i].Endpoint.Name
			if declared[name] = true; kv.State == kvstream.None {
				continue
			}
			for _, st := range []kvstream.State{kvstream.Exact, kvstream.Partial, kvstream.Silent, kvstream.Wrong} {
				send("warmpath_kv_state", prometheus.GaugeValue, oneIf(kv.State == st), name, string(st))
			}
			send("warmpath_kv_blocks", prometheus.GaugeValue, float64(kv.Blocks), name)
			send("warmpath_kv_tied_blocks_total", prometheus.CounterValue, float64(kv.Tied), name, "yes")
			send("warmpath_kv_tied_blocks_total", prometheus.CounterValue, float64(kv.Untied), name, "no")
			send("warmpath_kv_wrong_total", prometheus.CounterValue, float64(kv.Wrong), name)
		}
	}
	if p := c.source.Publishers(); p.Listening {
		send("warmpath_kv_publishers", prometheus.GaugeValue, float64(p.Tied), "yes")
		send("warmpath_kv_publishers", prometheus.GaugeValue, float64(p.Untied), "no")
		send("warmpath_kv_untied_messages_total", prometheus.CounterValue, float64(p.Dropped))
		send("warmpath_kv_refused_connections_total", prometheus.CounterValue, float64(p.Refused))
	}
	all, unasked := c.source.Figures()
	count := func(name string, v uint64, labels ...string) {
		send(name, prometheus.CounterValue, float64(v), labels...)
	}
	for i := range all {
		name, k := all[i].Endpoint, &all[i].Counts
		if !declared[name] {
			continue
		}
		count("warmpath_kv_events_total", k.Stored, name, "stored")
		count("warmpath_kv_events_total", k.Removed, name, "removed")
		count("warmpath_kv_events_total", k.Cleared, name, "cleared")
		count("warmpath_kv_events_total", k.Skipped, name, "skipped")
		count("warmpath_kv_events_total", k.Orphans, name, "orphan")
		count("warmpath_kv_events_total", k.Unknown, name, "unknown")
		count("warmpath_kv_events_total", k.Overfull, name, "overfull")
		count("warmpath_kv_messages_total", k.Batches, name, "applied")
		count("warmpath_kv_messages_total", k.Duplicate, name, "duplicate")
		count("warmpath_kv_messages_total", k.Missing, name, "missing")
		count("warmpath_kv_gaps_total", k.Gaps, name)
		count("warmpath_kv_restarts_total", k.Restarts, name)
	}
	count("warmpath_kv_tokens_unknown_total", unasked)
}
