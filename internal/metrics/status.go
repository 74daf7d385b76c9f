package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// statusCollector turns a scrape's snapshot into gauges, so that endpoints that are gone have none.
type statusCollector struct {
	m        *Metrics
	families map[string]statusFamily
}

type statusFamily struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newStatusCollector(m *Metrics) *statusCollector {
	c := &statusCollector{m: m, families: map[string]statusFamily{}}
	for _, name := range []string{
		"warmpath_endpoint_info", "warmpath_endpoint_state", "warmpath_endpoint_draining", "warmpath_endpoint_asleep",
		"warmpath_endpoint_weight",
		"warmpath_endpoint_ramp_ratio", "warmpath_endpoint_outstanding_requests", "warmpath_endpoint_queued_requests",
		"warmpath_endpoint_outstanding_prefill_tokens", "warmpath_endpoint_outstanding_decode_tokens",
		"warmpath_endpoint_transfer_requests", "warmpath_endpoint_transfer_tokens",
		"warmpath_endpoint_transfer_seconds", "warmpath_endpoint_transfer_tokens_per_second",
		"warmpath_endpoint_engine_running", "warmpath_endpoint_engine_waiting", "warmpath_endpoint_kv_usage_ratio",
		"warmpath_endpoint_kv_capacity_tokens", "warmpath_cache_losses_total", "warmpath_sessions",
		"warmpath_session_hits_total",
		"warmpath_session_misses_total", "warmpath_session_evictions_total", "warmpath_responses", "warmpath_leases",
		"warmpath_double_finished_total", "warmpath_retries_refused_total", "warmpath_ejections_spared_total",
		"warmpath_panic_decisions_total", "warmpath_queue_refused_total", "warmpath_sessions_held",
		"warmpath_working_set_ratio", "warmpath_pool_working_set_ratio", "warmpath_endpoint_working_set_ratio",
	} {
		f := familyOf(name)
		kind := prometheus.GaugeValue
		if f.Kind == counter {
			kind = prometheus.CounterValue
		}
		c.families[name] = statusFamily{prometheus.NewDesc(f.Name, f.Help, f.Labels, nil), kind}
	}
	return c
}

// Describe sends the fixed set of families.
func (c *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.families {
		ch <- f.desc
	}
}

// Collect reads the snapshot that Metrics.Gather took before it asked the registry.
func (c *statusCollector) Collect(ch chan<- prometheus.Metric) {
	s := &c.m.snapshot
	if !s.known {
		return
	}
	for i := range s.status {
		c.endpoint(ch, &s.status[i])
	}
	g := func(name string, v float64) { c.send(ch, name, v) }
	g("warmpath_sessions", float64(s.stats.Sessions))
	g("warmpath_session_hits_total", float64(s.stats.SessionHits))
	g("warmpath_session_misses_total", float64(s.stats.SessionMisses))
	g("warmpath_session_evictions_total", float64(s.stats.SessionEvictions))
	g("warmpath_responses", float64(s.stats.Responses))
	g("warmpath_leases", float64(s.stats.Leases))
	g("warmpath_double_finished_total", float64(s.stats.DoubleFinished))
	g("warmpath_retries_refused_total", float64(s.stats.RetriesRefused))
	g("warmpath_ejections_spared_total", float64(s.stats.EjectionsSpared))
	g("warmpath_panic_decisions_total", float64(s.stats.Panics))
	g("warmpath_queue_refused_total", float64(s.stats.QueueRefused))
	g("warmpath_sessions_held", float64(s.stats.Held))
	tokens, room := s.stats.HeldTokens, int64(0)
	for i := range s.status {
		tokens, room = tokens+s.status[i].WorkingSet, room+s.status[i].WorkingRoom
	}
	if room > 0 {
		g("warmpath_working_set_ratio", float64(tokens)/float64(room))
	}
	c.poolSets(ch, s)
}

// poolSets tells the working sets of models and aliases.
func (c *statusCollector) poolSets(ch chan<- prometheus.Metric, s *snapshot) {
	at := map[string]*route.EndpointStatus{}
	for i := range s.status {
		if e := &s.status[i]; e.WorkingRoom > 0 {
			at[e.Endpoint.Name] = e
		}
	}
	if len(at) == 0 {
		return
	}
	held := map[string]int64{}
	for _, l := range s.stats.HeldPools {
		held[l.Pool] = l.Tokens
	}
	for i := range s.models[:min(len(s.models), c.m.pools.max)] {
		m := &s.models[i]
		tokens, room := held[m.ID], int64(0)
		for _, name := range m.Endpoints {
			if e := at[name]; e != nil {
				tokens, room = tokens+e.WorkingSet, room+e.WorkingRoom
			}
		}
		if room > 0 {
			c.send(ch, "warmpath_pool_working_set_ratio", float64(tokens)/float64(room), m.ID)
		}
	}
}

func (c *statusCollector) endpoint(ch chan<- prometheus.Metric, e *route.EndpointStatus) {
	name := e.Endpoint.Name
	g := func(family string, v float64) { c.send(ch, family, v, name) }
	c.send(ch, "warmpath_endpoint_info", 1, name, orUnknown(string(e.Kind)), orUnknown(e.Source))
	for _, s := range []fleet.State{
		fleet.StateUnknown, fleet.StateUp, fleet.StateDown, fleet.StateEjected, fleet.StateBusy,
	} {
		c.send(ch, "warmpath_endpoint_state", oneIf(e.State == s), name, string(s))
	}
	g("warmpath_endpoint_draining", oneIf(e.Draining))
	g("warmpath_endpoint_asleep", oneIf(e.Report.Sleep.Sleeps()))
	g("warmpath_endpoint_weight", e.Endpoint.Weight)
	g("warmpath_endpoint_ramp_ratio", e.Ramp)
	g("warmpath_endpoint_outstanding_requests", float64(e.Load.Requests))
	g("warmpath_endpoint_queued_requests", float64(e.Load.Queued))
	g("warmpath_endpoint_outstanding_prefill_tokens", float64(e.Load.PrefillTokens))
	g("warmpath_endpoint_outstanding_decode_tokens", float64(e.Load.DecodeTokens))
	g("warmpath_endpoint_transfer_requests", float64(e.Load.TransferRequests))
	g("warmpath_endpoint_transfer_tokens", float64(e.Load.TransferTokens))
	if e.TransferPerSec > 0 {
		g("warmpath_endpoint_transfer_seconds", e.TransferMs/1000)
		g("warmpath_endpoint_transfer_tokens_per_second", e.TransferPerSec)
	}
	if l := e.Report.Load; l != nil {
		reported := func(family string, v float64) {
			if v >= 0 {
				g(family, v)
			}
		}
		reported("warmpath_endpoint_engine_running", float64(l.Running))
		reported("warmpath_endpoint_engine_waiting", float64(l.Waiting))
		reported("warmpath_endpoint_kv_usage_ratio", l.KVUsage)
	}
	g("warmpath_cache_losses_total", float64(e.CacheLosses))
	if e.WorkingRoom > 0 {
		g("warmpath_endpoint_working_set_ratio", float64(e.WorkingSet)/float64(e.WorkingRoom))
	}
	if e.Report.CacheTokens > 0 {
		g("warmpath_endpoint_kv_capacity_tokens", float64(e.Report.CacheTokens))
	}
}

func (c *statusCollector) send(ch chan<- prometheus.Metric, name string, v float64, labels ...string) {
	f := c.families[name]
	ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
