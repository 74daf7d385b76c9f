package metrics

import (
	"cmp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// sendStatus sends the snapshot that Gather took before it asked the registry, so that endpoints that are gone have no
// gauges.
func (m *Metrics) sendStatus(send sender) {
	s := &m.snapshot
	if !s.known {
		return
	}
	for i := range s.status {
		sendEndpoint(&s.status[i], send)
	}
	send("warmpath_sessions", float64(s.stats.Sessions))
	send("warmpath_session_hits_total", float64(s.stats.SessionHits))
	send("warmpath_session_misses_total", float64(s.stats.SessionMisses))
	send("warmpath_session_evictions_total", float64(s.stats.SessionEvictions))
	send("warmpath_responses", float64(s.stats.Responses))
	send("warmpath_leases", float64(s.stats.Leases))
	send("warmpath_double_finished_total", float64(s.stats.DoubleFinished))
	send("warmpath_retries_refused_total", float64(s.stats.RetriesRefused))
	send("warmpath_ejections_spared_total", float64(s.stats.EjectionsSpared))
	send("warmpath_panic_decisions_total", float64(s.stats.Panics))
	send("warmpath_queue_refused_total", float64(s.stats.QueueRefused))
	send("warmpath_sessions_held", float64(s.stats.Held))
	tokens, room := s.stats.HeldTokens, int64(0)
	for i := range s.status {
		tokens, room = tokens+s.status[i].WorkingSet, room+s.status[i].WorkingRoom
	}
	if room > 0 {
		send("warmpath_working_set_ratio", float64(tokens)/float64(room))
	}
	m.sendPoolSets(send)
}

// sendPoolSets sends the working sets of models and aliases.
func (m *Metrics) sendPoolSets(send sender) {
	s := &m.snapshot
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
	for i := range s.models[:min(len(s.models), m.pools.max)] {
		pool := &s.models[i]
		tokens, room := held[pool.ID], int64(0)
		for _, name := range pool.Endpoints {
			if e := at[name]; e != nil {
				tokens, room = tokens+e.WorkingSet, room+e.WorkingRoom
			}
		}
		if room > 0 {
			send("warmpath_pool_working_set_ratio", float64(tokens)/float64(room), pool.ID)
		}
	}
}

func sendEndpoint(e *route.EndpointStatus, send sender) {
	name := e.Endpoint.Name
	g := func(family string, v float64) { send(family, v, name) }
	send("warmpath_endpoint_info", 1, name, cmp.Or(string(e.Kind), unknown), cmp.Or(e.Source, unknown))
	for _, s := range []fleet.State{
		fleet.StateUnknown, fleet.StateUp, fleet.StateDown, fleet.StateEjected, fleet.StateBusy,
	} {
		send("warmpath_endpoint_state", oneIf(e.State == s), name, string(s))
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
