package engine

import (
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// readKVSources reads vLLM's /kv_event_sources (since 0.32): the address of the KV events of each data-parallel rank.
func readKVSources(a Answer, r *fleet.Report) error {
	var ranks map[string]struct {
		Events string `json:"endpoint"`
		Replay string `json:"replay_endpoint"`
		Topic  string `json:"topic"`
	}
	if err := decode(a, &ranks); err != nil {
		return err
	}
	var sources []fleet.KVSource
	first, found := -1, 0
	for n := 0; n < maxRanks && found < len(ranks); n++ {
		s, ok := ranks[strconv.Itoa(n)]
		if !ok {
			continue
		}
		if found++; first < 0 {
			first = n // ranks are counted from it, as endpoints are
		}
		if s.Events != "" && len(s.Events)+len(s.Replay)+len(s.Topic) <= 4*maxNameBytes {
			sources = append(sources, fleet.KVSource{
				Rank: n - first, Events: s.Events, Replay: s.Replay, Topic: s.Topic,
			})
		}
	}
	if sources != nil {
		r.KVSources = sources
	}
	return nil
}

// tcpAddress is a ZeroMQ address; "" for an invalid port.
func tcpAddress(host string, port, rank int) string {
	if port < 1 || port+rank > 65535 {
		return ""
	}
	if strings.ContainsRune(host, ':') {
		host = "[" + host + "]"
	}
	return "tcp://" + host + ":" + strconv.Itoa(port+rank)
}
