package kv

import (
	"encoding/json"
	"net"
	"strconv"
)

// Publishers are those of all ranks of one engine, in order; none without KV events.
type Publishers []*Publisher

// Close ends all of them.
func (all Publishers) Close() {
	for _, p := range all {
		p.Close()
	}
}

// Drain is the answer of TensorRT-LLM's POST /kv_cache_events: the events since the last call.
func (all Publishers) Drain() []json.RawMessage {
	out := []json.RawMessage{}
	for _, p := range all {
		out = append(out, p.drain()...)
	}
	return out
}

// Sources is the answer of vLLM's GET /kv_event_sources.
func (all Publishers) Sources() any {
	out := map[string]any{}
	for _, p := range all {
		source := map[string]any{
			"endpoint": everywhere(p.events), "replay_endpoint": everywhere(p.again), "topic": p.topic,
		}
		if p.out {
			source["endpoint"], source["replay_endpoint"] = "tcp://"+p.events, nil
		}
		out[strconv.Itoa(p.rank)] = source
	}
	return out
}

// everywhere is the address in the configuration of an engine that listens on all interfaces.
func everywhere(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return "tcp://*:" + port
}

// Info is the part of SGLang's /server_info about KV events; nil without.
func (all Publishers) Info() any {
	if len(all) == 0 {
		return nil
	}
	first := all[0]
	host, events, _ := net.SplitHostPort(first.events)
	out := map[string]any{
		"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": json.Number(events), "topic": first.topic,
		"block_size": first.size, "dp_size": len(all),
	}
	if first.out {
		out["endpoint_host"] = host
		return out
	}
	_, again, _ := net.SplitHostPort(first.again)
	out["replay_endpoint_port_base"] = json.Number(again)
	return out
}
