package metrics

import "github.com/warmpath/warmpath/kvstream"

// EndpointKV has the total counts of an endpoint's event streams.
type EndpointKV struct {
	Endpoint string
	Counts   kvstream.Counts
}

// KVEvents are the counts of KV events; cmd makes them from kvevents.Follower.
type KVEvents struct {
	ByEndpoint []EndpointKV
	Unasked    uint64 // requests whose tokens could not be looked up
	Publishers KVPublishers
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

// WatchKVEvents adds the KV events, in the place of earlier ones.
func (m *Metrics) WatchKVEvents(now func() KVEvents) {
	m.rewatch(kvFamilies(), func(send sender) { m.sendKVEvents(now(), send) })
}

// sendKVEvents sends what the fleet's snapshot says of the events, and the counts of the streams.
func (m *Metrics) sendKVEvents(now KVEvents, send sender) {
	declared := map[string]bool{}
	for i := range m.snapshot.status {
		kv, name := &m.snapshot.status[i].KV, m.snapshot.status[i].Endpoint.Name
		if declared[name] = true; kv.State == kvstream.None {
			continue
		}
		for _, st := range []kvstream.State{kvstream.Exact, kvstream.Partial, kvstream.Silent, kvstream.Wrong} {
			send("warmpath_kv_state", oneIf(kv.State == st), name, string(st))
		}
		send("warmpath_kv_blocks", float64(kv.Blocks), name)
		send("warmpath_kv_tied_blocks_total", float64(kv.Tied), name, "yes")
		send("warmpath_kv_tied_blocks_total", float64(kv.Untied), name, "no")
		send("warmpath_kv_wrong_total", float64(kv.Wrong), name)
	}
	if p := now.Publishers; p.Listening {
		send("warmpath_kv_publishers", float64(p.Tied), "yes")
		send("warmpath_kv_publishers", float64(p.Untied), "no")
		send("warmpath_kv_foreign_publishers", float64(p.Foreign))
		send("warmpath_kv_untied_messages_total", float64(p.Dropped))
		send("warmpath_kv_refused_connections_total", float64(p.Refused))
	}
	for i := range now.ByEndpoint {
		name, k := now.ByEndpoint[i].Endpoint, &now.ByEndpoint[i].Counts
		if !declared[name] {
			continue
		}
		send("warmpath_kv_events_total", float64(k.Stored), name, "stored")
		send("warmpath_kv_events_total", float64(k.Removed), name, "removed")
		send("warmpath_kv_events_total", float64(k.Cleared), name, "cleared")
		send("warmpath_kv_events_total", float64(k.Skipped), name, "skipped")
		send("warmpath_kv_events_total", float64(k.Orphans), name, "orphan")
		send("warmpath_kv_events_total", float64(k.Unknown), name, "unknown")
		send("warmpath_kv_events_total", float64(k.Overfull), name, "overfull")
		send("warmpath_kv_messages_total", float64(k.Batches), name, "applied")
		send("warmpath_kv_messages_total", float64(k.Duplicate), name, "duplicate")
		send("warmpath_kv_messages_total", float64(k.Missing), name, "missing")
		send("warmpath_kv_gaps_total", float64(k.Gaps), name)
		send("warmpath_kv_restarts_total", float64(k.Restarts), name)
	}
	send("warmpath_kv_tokens_unknown_total", float64(now.Unasked))
}
