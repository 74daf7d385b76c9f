package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/kvstream"
)

// EndpointKV has the total counts of an endpoint's event streams.
type EndpointKV struct {
	Endpoint string
	Counts   kvstream.Counts
}

// KVEvents returns the counts of KV events; cmd makes one from kvevents.Follower.
type KVEvents interface {
	// Figures are the counts by endpoint, and the number of requests whose tokens could not be looked up.
	Figures() (byEndpoint []EndpointKV, unasked uint64)
	// Publishers are the counts of engines that connect to the router.
	Publishers() KVPublishers
}

// KVPublishers are engines that connect to the router, by whether their endpoint is known, and those that claim to be
// one with another address; the dropped messages of unknown ones, and refused connections. Listening is false if the
// router does not listen.
type KVPublishers struct {
	Listening        bool
	Tied, Untied     int
	Foreign          int
	Dropped, Refused uint64
}

// kvCollector turns the counts and the fleet's state of the events into series at the time of a scrape.
type kvCollector struct {
	m      *Metrics
	source KVEvents
	descs  map[string]*prometheus.Desc
}

// WatchKVEvents adds the KV events. It is called once, before the first scrape.
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
		send("warmpath_kv_foreign_publishers", prometheus.GaugeValue, float64(p.Foreign))
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
